#include "runtime/device/crash_journal.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>

namespace vkattn {
namespace {

constexpr std::string_view kHeading = "vkattn crash journal 1\n";
constexpr std::chrono::milliseconds kLongestWait{2000}; // for another process
constexpr size_t kMostBytes = 1 << 20;                  // that a journal has when it is opened

// The files of journals whose attempts are open, for handlers of signals and for the end of the process.
constexpr intptr_t kNone = -1;
struct OpenFiles {
    std::array<std::atomic<intptr_t>, 64> handles;
    std::array<std::atomic<bool>, 64> taken{}; // by a journal
    OpenFiles() {
        for (auto &handle : handles) handle = kNone;
    }
    // Returns a place of a journal's own; the last is everybody's.
    size_t take() noexcept {
        size_t slot = 0;
        while (slot + 1 < taken.size() && taken[slot].exchange(true)) ++slot;
        return slot;
    }
    ~OpenFiles() { withdraw(); } // an orderly end
    void withdraw() noexcept {
        for (auto &handle : handles)
            if (const intptr_t file = handle.exchange(kNone); file != kNone) SharedFile::append_to(file, "~\n");
    }
};
OpenFiles open_files;

std::string line_of(char event, const Attempt &attempt) {
    std::array<char, 64> head{};
    std::snprintf(head.data(), head.size(), "%c %016" PRIx64 " %016" PRIx64 " %c", event, attempt.device, attempt.what,
                  static_cast<char>(attempt.stage));
    if (event != '+') return text(head.data(), "\n");
    return text(head.data(), " ", attempt.paths, " ", attempt.words, " ", attempt.shader, "\n");
}

} // namespace

std::string failure_text(const Attempt &failed) {
    const char *what = failed.stage == Stage::kBuild ? "the driver built its pipeline"
                       : failed.stage == Stage::kRun ? "it ran for the first time"
                                                     : "the driver was asked for them";
    const std::string paths = path_names(failed.paths);
    return text("crash journal: ", failed.shader, paths.empty() ? "" : ", ", paths,
                ": the process ended or lost the device while ", what);
}

std::shared_ptr<CrashJournal> CrashJournal::open(const std::string &path) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<CrashJournal>> journals;
    const std::lock_guard lock(mutex);
    std::weak_ptr<CrashJournal> &known = journals[path];
    std::shared_ptr<CrashJournal> journal = known.lock();
    if (journal == nullptr) known = journal = std::shared_ptr<CrashJournal>(new CrashJournal(path));
    return journal;
}

CrashJournal::CrashJournal(const std::string &path) : file_(path), slot_(open_files.take()) {
    const std::string begin = file_.read(0);
    require(begin.starts_with(kHeading) || kHeading.starts_with(begin), path,
            ": holds something else, which is left as it is; expected a crash journal or a new name");
    if (!take_lock()) { // another process is at something, and alive
        read_on();
        return;
    }
    if (read_bytes_ < kHeading.size() || begin.size() > kMostBytes) rewrite();
    give_lock();
}

CrashJournal::~CrashJournal() {
    if (!own_.empty()) give_lock();
    open_files.taken[slot_] = false;
}

// With the lock, everything is known that others have written.
bool CrashJournal::take_lock() {
    if (!own_.empty()) return true;
    static std::atomic<bool> is_patient{true}; // who has waited in vain does not wait again
    is_patient = file_.lock(is_patient ? kLongestWait : std::chrono::milliseconds(0));
    if (!is_patient) return false;
    read_on();
    judge_the_dead();
    return true;
}

void CrashJournal::give_lock() noexcept {
    open_files.handles[slot_] = kNone;
    file_.unlock();
}

void CrashJournal::read_on() {
    const std::string more = file_.read(read_bytes_);
    size_t begin = 0;
    for (size_t end = more.find('\n'); end != std::string::npos; end = more.find('\n', begin)) {
        read_line(more.substr(begin, end - begin));
        begin = end + 1;
    }
    read_bytes_ += begin;
}

