// Device memory that ONNX Runtime's tensors lie in.
#pragma once

#include "runtime.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vkattn_ort {

class Memory;

// Memory for the steps between two tensors; given back when the last owner goes. What is submitted by then may still use
// it: whoever gets it next waits for that on the queue.
class Scratch {
  public:
    Scratch(Memory &memory, std::size_t bytes);
    ~Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    void *address() const { return address_; }
    vkattn_region region() const;

  private:
    Memory &memory_;
    void *address_;
};

// The buffers of a device, by addresses that stand for them: ONNX Runtime counts on with addresses, and no host reads there.
class Memory {
  public:
    explicit Memory(const vkattn::Context &context) : context_(context) {}
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    // Returns the address of a buffer of so many bytes, a kept one where there is one; nullptr for 0 bytes.
    void *allocate(std::size_t bytes);
    void release(void *address) noexcept;

    // Returns the rest of its buffer from an address on.
    vkattn_region region(const void *address) const;

    // Copy and wait. Small tensors that the host has written are kept there as well, so that reading them waits for nothing.
    void write(void *to, const void *from, std::size_t bytes);
    void read(void *to, const void *from, std::size_t bytes) const;
    void copy(void *to, const void *from, std::size_t bytes);

    // Says that commands will write there.
    void forget_host_copy(const void *address, std::size_t bytes);

    // Returns memory that holds these bytes: what was made for the same bytes lately, else it is made and written.
    std::shared_ptr<Scratch> holding(std::span<const std::byte> bytes);

  private:
    struct Block {
        vkattn::Buffer buffer;
        std::size_t bytes = 0;
        bool used = false;
        std::map<std::size_t, std::vector<std::byte>> host_copies; // by offset
    };
    using Blocks = std::map<std::uintptr_t, Block>;

    std::pair<const std::uintptr_t, Block> &find(const void *address);
    const std::pair<const std::uintptr_t, Block> &find(const void *address) const;
    void *take_kept(std::size_t bytes);
    void *create(std::size_t bytes);
    void destroy_kept();
    static void erase_copies(Block &block, std::size_t offset, std::size_t bytes);

    const vkattn::Context &context_;
    mutable std::mutex mutex_;
    Blocks blocks_;
    std::multimap<std::size_t, std::uintptr_t> kept_; // not used now, by size
    std::size_t used_bytes_ = 0;
    std::size_t kept_bytes_ = 0;
    std::uintptr_t next_address_ = std::uintptr_t{1} << (sizeof(std::uintptr_t) * 8 - 18);
    struct Held {
        std::vector<std::byte> bytes;
        std::shared_ptr<Scratch> memory;
    };
    std::mutex held_mutex_;
    std::list<Held> held_; // those asked for last at the front
    std::size_t held_bytes_ = 0;
};

} // namespace vkattn_ort
