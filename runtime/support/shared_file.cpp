#include "runtime/support/shared_file.hpp"

#include "runtime/support/error.hpp"

#include <array>
#include <thread>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif

namespace vkattn {

#ifdef _WIN32

namespace {

HANDLE handle_of(intptr_t value) { return reinterpret_cast<HANDLE>(value); }

std::wstring wide(const std::string &text) {
    const int size = MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
    std::wstring result(static_cast<size_t>(size), L'\0');
    MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), result.data(), size);
    return result;
}

// A byte far behind the end: what is locked nobody else may read.
OVERLAPPED locked_byte() {
    OVERLAPPED place{};
    place.OffsetHigh = 1u << 30;
    return place;
}

} // namespace

SharedFile::SharedFile(const std::string &path)
    : handle_(reinterpret_cast<intptr_t>(CreateFileW(wide(path).c_str(), FILE_GENERIC_READ | FILE_GENERIC_WRITE,
                                                     FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                                     OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr))) {
    require(handle_of(handle_) != INVALID_HANDLE_VALUE, path,
            ": cannot be opened or made, expected the name of a file that can be read and written");
}

SharedFile::~SharedFile() { CloseHandle(handle_of(handle_)); }

bool SharedFile::try_lock() noexcept {
    OVERLAPPED place = locked_byte();
    return LockFileEx(handle_of(handle_), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place) != 0;
}

void SharedFile::unlock() noexcept {
    OVERLAPPED place = locked_byte();
    UnlockFileEx(handle_of(handle_), 0, 1, 0, &place);
}

std::string SharedFile::read(uint64_t from) const {
    std::string text;
    std::array<char, 4096> part{};
    for (;;) {
        OVERLAPPED place{};
        place.Offset = static_cast<DWORD>(from);
        place.OffsetHigh = static_cast<DWORD>(from >> 32);
        DWORD bytes = 0;
        if (ReadFile(handle_of(handle_), part.data(), static_cast<DWORD>(part.size()), &bytes, &place) == 0 ||
            bytes == 0)
            return text;
        text.append(part.data(), bytes);
        from += bytes;
    }
}

bool SharedFile::append_to(intptr_t handle, std::string_view bytes) noexcept {
    OVERLAPPED end{};
    end.Offset = end.OffsetHigh = 0xffffffff; // appends
    DWORD written = 0;
    return WriteFile(handle_of(handle), bytes.data(), static_cast<DWORD>(bytes.size()), &written, &end) != 0 &&
           written == bytes.size();
}

bool SharedFile::append(std::string_view bytes, bool durable) noexcept {
    return append_to(handle_, bytes) && (!durable || FlushFileBuffers(handle_of(handle_)) != 0);
}

void SharedFile::clear() noexcept {
    SetFilePointer(handle_of(handle_), 0, nullptr, FILE_BEGIN);
    SetEndOfFile(handle_of(handle_));
}

#else

SharedFile::SharedFile(const std::string &path)
    : handle_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    require(handle_ >= 0, path, ": cannot be opened or made, expected the name of a file that can be read and written");
}

SharedFile::~SharedFile() { close(static_cast<int>(handle_)); }

bool SharedFile::try_lock() noexcept { return flock(static_cast<int>(handle_), LOCK_EX | LOCK_NB) == 0; }

void SharedFile::unlock() noexcept { flock(static_cast<int>(handle_), LOCK_UN); }

std::string SharedFile::read(uint64_t from) const {
    std::string text;
    std::array<char, 4096> part{};
    for (;;) {
        const ssize_t bytes =
            pread(static_cast<int>(handle_), part.data(), part.size(), static_cast<off_t>(from + text.size()));
        if (bytes <= 0) return text;
        text.append(part.data(), static_cast<size_t>(bytes));
    }
}

bool SharedFile::append_to(intptr_t handle, std::string_view bytes) noexcept {
    return write(static_cast<int>(handle), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

bool SharedFile::append(std::string_view bytes, bool durable) noexcept {
    return append_to(handle_, bytes) && (!durable || fsync(static_cast<int>(handle_)) == 0);
}

void SharedFile::clear() noexcept {
    if (ftruncate(static_cast<int>(handle_), 0) != 0) return; // it stays as long as it is
}

#endif

bool SharedFile::lock(std::chrono::milliseconds longest) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!try_lock()) {
        if (std::chrono::steady_clock::now() >= end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

} // namespace vkattn
