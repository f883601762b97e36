#include "progress.hpp"

#include "terminal.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

namespace vkattn::tools {

void show_progress(std::uint32_t done, std::uint32_t total) {
    if (!is_terminal(stderr)) return;
    std::fprintf(stderr, "\r%u / %u runs%s", done, total, done == total ? "\n" : "");
    std::fflush(stderr);
}

Waiting::Waiting(std::string what) : what_(std::move(what)) {
    if (is_terminal(stderr)) thread_ = std::thread([this] { tell(); });
}

Waiting::~Waiting() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    ended_.notify_one();
    thread_.join();
}

void Waiting::tell() {
    constexpr int kSilentSeconds = 2;
    std::unique_lock lock(mutex_);
    int seconds = 0;
    while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return ends_; })) {
        if (++seconds <= kSilentSeconds) continue;
        std::fprintf(stderr, "\r%s: %d s", what_.c_str(), seconds);
        std::fflush(stderr);
    }
    if (seconds > kSilentSeconds) std::fprintf(stderr, "\r%*s\r", static_cast<int>(what_.size()) + 16, "");
}

} // namespace vkattn::tools
