// Stands before Mesa's shim of Adreno's kernel driver, and writes a line of JSON for each dispatch and copy that Turnip submits: what
// an executor would have to run (adreno.md). Nothing is executed. $VKATTN_ADRENO_COMMANDS: the file; standard error without it.
#include "memory_map.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace execute {

namespace {

// Requests of the kernel's msm driver, by number; their structures as its header has them.
enum Request : uint32_t { kCreateBuffer = 0x42, kBufferInformation = 0x43, kSubmit = 0x46 };
constexpr uint32_t kMapOffset = 0, kGpuAddress = 1, kSetGpuAddress = 4;

struct CreateBuffer {
    uint64_t bytes;
    uint32_t flags, handle;
};
struct BufferInformation {
    uint32_t handle, kind;
    uint64_t value;
    uint32_t length, padding;
};
struct SubmittedBuffer {
    uint32_t flags, handle;
    uint64_t presumed;
};
struct SubmittedCommands {
    uint32_t kind, buffer, offset, bytes, padding, relocations;
    uint64_t relocation_list;
};
struct Submit {
    uint32_t flags, fence, buffer_count, command_count;
    uint64_t buffers, commands;
};

// Packets and registers: adreno_pm4.xml and a6xx.xml of Mesa, of 7xx GPUs.
enum Operation : uint32_t {
    kBlit = 0x2c,
    kDispatch = 0x33,
    kLoadState = 0x34,
    kCommandBuffer = 0x3f,
    kRegisterPairs = 0x5c
};
enum Register : uint32_t {
    kControl = 0xa9b0,
    kSharedSize = 0xa9b1,
    kCode = 0xa9b4,
    kCodeSize = 0xa9bc,
    kWorkgroupSize = 0xa9d4,
    kDescriptors = 0xa9e8
};
constexpr uint32_t kConstants = 1, kComputeBlock = 13;

struct Buffer {
    uint64_t bytes = 0, address = 0;
};
std::map<uint32_t, Buffer> buffers;     // by handle
std::map<uint64_t, uint32_t> handles;   // by the offset to map them by
std::map<uint32_t, uint32_t> registers; // as the last packet left them
uint32_t constant_words = 0;            // of the next dispatch

FILE *output() {
    static FILE *const file = [] {
        const char *name = std::getenv("VKATTN_ADRENO_COMMANDS");
        FILE *opened = name ? std::fopen(name, "w") : stderr;
        if (opened) return opened;
        std::fprintf(stderr, "adreno_commands: VKATTN_ADRENO_COMMANDS '%s' cannot be written, expected a file\n", name);
        std::_Exit(98);
    }();
    return file;
}

unsigned long long address_in(uint32_t first) { return uint64_t{registers[first + 1]} << 32 | registers[first]; }

void print_dispatch(const uint32_t *grid) {
    const uint32_t size = registers[kWorkgroupSize];
    std::fprintf(output(),
                 "{\"kind\": \"dispatch\", \"groups\": [%u, %u, %u], \"workgroup\": [%u, %u, %u], \"code\": %llu, "
                 "\"code_bytes\": %u, \"lanes\": %d, \"shared_bytes\": %u, \"constants\": %u, \"descriptors\": %llu}\n",
                 grid[1], grid[2], grid[3], (size >> 2 & 1023) + 1, (size >> 12 & 1023) + 1, (size >> 22) + 1,
                 address_in(kCode), registers[kCodeSize] * 128, registers[kControl] >> 20 & 1 ? 128 : 64,
                 ((registers[kSharedSize] & 31) + 1) * 1024, constant_words, address_in(kDescriptors) & ~63ull);
    std::fflush(output());
    constant_words = 0;
}

void read_commands(uint64_t address, uint32_t words);

void read_operation(uint32_t operation, const uint32_t *words, uint32_t count) {
    switch (operation) {
    case kDispatch:
        return print_dispatch(words);
    case kBlit:
        std::fprintf(output(), "{\"kind\": \"copy\"}\n");
        return;
    case kCommandBuffer:
        return read_commands(uint64_t{words[1]} << 32 | words[0], words[2] & 0xfffff);
    case kLoadState:
        if ((words[0] >> 14 & 3) == kConstants && (words[0] >> 18 & 15) == kComputeBlock)
            constant_words += (words[0] >> 22) * 4;
        return;
    case kRegisterPairs:
        for (uint32_t i = 0; i + 1 < count; i += 2) registers[words[i]] = words[i + 1];
        return;
    default: // flushes, waits, modes
        return;
    }
}

void read_commands(uint64_t address, uint32_t words) {
    const auto *at = reinterpret_cast<const uint32_t *>(memory().at(address, uint64_t{words} * 4));
    if (!at) {
        std::fprintf(stderr, "adreno_commands: commands at 0x%llx lie in no buffer that was mapped\n",
                     static_cast<unsigned long long>(address));
        std::_Exit(98);
    }
    for (const uint32_t *end = at + words; at < end;) {
        const uint32_t header = *at++, kind = header >> 28;
        const uint32_t count = kind == 4 ? header & 0x7f : header & 0x3fff;
        if (kind == 4)
            for (uint32_t i = 0; i < count; ++i) registers[(header >> 8 & 0x3ffff) + i] = at[i];
        if (kind == 7) read_operation(header >> 16 & 0x7f, at, count);
        at += count;
    }
}

void submit(const Submit &request) {
    const auto *list = reinterpret_cast<const SubmittedBuffer *>(request.buffers);
    const auto *commands = reinterpret_cast<const SubmittedCommands *>(request.commands);
    for (uint32_t i = 0; i < request.command_count; ++i)
        read_commands(buffers[list[commands[i].buffer].handle].address + commands[i].offset, commands[i].bytes / 4);
}

void note(uint32_t number, const void *argument) {
    if (number == kCreateBuffer) {
        const auto &made = *static_cast<const CreateBuffer *>(argument);
        buffers[made.handle] = {(made.bytes + 4095) & ~4095ull, 0};
    }
    if (number == kSubmit) submit(*static_cast<const Submit *>(argument));
    if (number != kBufferInformation) return;
    const auto &told = *static_cast<const BufferInformation *>(argument);
    if (told.kind == kMapOffset) handles[told.value] = told.handle;
    if (told.kind == kGpuAddress || told.kind == kSetGpuAddress) buffers[told.handle].address = told.value;
}

std::recursive_mutex mutex;

void *map_buffer(void *host, off_t offset) {
    const std::lock_guard lock(mutex);
    const auto found = handles.find(static_cast<uint64_t>(offset));
    if (host == MAP_FAILED || found == handles.end()) return host;
    const Buffer &buffer = buffers[found->second];
    if (buffer.address != 0) memory().map(buffer.address, buffer.bytes, static_cast<uint8_t *>(host));
    return host;
}

} // namespace
} // namespace execute

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE int ioctl(int file, unsigned long request, ...) noexcept {
    static const auto next = reinterpret_cast<int (*)(int, unsigned long, ...)>(dlsym(RTLD_NEXT, "ioctl"));
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    const int result = next(file, request, argument);
    if (result != 0 || (request >> 8 & 255) != 'd') return result;
    const std::lock_guard lock(execute::mutex);
    execute::note(request & 255, argument);
    return result;
}

VISIBLE void *mmap64(void *wanted, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
    static const auto next =
        reinterpret_cast<void *(*)(void *, size_t, int, int, int, off64_t)>(dlsym(RTLD_NEXT, "mmap64"));
    void *host = next(wanted, bytes, protection, flags, file, offset);
    return file < 0 ? host : execute::map_buffer(host, offset);
}