// A line that is none, since a process ended while it wrote it, says nothing.
void CrashJournal::read_line(const std::string &line) {
    if (line == "~") {
        std::erase_if(known_, [](const auto &each) { return each.second.state == State::kOpen; });
        return;
    }
    char event = 0, stage = 0;
    int name = 0;
    Attempt attempt;
    const int fields = std::sscanf(line.c_str(), "%c %" SCNx64 " %" SCNx64 " %c %" SCNu32 " %" SCNu32 " %n", &event,
                                   &attempt.device, &attempt.what, &stage, &attempt.paths, &attempt.words, &name);
    if (fields < 4) return;
    attempt.stage = static_cast<Stage>(stage);
    const Key key = key_of(attempt);
    if (event == '+' && fields == 6 && name > 0) {
        attempt.shader = line.substr(static_cast<size_t>(name));
        known_.try_emplace(key, Known{std::move(attempt), State::kOpen});
    } else if (const auto found = known_.find(key); found != known_.end()) {
        if (event == '~' && found->second.state == State::kOpen) known_.erase(found);
        if (event == '-' && found->second.state == State::kOpen) found->second.state = State::kSurvived;
        if (event == '!') found->second.state = State::kFailed;
    }
}

// The lock is held, so that what is open and not this process' own was that of one that has ended.
void CrashJournal::judge_the_dead() {
    const Attempt *blamed = nullptr;
    std::string lines;
    for (const auto &[key, known] : known_)
        if (known.state == State::kOpen && !own_.contains(key) &&
            (blamed == nullptr || known.attempt.words > blamed->words))
            blamed = &known.attempt;
    if (blamed == nullptr) return;
    lines = "\n" + line_of('!', *blamed) + "~\n"; // what it did not end, too
    file_.append(lines, true);
    read_on();
}

// Begins the file, and keeps what has failed; what has survived is noted again.
void CrashJournal::rewrite() {
    std::string lines(kHeading);
    for (const auto &[key, known] : known_)
        if (known.state == State::kFailed) lines += line_of('+', known.attempt) + line_of('!', known.attempt);
    file_.clear();
    file_.append(lines, true);
    known_.clear();
    read_bytes_ = 0;
    read_on();
}

std::vector<Attempt> CrashJournal::failed(uint64_t device) {
    const std::lock_guard lock(mutex_);
    std::vector<Attempt> all;
    for (const auto &[key, known] : known_)
        if (known.state == State::kFailed && known.attempt.device == device) all.push_back(known.attempt);
    return all;
}

bool CrashJournal::has_failed(const Attempt &attempt) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key_of(attempt));
    return found != known_.end() && found->second.state == State::kFailed;
}

bool CrashJournal::knows_all(std::span<const Attempt> attempts) {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(attempts, [&](const Attempt &each) { return known_.contains(key_of(each)); });
}

std::vector<Attempt> CrashJournal::begin(std::span<const Attempt> attempts) {
    const std::lock_guard lock(mutex_);
    const auto is_new = [&](const Attempt &each) { return !known_.contains(key_of(each)); };
    if (std::ranges::none_of(attempts, is_new) || !take_lock()) return {};
    std::vector<Attempt> begun;
    std::string lines;
    for (const Attempt &attempt : attempts)
        if (is_new(attempt)) {
            begun.push_back(attempt);
            lines += line_of('+', attempt);
            known_.emplace(key_of(attempt), Known{attempt, State::kOpen});
            own_.insert(key_of(attempt));
        }
    if (own_.empty()) {
        give_lock();
        return {};
    }
    open_files.handles[slot_] = file_.handle();
    file_.append(lines, true); // a file system without room leaves what is tried unnoted
    return begun;
}

void CrashJournal::end(std::span<const Attempt> begun, Outcome outcome) noexcept {
    const std::lock_guard lock(mutex_);
    try {
        std::string lines;
        for (const Attempt &attempt : begun) lines += line_of(static_cast<char>(outcome), attempt);
        file_.append(lines, outcome == Outcome::kFailed);
        read_on();
    } catch (const std::exception &) { // no memory: what is begun stays open, and counts as failed
    }
    for (const Attempt &attempt : begun) own_.erase(key_of(attempt));
    if (own_.empty()) give_lock();
}

void CrashJournal::withdraw_all() noexcept { open_files.withdraw(); }

} // namespace vkattn
