#pragma once

#include "runtime/layers/cache_sizes.hpp"
#include "runtime/layers/page_table.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/plan/builder.hpp"
#include "runtime/support/usage.hpp"
#include "runtime/vulkan/memory.hpp"

#include <functional>
#include <optional>
#include <span>

namespace vkattn {

// Keys and values of earlier tokens on the device, and how many there are of each sequence: on the device, where
// recorded commands read and advance it, and on the host, which refuses appends beyond the capacity beforehand.
class Cache : public Growing {
  public:
    Cache(Context &context, const CacheSizes &sizes);

    Context &context() const { return context_; }
    const CacheSizes &sizes() const { return sizes_; }
    Usage &usage() { return usage_; } // of the tokens it holds
    uint64_t bytes() const;           // of device memory
    std::vector<const Buffer *> buffers() const;

    // [B,H,capacity,width], or [pages,H,page_len,width]; values absent if there are none
    View keys() const { return view_of(key_layout_, keys_); }
    View values() const { return view_of(value_layout_, values_); }
    View lengths() const { return view_of(lengths_layout_, lengths_); } // I32 [B]
    View block_table() const { return view_of(table_layout_, table_); } // I32 [B, pages of the capacity], or absent
    View part(vkattn_cache_part part) const;                            // absent if there is none
    View
    scales_of(vkattn_cache_part part) const; // of KEYS or VALUES: F32 [X,H,L,1] or shared; absent if there are none
    bool makes_scales(vkattn_cache_part part) const; // whether appends do, of the rows
    bool is_rotated(vkattn_cache_part part) const {
        return part == VKATTN_CACHE_VALUES ? sizes_.rotation.value : sizes_.rotation.key;
    }

    std::span<const uint32_t> host_lengths() const { return host_lengths_; }
    uint32_t free_pages() const { return pages_.free_pages(); }

    // Counts an append of so many tokens to each sequence, or one number for all, and gives them pages. Fails before
    // anything is changed if one has no room.
    void reserve(std::span<const uint32_t> tokens);
    // Takes back what reserve counted to every sequence, if it was not submitted. Pages stay with their sequences, for
    // what they get next.
    void release(uint32_t tokens);

    std::unique_ptr<RunHold> grow(uint32_t tokens) override;

    void rewind(uint32_t sequence, uint32_t length);
    // The same, but that `tokens` of the later ones, ascending, come to stand behind the first `length`.
    void keep(uint32_t sequence, uint32_t length, std::span<const uint32_t> tokens);
    void copy_from(const Cache &from, uint32_t from_sequence, uint32_t to_sequence);
    void share_prefix(uint32_t from_sequence, uint32_t to_sequence, uint32_t length);
    // F32 [heads, length, width] of one sequence.
    void read(vkattn_cache_part part, uint32_t sequence, std::span<float> values) const;

  private:
    // What a change of the cache brings to the device, in one submission.
    struct Change {
        PageTable pages;                             // as they are then
        std::function<void(VkCommandBuffer)> copy{}; // before all else; empty: nothing
        std::optional<uint32_t> sequence{};          // whose length is set
        uint32_t length = 0;
    };

    static View view_of(const vkattn_tensor &layout, const std::unique_ptr<Buffer> &buffer) {
        if (buffer == nullptr) return {};
        return {layout, {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer->handle(), 0}};
    }
    bool paged() const { return sizes_.page_len > 0; }
    void require_sequence(uint32_t sequence, const char *name = "sequence") const;
    void make(Change change);
    void reserve_pages(std::span<const uint32_t> lengths);
    std::vector<View> parts_of_rows() const; // what each token and head has its own of
    void move_token(VkCommandBuffer commands, uint32_t sequence, uint32_t from, uint32_t to) const;
    void copy_pages(VkCommandBuffer commands, std::span<const PageTable::Copy> copies) const;

    Context &context_;
    Usage usage_{"cache"};
    CacheSizes sizes_;
    vkattn_tensor key_layout_, value_layout_, key_scales_layout_, value_scales_layout_, lengths_layout_, table_layout_;
    std::unique_ptr<Buffer> keys_, values_, key_scales_, value_scales_, lengths_, table_;
    std::vector<uint32_t> host_lengths_;
    PageTable pages_;
};

// The room of an append, while the plan that makes it runs: the cache is in change meanwhile.
class CacheRoom : public RunHold {
  public:
    CacheRoom(Cache &cache, uint32_t tokens) : cache_(cache), tokens_(tokens), alone_(cache.usage()) {
        cache_.reserve({&tokens_, 1});
    }
    void not_submitted() override { cache_.release(tokens_); }

  private:
    Cache &cache_;
    uint32_t tokens_;
    InChange alone_;
};

// Adds what counts the plan's new tokens, and makes its runs count them on the host; packed tokens, of which `total` are given, are
// counted there by the caller. The caller adds a barrier before, after everything that reads the lengths.
void add_count(PlanBuilder &builder, Cache &cache, const Positions &tokens, uint32_t total);

// An append without a layer. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, what it is and what was
// expected.
void plan_cache_append(PlanBuilder &builder, Cache &cache, const vkattn_cache_append_desc &desc);

} // namespace vkattn
