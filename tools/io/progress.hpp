#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace vkattn::tools {

// All of it goes to the standard error stream, if that is a terminal; else nothing does.

// Measurements one after the other: "kv_len 4096 (3 of 8), about 40 s left: 12 / 100 runs". Wiped away at its end.
class Progress {
  public:
    explicit Progress(std::size_t measurements) : measurements_(measurements) {}
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // seconds_left: of this measurement and all that follow; absent: nobody knows yet.
    void begin(std::string what, std::optional<double> seconds_left);
    void runs(std::uint32_t done, std::uint32_t total);
    // The line without its runs.
    std::string text() const;

  private:
    using Clock = std::chrono::steady_clock;

    void show(const std::string &line);

    std::size_t measurements_;
    std::size_t begun_ = 0;
    std::string what_;
    Clock::time_point start_{};
    std::optional<double> seconds_left_; // at the start
    std::size_t shown_ = 0;              // characters that stand there
};

// "tuning: 5 s", from the third second of its life on, wiped away at its end. Nothing else may be printed meanwhile.
class Waiting {
  public:
    explicit Waiting(std::string what);
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;
    ~Waiting();

  private:
    void tell();

    std::string what_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool ends_ = false; // under mutex_
    std::thread thread_;
};

} // namespace vkattn::tools
