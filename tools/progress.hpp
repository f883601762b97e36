#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace vkattn::tools {

// All of it goes to the standard error stream, if that is a terminal; else nothing does.

// "3 / 100 runs".
void show_progress(std::uint32_t done, std::uint32_t total);

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
