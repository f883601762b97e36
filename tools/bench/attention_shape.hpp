// Attention problems by their sizes, as bench and tune take them from the command line.
#pragma once

#include "tools/tensors/safetensors.hpp"

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vkattn::tools {

struct AttentionShape {
    std::uint32_t batch = 1;
    std::uint32_t heads = 32;
    std::uint32_t kv_heads = 0; // 0: as many as heads
    std::uint32_t q_len = 1;
    std::uint32_t kv_len = 4096;
    std::uint32_t page_size = 0; // positions; 0: K and V are not in pages
    std::uint32_t head_dim = 128;
    std::uint32_t v_head_dim = 0; // 0: head_dim
    bool value_in_key = false;
    std::string dtype = "f16";
    std::string kv_dtype; // "": dtype
    bool causal = false;
    std::uint32_t block_size = 0;      // of a block mask, in queries and in keys; 0: none
    std::uint32_t visible_blocks = 25; // percent of each row of blocks, at least one
    std::uint32_t key_list = 0;        // keys that each query's list names; 0: there are no lists
    bool tree = false;                 // the queries are a draft in a tree, each behind some earlier one at random
    std::uint32_t index = 0;           // keys that are chosen for each query, in place of attention; 0: attention
    bool rotated = false;              // K and V are stored so
    std::string kv_scales = "none";    // of K and V: none, tensor, head, row
    float softcap = 0.0f;              // 0: none
    bool alibi = false;                // slopes of 2^(-8 h / heads), h from 1
    bool backward = false;             // the gradients of Q, K and V, of an output and log-sum-exp that are there
    std::string variant{};             // a file with functions of a variant, GLSL; "": none
};

// One shape, and the lengths that it is to take in turn.
struct ShapeOptions {
    AttentionShape shape;
    std::vector<std::uint32_t> q_lens{1};
    std::vector<std::uint32_t> kv_lens{4096};
    std::string kv_rotation = "none"; // or hadamard
};

// The shapes of the lengths: two lists of the same size go together, else every key length with every query length.
// Throws InputError.
std::vector<AttentionShape> shapes_of(const ShapeOptions &options);

struct NamedType {
    Dtype dtype;
    vkattn_type type;
};

// Returns the type that an option names, of those of which a question is true. Throws InputError, naming the option.
NamedType named_type(const char *option, const std::string &name, bool (*is_one)(vkattn_type));

// A shape as the library takes it.
struct ShapedProblem {
    vkattn_attention_desc desc{};
    std::shared_ptr<const Variant> variant; // that desc has
    NamedType query_type{};
    NamedType kv_type{};
};

// Keys from the first on that a query sees: all, or up to its own where the last query stands at the last key.
std::uint64_t seen_keys(const AttentionShape &shape, std::uint32_t query);

// The tree_mask of a batch entry [q_len,ceil(q_len/32)].
std::vector<std::uint32_t> tree_rows(const AttentionShape &shape);

// The lists of a batch entry [1,q_len,key_list]: each of other keys of those that its query sees, at random, then -1; the
// same at each call.
std::vector<std::int32_t> key_lists(const AttentionShape &shape);

// How many blocks of the shape's block mask so many positions make.
std::uint32_t blocks_of(const AttentionShape &shape, std::uint32_t len);

// The states of the blocks of a block mask [blocks of queries, blocks of keys]: full or hidden, at random, the same at
// each call.
std::vector<std::int32_t> block_states(const AttentionShape &shape);

// Returns slopes [heads] of ALiBi as its paper has them for powers of two (Press et al., 2022).
std::vector<float> alibi_slopes(const AttentionShape &shape);

// Throws InputError, and Error where a variant's functions cannot be compiled.
ShapedProblem problem_of(const Context &context, const AttentionShape &shape, vkattn_kernel kernel);

// The choice of a shape's keys, every head of its queries weighted.
struct ShapedIndex {
    ShapedProblem attention; // of its queries and keys; V is in K
    vkattn_index_desc desc{};
};

// Throws InputError for what only attention has.
ShapedIndex index_of(const Context &context, const AttentionShape &shape);

// The gradients of Q, K and V of a problem, which then has a log-sum-exp, too, and must outlive what is returned.
vkattn_attention_backward_desc gradients_of(ShapedProblem &problem, const AttentionShape &shape);

// The plan of a shape: of attention, of its gradients, or of the choice of keys. Throws InputError and Error.
Plan plan_of(const Context &context, const AttentionShape &shape, vkattn_kernel kernel);

// Returns "q_len 1, kv_len 4096".
std::string lengths_text(const AttentionShape &shape);

// Returns "batch 1, 32 query heads, head size 128, f16, causal": all but the lengths, and those between the two parts.
std::string shape_text(const AttentionShape &shape, const std::string &lengths);

} // namespace vkattn::tools
