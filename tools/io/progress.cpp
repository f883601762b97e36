#include "tools/io/progress.hpp"

#include "tools/io/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace vkattn::tools {

Progress::~Progress() { show(""); }

void Progress::begin(std::string what, std::optional<double> seconds_left) {
    ++begun_;
    what_ = std::move(what);
    start_ = Clock::now();
    seconds_left_ = seconds_left;
    show(text());
}

void Progress::runs(std::uint32_t done, std::uint32_t total) {
    show(text() + ": " + std::to_string(done) + " / " + std::to_string(total) + " runs");
}

std::string Progress::text() const {
    std::string line = what_ + " (" + std::to_string(begun_) + " of " + std::to_string(measurements_) + ")";
    if (!seconds_left_) return line;
    const std::chrono::duration<double> gone = Clock::now() - start_;
    return line + ", about " + std::to_string(std::lround(std::max(0.0, *seconds_left_ - gone.count()))) + " s left";
}

void Progress::show(const std::string &line) {
    if (!is_terminal(stderr)) return;
    const std::string blanks(shown_ > line.size() ? shown_ - line.size() : 0, ' ');
    std::fprintf(stderr, "\r%s%s%s", line.c_str(), blanks.c_str(), line.empty() ? "\r" : "");
    std::fflush(stderr);
    shown_ = line.size();
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
