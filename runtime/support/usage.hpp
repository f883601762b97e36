// What the interface leaves to the caller to synchronise, checked in debug builds (without NDEBUG): whoever destroys or
// changes an object while it is in use gets a message, and the program ends.
#pragma once

#ifndef NDEBUG
#include <atomic>
#include <cstdio>
#include <cstdlib>
#endif

namespace vkattn {

#ifdef NDEBUG

struct Usage {
    explicit Usage(const char *) {}
};

struct [[maybe_unused]] InUse {
    explicit InUse(Usage &) {}
};

struct [[maybe_unused]] InChange {
    explicit InChange(Usage &) {}
};

#else

class Usage {
  public:
    explicit Usage(const char *object) : object_(object) {}
    Usage(const Usage &) = delete;
    Usage &operator=(const Usage &) = delete;

  private:
    friend class InUse;
    friend class InChange;
    static constexpr int kAlone = -1;

    [[noreturn]] void fail(const char *what) const {
        std::fprintf(stderr, "vkattn: %s: %s, expected the caller to synchronise that\n", object_, what);
        std::abort();
    }

    const char *object_;
    std::atomic<int> users_{0}; // kAlone while it is changed
};

// Any number may use an object at once, ...
class InUse {
  public:
    explicit InUse(Usage &usage) : usage_(usage) {
        int users = usage.users_.load();
        do
            if (users == Usage::kAlone) usage.fail("used while it is changed or destroyed");
        while (!usage.users_.compare_exchange_weak(users, users + 1));
    }
    InUse(const InUse &) = delete;
    InUse &operator=(const InUse &) = delete;
    ~InUse() { --usage_.users_; }

  private:
    Usage &usage_;
};

// ... and one may change or destroy it, alone.
class InChange {
  public:
    explicit InChange(Usage &usage) : usage_(usage) {
        int none = 0;
        if (!usage.users_.compare_exchange_strong(none, Usage::kAlone))
            usage.fail("changed or destroyed while it is in use");
    }
    InChange(const InChange &) = delete;
    InChange &operator=(const InChange &) = delete;
    ~InChange() { usage_.users_ = 0; }

  private:
    Usage &usage_;
};

#endif

} // namespace vkattn
