#pragma once

#include "runtime/layers/cache_sizes.hpp"
#include "runtime/plan/builder.hpp"
#include "runtime/support/usage.hpp"
#include "runtime/vulkan/memory.hpp"

#include <span>

namespace vkattn {

// Keys and values of earlier tokens on the device, and how many there are of each sequence: on the device, where
// recorded commands read and advance it, and on the host, which refuses appends beyond the capacity beforehand.
class Cache {
  public:
    Cache(Context &context, const CacheSizes &sizes);

    Context &context() const { return context_; }
    const CacheSizes &sizes() const { return sizes_; }
    Usage &usage() { return usage_; }                                    // of the tokens it holds
    uint64_t bytes() const;                                              // of device memory
    View keys() const { return {key_layout_, owned(*keys_)}; }           // [B,H,capacity,key_width]
    View values() const;                                                 // [B,H,capacity,value_width]; absent if none
    View lengths() const { return {lengths_layout_, owned(*lengths_)}; } // I32 [B]

    std::span<const uint32_t> host_lengths() const { return host_lengths_; }

    // Counts an append of so many tokens to every sequence. Fails before anything is counted if one has no room.
    void reserve(uint32_t tokens);
    // Takes back what reserve counted, if it was not submitted.
    void release(uint32_t tokens);

    void rewind(uint32_t sequence, uint32_t length);
    void copy_from(const Cache &from, uint32_t from_sequence, uint32_t to_sequence);
    // F32 [heads, length, width] of one sequence.
    void read(const View &part, uint32_t sequence, std::span<float> values) const;

  private:
    static Source owned(const Buffer &buffer) {
        return {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer.handle(), 0};
    }
    void require_sequence(uint32_t sequence) const;
    void copy_rows(VkCommandBuffer commands, const View &from, uint32_t from_sequence, const View &to,
                   uint32_t to_sequence, uint32_t rows) const;

    Context &context_;
    Usage usage_{"cache"};
    CacheSizes sizes_;
    vkattn_tensor key_layout_, value_layout_, lengths_layout_;
    std::unique_ptr<Buffer> keys_, values_, lengths_;
    std::vector<uint32_t> host_lengths_;
};

// The room of an append, while the plan that makes it runs: the cache is in change meanwhile.
class CacheRoom : public RunHold {
  public:
    CacheRoom(Cache &cache, uint32_t tokens) : cache_(cache), tokens_(tokens), alone_(cache.usage()) {
        cache_.reserve(tokens_);
    }
    void not_submitted() override { cache_.release(tokens_); }

  private:
    Cache &cache_;
    uint32_t tokens_;
    InChange alone_;
};

// Adds what counts a call's new tokens, after everything that reads the lengths.
void add_advance(PlanBuilder &builder, const Cache &cache, uint32_t tokens);

} // namespace vkattn
