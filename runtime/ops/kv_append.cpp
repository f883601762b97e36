#include "runtime/emit/rows.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/scales.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

// A caller's description, checked; layouts normalised.
struct KvAppend {
    vkattn_tensor source, cache, past_lengths, cu_seqlens, block_table;
    uint32_t offset;
    uint32_t batch;     // sequences
    uint32_t positions; // tokens of a sequence, at most
    bool hadamard;
    vkattn_tensor scales; // of cache
    bool makes_scales;
};

void check_sequences(const vkattn_kv_append_desc &desc, KvAppend &append) {
    const vkattn_tensor &source = append.source;
    append.batch = static_cast<uint32_t>(source.shape[0]);
    append.positions = static_cast<uint32_t>(source.shape[2]);
    append.cu_seqlens = checked_cu_seqlens(desc.cu_seqlens, "cu_seqlens", source, "source");
    if (!present(append.cu_seqlens)) return;
    append.batch = sequences_of(append.cu_seqlens);
    append.positions = longest_sequence(desc.max_seqlen, "max_seqlen", source);
}

uint64_t capacity_of(const KvAppend &append) {
    return present(append.block_table) ? positions_of(append.block_table, append.cache) : append.cache.shape[2];
}

void check_room(const KvAppend &append) {
    const vkattn_tensor &source = append.source, &cache = append.cache;
    const bool paged = present(append.block_table);
    const bool same = (paged || append.batch == cache.shape[0]) && source.shape[1] == cache.shape[1] &&
                      source.shape[3] == cache.shape[3];
    require(same, "cache: shape ", shape_text(cache), ", expected ", append.batch, " sequences, ", source.shape[1],
            " heads and head size ", source.shape[3], " as in source");
    require(present(append.past_lengths) || uint64_t{append.offset} + append.positions <= capacity_of(append),
            "offset: ", append.offset, " with ", append.positions, " rows, expected at most the capacity of cache, ",
            capacity_of(append));
    require_no_overlap(cache, "cache");
}

// Where rows are given scales, none of them may share one.
void check_scales(const vkattn_kv_append_desc &desc, KvAppend &append) {
    append.makes_scales = desc.makes_scales != 0;
    if (present(desc.scales)) append.scales = checked_scales(desc.scales, "scales", append.cache);
    if (!append.makes_scales) return;
    vkattn_tensor of_rows =
        contiguous(VKATTN_TYPE_F32, {append.cache.shape[0], append.cache.shape[1], append.cache.shape[2], 1});
    require(present(append.scales), "scales: absent, expected [", of_rows.shape[0], ",", of_rows.shape[1], ",",
            of_rows.shape[2], ",1] with makes_scales");
    require_shape(append.scales, "scales", of_rows);
    require_no_overlap(append.scales, "scales");
}

KvAppend checked(const vkattn_kv_append_desc &desc) {
    KvAppend append{};
    append.source = checked_rank(desc.source, "source", 4);
    append.cache = checked_rank(desc.cache, "cache", 4);
    append.offset = desc.offset;
    require_float(append.source, "source");
    require_cached(append.cache, "cache");
    append.hadamard = is_rotated(desc.rotation, "rotation");
    check_sequences(desc, append);
    append.past_lengths =
        checked_contiguous(desc.past_lengths, "past_lengths", contiguous(VKATTN_TYPE_I32, {append.batch}));
    append.block_table = checked_block_table(desc.block_table, append.batch, append.cache, "cache");
    check_room(append);
    check_scales(desc, append);
    return append;
}

} // namespace

void plan_kv_append(PlanBuilder &builder, const vkattn_kv_append_desc &desc) {
    const KvAppend append = checked(desc);
    add_rows(builder, {.source = role_view(append.source, VKATTN_ROLE_SOURCE),
                       .target = role_view(append.cache, VKATTN_ROLE_CACHE),
                       .offset = append.offset,
                       .past_lengths = role_view(append.past_lengths, VKATTN_ROLE_PAST_LENGTHS),
                       .cu_seqlens = role_view(append.cu_seqlens, VKATTN_ROLE_CU_SEQLENS_Q),
                       .block_table = role_view(append.block_table, VKATTN_ROLE_BLOCK_TABLE),
                       .batch = append.batch,
                       .positions = append.positions,
                       .hadamard = append.hadamard ? hadamard_block(append.source.shape[3]) : 0,
                       .target_scales = role_view(append.scales, VKATTN_ROLE_KEY_SCALES),
                       .makes_scales = append.makes_scales});
}

} // namespace vkattn
