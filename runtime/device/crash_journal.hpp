#pragma once

#include "runtime/device/code_paths.hpp"
#include "runtime/support/shared_file.hpp"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace vkattn {

// What a driver may end the process over.
enum class Stage : char { kQuery = 'q', kBuild = 'b', kRun = 'r' };

// Something that is tried for the first time.
struct Attempt {
    uint64_t device = 0; // with its driver and this library: identity_of
    uint64_t what = 0;   // the same in every run of the program
    Stage stage = Stage::kBuild;
    CodePaths paths = 0; // of the shader, that are off where it fails; 0: it has none
    uint32_t words = 0;  // of code
    std::string shader;  // as verdicts name it
};

// "crash journal: flash, f16: the process ended while the driver built its pipeline": why it is off.
std::string failure_text(const Attempt &failed);

// A file of lines that tells what is being tried, and what came of it: what a process that ended was at counts as failed, and
// costs one start. What a process tries it does with the lock of the file held; others wait a little, and then do not note what
// they try. Of several attempts that a process was at, the one of the most code is blamed, the others are tried again.
// Thread safe.
//
//   vkattn crash journal 1
//   + DEVICE WHAT STAGE PATHS WORDS SHADER   is tried
//   - DEVICE WHAT STAGE                      survived; !: failed; ~: withdrawn, will be tried again
//   ~                                        all that is being tried is withdrawn
class CrashJournal {
  public:
    enum class Outcome : char { kSurvived = '-', kFailed = '!', kWithdrawn = '~' };

    // The process' journal of that file, for as long as somebody has it. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the
    // file, where it cannot be read and written or holds something else.
    static std::shared_ptr<CrashJournal> open(const std::string &path);
    ~CrashJournal();
    CrashJournal(const CrashJournal &) = delete;
    CrashJournal &operator=(const CrashJournal &) = delete;

    // What has failed on the device.
    std::vector<Attempt> failed(uint64_t device);
    bool has_failed(const Attempt &attempt);
    bool knows_all(std::span<const Attempt> attempts); // of earlier or of now

    // Notes those of the attempts that nothing is known of; they need an end. Costs nothing for what has survived.
    std::vector<Attempt> begin(std::span<const Attempt> attempts);
    void end(std::span<const Attempt> begun, Outcome outcome) noexcept;

    // Withdraws what the process is trying, whatever the journal. Safe in a handler of signals.
    static void withdraw_all() noexcept;

  private:
    enum class State { kOpen, kSurvived, kFailed };
    using Key = std::tuple<uint64_t, uint64_t, Stage>;
    struct Known {
        Attempt attempt;
        State state;
    };

    explicit CrashJournal(const std::string &path);
    static Key key_of(const Attempt &attempt) { return {attempt.device, attempt.what, attempt.stage}; }
    bool take_lock();
    void read_on();
    void read_line(const std::string &line);
    void judge_the_dead();
    void rewrite();
    void give_lock() noexcept;

    std::mutex mutex_;
    SharedFile file_;
    uint64_t read_bytes_ = 0;
    std::map<Key, Known> known_;
    std::set<Key> own_; // that this process is at: the lock is held while there are any
    const size_t slot_; // for withdraw_all
};

// Attempts of one journal, if there is one, while they last; without an outcome they are withdrawn.
class Trying {
  public:
    Trying(std::shared_ptr<CrashJournal> journal, std::span<const Attempt> attempts)
        : journal_(std::move(journal)),
          begun_(journal_ != nullptr ? journal_->begin(attempts) : std::vector<Attempt>{}) {}
    ~Trying() { end(CrashJournal::Outcome::kWithdrawn); }
    Trying(Trying &&) = delete;
    Trying &operator=(Trying &&) = delete;

    void end(CrashJournal::Outcome outcome) noexcept {
        if (!begun_.empty()) journal_->end(begun_, outcome);
        begun_.clear();
    }

  private:
    std::shared_ptr<CrashJournal> journal_;
    std::vector<Attempt> begun_;
};

} // namespace vkattn
