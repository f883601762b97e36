#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn {

// A file that processes share, one of which at a time holds its lock, until it lets go or ends.
class SharedFile {
  public:
    // Opens the file, or makes it. path: UTF-8. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming it.
    explicit SharedFile(const std::string &path);
    ~SharedFile();
    SharedFile(const SharedFile &) = delete;
    SharedFile &operator=(const SharedFile &) = delete;

    // Waits at most so long for the lock. Returns whether it is held.
    bool lock(std::chrono::milliseconds longest);
    void unlock() noexcept;

    // Returns what stands behind the first so many bytes.
    std::string read(uint64_t from) const;
    // Appends. durable: returns once it would outlast the system. The lock must be held. Returns whether all went well.
    bool append(std::string_view bytes, bool durable) noexcept;
    // Drops its contents. The lock must be held.
    void clear() noexcept;

    // The system's handle; what append does with it, a handler of signals may do.
    intptr_t handle() const noexcept { return handle_; }
    static bool append_to(intptr_t handle, std::string_view bytes) noexcept;

  private:
    bool try_lock() noexcept;

    intptr_t handle_;
};

} // namespace vkattn
