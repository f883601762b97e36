// Stands before Mesa's shim: notes which memory lies at which GPU address, and executes what is submitted. Loaded before it
// by LD_PRELOAD.
#include "command_processor.hpp"
#include "counters.hpp"
#include "decoder.hpp"
#include "findings.hpp"
#include "memory_map.hpp"
#include "memory_races.hpp"
#include "removals.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <cstdarg>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace execute {
namespace {

// Requests of the kernel's amdgpu driver, by number; their structures as its header has them.
enum Request : uint32_t {
    kCloseBuffer = 0x09,
    kCreateBuffer = 0x40,
    kMapBuffer = 0x41,
    kSubmit = 0x44,
    kMapAddress = 0x48
};
constexpr uint32_t kOperationMap = 1, kOperationUnmap = 2, kOperationClear = 3, kOperationReplace = 4;
constexpr uint64_t kCreatedCleared = 1 << 3;
constexpr uint32_t kCommandsChunk = 1, kLastEngineOfShaders = 1;

struct CreateBuffer {
    uint64_t bytes, alignment, domains, flags;
};
struct MapAddress {
    uint32_t handle, padding, operation, flags;
    uint64_t address, offset, bytes;
};
struct Submit {
    uint32_t context, list, chunks, flags;
    uint64_t chunk_pointers;
};
struct Chunk {
    uint32_t kind, words;
    uint64_t data;
};
struct Commands {
    uint32_t padding, flags;
    uint64_t address;
    uint32_t bytes, engine, instance, ring;
};

int call(int file, unsigned long request, void *argument) {
    static const auto next = reinterpret_cast<int (*)(int, unsigned long, ...)>(dlsym(RTLD_NEXT, "ioctl"));
    return next(file, request, argument);
}

struct Buffer {
    uint64_t bytes = 0, flags = 0;
    uint8_t *host = nullptr;
    std::map<uint64_t, uint64_t> addresses; // bytes by GPU address
};
std::map<std::pair<int, uint32_t>, Buffer> buffers;

void poison(const Buffer &buffer) {
    for (uint64_t k = 0; k + 4 <= buffer.bytes; k += 4) memcpy(buffer.host + k, &kPoison, 4);
}

uint8_t *host_of(int file, uint32_t handle, Buffer &buffer) {
    if (buffer.host) return buffer.host;
    uint64_t argument[2] = {handle, 0};
    const unsigned long request = _IOWR('d', kMapBuffer, uint64_t[1]);
    if (call(file, request, argument) != 0) stop("the shim does not map a buffer");
    void *host = mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, off_t(argument[0]));
    if (host == MAP_FAILED) stop("a buffer cannot be mapped");
    buffer.host = static_cast<uint8_t *>(host);
    if (settings().poison_buffers && !(buffer.flags & kCreatedCleared)) poison(buffer);
    return buffer.host;
}

void unmap(uint64_t address, uint64_t bytes) {
    memory().unmap(address, bytes);
    forget_programs(address, bytes);
    forget_races(address, bytes);
}

void map_address(int file, const MapAddress &request) {
    const uint64_t bytes = (request.bytes + 4095) & ~4095ull;
    if (request.operation == kOperationUnmap || request.operation == kOperationClear) {
        unmap(request.address, bytes);
        return;
    }
    const bool maps = request.operation == kOperationMap || request.operation == kOperationReplace;
    const auto found = buffers.find({file, request.handle});
    if (!maps || found == buffers.end()) return;
    unmap(request.address, bytes);
    memory().map(request.address, bytes, host_of(file, request.handle, found->second) + request.offset);
    found->second.addresses[request.address] = bytes;
}

void close_buffer(int file, uint32_t handle) {
    const auto found = buffers.find({file, handle});
    if (found == buffers.end()) return;
    const Buffer &buffer = found->second;
    for (const auto &[address, bytes] : buffer.addresses)
        if (memory().at(address, 1) >= buffer.host && memory().at(address, 1) < buffer.host + buffer.bytes)
            unmap(address, bytes);
    if (buffer.host) munmap(buffer.host, buffer.bytes);
    buffers.erase(found);
}

void submit(const Submit &request) {
    counters().begin_submission();
    const auto *chunks = reinterpret_cast<const uint64_t *>(request.chunk_pointers);
    for (uint32_t k = 0; k < request.chunks; k++) {
        const auto *chunk = reinterpret_cast<const Chunk *>(chunks[k]);
        if (chunk->kind != kCommandsChunk) continue;
        const auto *commands = reinterpret_cast<const Commands *>(chunk->data);
        if (commands->engine > kLastEngineOfShaders) stop("commands are for an engine that is not known");
        note_flush(kSubmission);
        note_barrier_between_dispatches();
        run_commands(commands->address, commands->bytes / 4);
    }
}

int handle(int file, unsigned long request, void *argument) {
    const uint32_t number = request & 255;
    if (number == kSubmit) submit(*static_cast<const Submit *>(argument));
    if (number == kCloseBuffer) close_buffer(file, *static_cast<const uint32_t *>(argument));
    CreateBuffer create{};
    if (number == kCreateBuffer) create = *static_cast<const CreateBuffer *>(argument);
    const int result = call(file, request, argument);
    if (result != 0) return result;
    if (number == kCreateBuffer) {
        Buffer buffer;
        buffer.bytes = create.bytes; // the shim maps no more, not even the rest of a page
        buffer.flags = create.flags;
        buffers[{file, *static_cast<const uint32_t *>(argument)}] = buffer;
    }
    if (number == kMapAddress) map_address(file, *static_cast<const MapAddress *>(argument));
    return result;
}

} // namespace
} // namespace execute

extern "C" __attribute__((visibility("default"))) int ioctl(int file, unsigned long request, ...) noexcept {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if ((request >> 8 & 255) != 'd') return execute::call(file, request, argument);
    static std::recursive_mutex mutex;
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    return execute::handle(file, request, argument);
}
