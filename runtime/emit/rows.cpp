#include "runtime/emit/rows.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/rows.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vkattn {
namespace {

// What a dispatch moves: keys, and values behind them, or queries before them, or those alone.
struct Parts {
    const MovedRows *queries = nullptr, *keys = nullptr, *values = nullptr;
    // What all have alike.
    const MovedRows &first() const { return queries != nullptr ? *queries : *keys; }
    const MovedRows &main() const { return keys != nullptr ? *keys : *queries; }
};

bool is_same_place(const Source &a, const Source &b) {
    return a.kind == b.kind && a.role == b.role && a.buffer == b.buffer;
}

// From the first element of one to that of the other, in elements of their type.
int64_t distance(const View &from, const View &to) {
    const auto begin = [](const View &view) {
        return static_cast<int64_t>(view.source.offset + bytes_of(view.tensor.type, view.tensor.offset));
    };
    return (begin(to) - begin(from)) / static_cast<int64_t>(bytes_of(from.tensor.type, 1));
}

bool rotate_alike(const MovedRows &a, const MovedRows &b) {
    return a.rotation.frequencies.source == b.rotation.frequencies.source &&
           a.rotation.interleaved == b.rotation.interleaved &&
           is_same_place(a.token_positions.source, b.token_positions.source);
}

// Whether rows of both are found by the same strides.
bool have_same_strides(const vkattn_tensor &a, const vkattn_tensor &b) {
    bool same = a.type == b.type;
    for (uint32_t dim = 0; dim < 4; ++dim)
        same = same && (a.shape[dim] == 1 || b.shape[dim] == 1 || a.strides[dim] == b.strides[dim]);
    return same;
}

bool are_same_scales(const MovedRows &a, const MovedRows &b) {
    const vkattn_tensor &x = a.target_scales.tensor, &y = b.target_scales.tensor;
    return a.makes_scales == b.makes_scales && x.type == y.type && std::equal(x.shape, x.shape + 4, y.shape) &&
           std::equal(x.strides, x.strides + 4, y.strides);
}

// Whether the tokens of both are the same, and stand at the same positions.
bool are_same_tokens(const MovedRows &a, const MovedRows &b) {
    return a.source.tensor.shape[0] == b.source.tensor.shape[0] &&
           a.source.tensor.shape[2] == b.source.tensor.shape[2] && a.offset == b.offset && a.positions == b.positions;
}

bool is_mixed(const MovedRows &rows) { return rows.hadamard > 1; }

constexpr uint64_t kFewTokens = 4;

bool may_join(const MovedRows &queries, const MovedRows &keys) {
    const bool alike = are_same_tokens(queries, keys) && have_same_strides(queries.source.tensor, keys.source.tensor) &&
                       is_same_place(queries.source.source, keys.source.source) &&
                       distance(queries.source, keys.source) >= 0 && !is_quantised(keys.target.tensor.type) &&
                       queries.target.tensor.strides[3] == keys.target.tensor.strides[3];
    // rows of other sizes leave workgroups without work
    const bool sized_alike = queries.source.tensor.shape[3] == keys.source.tensor.shape[3] ||
                             queries.source.tensor.shape[0] * queries.source.tensor.shape[2] <= kFewTokens;
    const bool normalises_alike =
        !present(queries.norm.weight) || !present(keys.norm.weight) || queries.norm.epsilon == keys.norm.epsilon;
    const bool mixes_alike =
        !is_mixed(queries) || (queries.hadamard == keys.hadamard && queries.mixed_factor == keys.mixed_factor &&
                               queries.source.tensor.shape[3] == keys.source.tensor.shape[3]);
    return alike && sized_alike && rotate_alike(queries, keys) && normalises_alike && mixes_alike;
}

// Whether the heads of one lie behind those of the other.
bool follows(const View &first, const View &second) {
    const vkattn_tensor &a = first.tensor, &b = second.tensor;
    return have_same_strides(a, b) && a.shape[3] == b.shape[3] && is_same_place(first.source, second.source) &&
           distance(first, second) == static_cast<int64_t>(a.shape[1] * a.strides[1]);
}

bool may_follow(const MovedRows &keys, const MovedRows &values) {
    const vkattn_tensor &to = keys.target.tensor;
    const bool plain = !present(values.norm.weight) && !present(values.rotation.frequencies);
    return plain && are_same_tokens(keys, values) && follows(keys.source, values.source) &&
           keys.source.tensor.shape[1] == values.source.tensor.shape[1] &&
           have_same_strides(to, values.target.tensor) && to.shape[2] == values.target.tensor.shape[2] &&
           to.shape[0] == values.target.tensor.shape[0] && in_pairs(to) == in_pairs(values.target.tensor) &&
           keys.hadamard == values.hadamard && are_same_scales(keys, values);
}

// Whether both are heads of one, which keep their places.
bool are_one(const MovedRows &a, const MovedRows &b) {
    return a.keeps_places && b.keeps_places && !present(a.norm.weight) && !present(b.norm.weight) &&
           rotate_alike(a, b) && a.rotated_from == b.rotated_from && a.hadamard == b.hadamard &&
           are_same_tokens(a, b) && follows(a.source, b.source) && follows(a.target, b.target);
}

// The sources of all parts.
View source_of(const Parts &parts) {
    View source = parts.first().source;
    const MovedRows &last = parts.values != nullptr ? *parts.values : parts.main();
    const uint64_t elements = static_cast<uint64_t>(distance(source, last.source)) + span_elements(last.source.tensor);
    const uint64_t offset = source.tensor.offset;
    source.tensor = contiguous(source.tensor.type, {elements});
    source.tensor.offset = offset;
    return source;
}

bool is_joint(const Parts &parts) { return &parts.first() != &parts.main() || parts.values != nullptr; }

// The views that the parts bind, by their bindings.
std::vector<std::pair<uint32_t, View>> bindings_of(const Parts &parts) {
    const MovedRows &rows = parts.main();
    std::vector<std::pair<uint32_t, View>> bindings = {
        {BINDING_ROWS_SOURCE, is_joint(parts) ? source_of(parts) : rows.source},
        {BINDING_ROWS_PAST_LENGTHS, rows.past_lengths},
        {BINDING_ROWS_CU_SEQLENS, rows.cu_seqlens},
        {BINDING_ROWS_BLOCK_TABLE, rows.block_table},
        {BINDING_ROWS_LENGTHS, rows.lengths},
        {BINDING_ROWS_FREQUENCIES, parts.first().rotation.frequencies},
        {BINDING_ROWS_POSITIONS, parts.first().token_positions},
        {BINDING_ROWS_SOURCE_SCALES, rows.source_scales}};
    if (parts.keys != nullptr) {
        bindings.emplace_back(BINDING_ROWS_TARGET, rows.target);
        bindings.emplace_back(BINDING_ROWS_TARGET_SCALES, rows.target_scales);
        bindings.emplace_back(BINDING_ROWS_NORM, rows.norm.weight);
    }
    if (parts.values != nullptr) {
        bindings.emplace_back(BINDING_ROWS_VALUES, parts.values->target);
        bindings.emplace_back(BINDING_ROWS_VALUE_SCALES, parts.values->target_scales);
    }
    if (parts.queries != nullptr) {
        bindings.emplace_back(BINDING_ROWS_QUERIES, parts.queries->target);
        bindings.emplace_back(BINDING_ROWS_QUERY_NORM, parts.queries->norm.weight);
    }
    std::erase_if(bindings, [](const auto &bound) { return !present(bound.second); });
    return bindings;
}

// Of batch, head and position; 0 where scales are shared.
void copy_strides(const View &scales, gpu::uint (&strides)[3]) {
    for (uint32_t dim = 0; dim < 3; ++dim)
        strides[dim] = scales.tensor.shape[dim] <= 1 ? 0 : static_cast<uint32_t>(scales.tensor.strides[dim]);
}

gpu::RowsPush push_of(const Parts &parts) {
    const MovedRows &rows = parts.main();
    const vkattn_tensor &from = rows.source.tensor, &to = rows.target.tensor;
    gpu::RowsPush push{};
    const vkattn_tensor &of_first = parts.first().source.tensor;
    for (uint32_t dim = 0; dim < 4; ++dim) {
        push.source_strides[dim] = static_cast<uint32_t>((of_first.shape[dim] > 1 ? of_first : from).strides[dim]);
        push.target_strides[dim] = static_cast<uint32_t>(to.strides[dim]);
    }
    copy_strides(rows.source_scales, push.source_scale_strides);
    copy_strides(rows.target_scales, push.target_scale_strides);
    push.positions = rows.positions != 0 ? rows.positions : static_cast<uint32_t>(from.shape[2]);
    push.capacity = static_cast<uint32_t>(to.shape[2]);
    push.offset = rows.offset;
    push.first = rows.first;
    push.source_total = static_cast<uint32_t>(from.shape[2]);
    push.beyond = rows.beyond;
    push.epsilon = present(rows.norm.weight) ? rows.norm.epsilon : parts.first().norm.epsilon;
    if (is_mixed(rows)) push.scale = hadamard_scale(rows.hadamard) * rows.mixed_factor;
    push.sequences =
        static_cast<uint32_t>(present(rows.cu_seqlens) ? rows.cu_seqlens.tensor.shape[0] - 1 : from.shape[0]);
    if (const MovedRows *queries = parts.queries) {
        for (uint32_t dim = 0; dim < 3; ++dim)
            push.source_scale_strides[dim] = static_cast<uint32_t>(queries->target.tensor.strides[dim]);
        push.beyond = static_cast<uint32_t>(distance(queries->source, rows.source));
    }
    if (!present(rows.block_table)) return push;
    push.pool_pages = static_cast<uint32_t>((rows.gathers ? from : to).shape[0]);
    push.table_pages = static_cast<uint32_t>(rows.block_table.tensor.shape[1]);
    if (!rows.gathers) push.capacity *= push.table_pages;
    return push;
}

// Elements that are turned.
uint32_t rotated_dims(const MovedRows &rows) {
    if (!present(rows.rotation.frequencies)) return 0;
    return static_cast<uint32_t>(rows.rotation.frequencies.tensor.shape[0] / 4 * 2);
}

// Whether rows move four elements at a time.
bool moves_in_fours(const MovedRows *rows) {
    if (rows == nullptr) return true;
    const vkattn_tensor &source = rows->source.tensor, &target = rows->target.tensor;
    const uint64_t rotated = rotated_dims(*rows), of_half = rows->rotation.interleaved ? rotated : rotated / 2;
    return source.shape[3] % 4 == 0 && in_pairs(source) && (is_quantised(target.type) || in_pairs(target)) &&
           rows->rotated_from % 4 == 0 && of_half % 4 == 0;
}

void set_queries(gpu::RowsConstants &constants, const MovedRows &queries) {
    constants.QUERY_HEADS = static_cast<uint32_t>(queries.source.tensor.shape[1]);
    constants.QUERY_DIM = static_cast<uint32_t>(queries.source.tensor.shape[3]);
    constants.QUERY_FORMAT = format_of(queries.target.tensor);
    constants.QUERY_PAIRS = in_pairs(queries.target.tensor);
    constants.MIXES_QUERIES = is_mixed(queries);
    constants.QUERY_ROTATED_FROM = queries.rotated_from;
    constants.QUERY_NORM_FORMAT = format_of(queries.norm.weight.tensor);
    constants.QUERY_NORM_DIM = static_cast<uint32_t>(queries.norm.weight.tensor.shape[0]);
}

void set_rotation(gpu::RowsConstants &constants, const MovedRows &rows) {
    if (!present(rows.rotation.frequencies)) return;
    constants.ROTATED = rows.rotation.interleaved ? ROTATED_INTERLEAVED : ROTATED_HALVES;
    constants.ROTATED_DIMS = rotated_dims(rows);
    constants.ROTATED_FROM = rows.rotated_from;
    constants.HAS_POSITIONS = present(rows.token_positions);
}

gpu::RowsConstants constants_of(const Parts &parts) {
    const MovedRows &rows = parts.main();
    gpu::RowsConstants constants;
    constants.SOURCE_FORMAT = format_of(rows.source.tensor);
    constants.TARGET_FORMAT = format_of(rows.target.tensor);
    constants.TARGET_PAIRS = in_pairs(rows.target.tensor);
    constants.HEAD_DIM = constants.QUERY_DIM = static_cast<uint32_t>(rows.source.tensor.shape[3]);
    constants.IN_FOURS = moves_in_fours(parts.queries) && moves_in_fours(parts.keys) && moves_in_fours(parts.values);
    constants.HAS_PAST_LENGTHS = present(rows.past_lengths);
    constants.HAS_LENGTHS = present(rows.lengths);
    set_rotation(constants, rows);
    if (parts.queries != nullptr) set_queries(constants, *parts.queries);
    if (parts.values != nullptr) constants.KEY_HEADS = static_cast<uint32_t>(rows.source.tensor.shape[1]);
    if (parts.keys != nullptr && present(rows.norm.weight)) {
        constants.NORM_FORMAT = format_of(rows.norm.weight.tensor);
        constants.NORM_DIM = static_cast<uint32_t>(rows.norm.weight.tensor.shape[0]);
    }
    if (is_mixed(rows)) constants.HADAMARD = rows.hadamard;
    constants.SOURCE_SCALED = present(rows.source_scales);
    if (present(rows.target_scales))
        constants.TARGET_SCALES = rows.makes_scales ? TARGET_SCALES_MADE : TARGET_SCALES_READ;
    if (present(rows.cu_seqlens)) constants.PACKED = rows.gathers ? PACKED_AND_BEYOND : PACKED_SEQUENCES;
    if (!present(rows.block_table)) return constants;
    constants.PAGED = rows.gathers ? PAGED_SOURCE : PAGED_TARGET;
    constants.PAGE_SIZE = static_cast<uint32_t>((rows.gathers ? rows.source : rows.target).tensor.shape[2]);
    return constants;
}

// Rows of so many elements that a workgroup has.
uint64_t rows_of_workgroup(uint64_t dims, bool quantised) {
    const uint64_t lanes = divide_up(dims, quantised ? QUANTISED_BLOCK : 4);
    return ROWS_WORKGROUP_SIZE / std::min<uint64_t>(lanes, ROWS_WORKGROUP_SIZE);
}

void set_grid(Step &step, const Parts &parts, uint64_t tokens) {
    const MovedRows &main = parts.main();
    const uint64_t batch = main.gathers ? main.batch : main.source.tensor.shape[0];
    uint64_t fewest = ROWS_WORKGROUP_SIZE, heads = 0, elements = 0; // of all parts' heads
    for (const MovedRows *rows : {parts.queries, parts.keys, parts.values}) {
        if (rows == nullptr) continue;
        const auto &shape = rows->source.tensor.shape;
        heads += shape[1];
        elements += shape[1] * shape[3];
        fewest = std::min(fewest, rows_of_workgroup(shape[3], is_quantised(main.target.tensor.type)));
    }
    step.groups = {tiles(tokens, static_cast<uint32_t>(fewest)), tiles(heads, 1), tiles(batch, 1)};
    step.flops = kFlopsOfElement * static_cast<double>(batch * tokens) * static_cast<double>(elements);
}

void add_dispatch(PlanBuilder &builder, const Parts &parts) {
    const gpu::RowsPush push = push_of(parts);
    const gpu::RowsConstants constants = constants_of(parts);
    const bool quantised = is_quantised(parts.main().target.tensor.type);
    Step &step = builder.add_step(quantised ? shaders::rows_quantised : shaders::rows, constants, push);
    set_grid(step, parts, constants.PACKED == PACKED_SEQUENCES ? push.source_total : push.positions);
    for (const auto &[binding, view] : bindings_of(parts)) bind(builder, step, binding, view);
}

// Whether there is something to move.
bool allow(PlanBuilder &builder, const MovedRows &rows) {
    for (const View *view : {&rows.source, &rows.target, &rows.past_lengths, &rows.cu_seqlens, &rows.block_table,
                             &rows.target_scales, &rows.token_positions})
        allow_role(builder, *view);
    const bool no_sequences = present(rows.cu_seqlens) && rows.cu_seqlens.tensor.shape[0] == 1;
    if (no_sequences || is_empty(rows.source.tensor) || is_empty(rows.target.tensor)) return false;
    return !present(rows.block_table) || !is_empty(rows.block_table.tensor);
}

// Whether the device can take what parts have together.
bool fits(const DeviceCaps &caps, const Parts &parts) {
    return is_bindable(caps, source_of(parts).tensor) &&
           bindings_of(parts).size() <= caps.max_storage_buffers_per_stage;
}

// Makes the rows a part of the dispatch, if they may be.
bool join(const DeviceCaps &caps, Parts &parts, const MovedRows &rows) {
    Parts joined = parts;
    if (rows.keeps_places) {
        if (parts.queries != nullptr || parts.keys != nullptr) return false;
        parts.queries = &rows;
        return true;
    }
    if (parts.keys == nullptr) {
        joined.keys = &rows;
        if (parts.queries != nullptr && !(may_join(*parts.queries, rows) && fits(caps, joined))) return false;
    } else {
        joined.values = &rows;
        if (parts.values != nullptr || !may_follow(*parts.keys, rows) || !fits(caps, joined)) return false;
    }
    parts = joined;
    return true;
}

// Normalises rows where they are, if the device cannot bind the weights beside what else moves them.
void normalise_apart(PlanBuilder &builder, MovedRows &rows) {
    Parts alone;
    join(builder.context().caps(), alone, rows);
    if (!present(rows.norm.weight) || fits(builder.context().caps(), alone)) return;
    const MovedRows normalised{.source = rows.source, .target = rows.source, .norm = rows.norm, .keeps_places = true};
    join(builder.context().caps(), alone = {}, normalised);
    add_dispatch(builder, alone);
    builder.barrier();
    rows.norm = {};
}

} // namespace

void add_rows(PlanBuilder &builder, std::span<const MovedRows> parts) {
    std::vector<MovedRows> all;
    for (const MovedRows &rows : parts) {
        if (!allow(builder, rows)) continue;
        if (!all.empty() && are_one(all.back(), rows)) {
            all.back().source.tensor.shape[1] += rows.source.tensor.shape[1];
            all.back().target.tensor.shape[1] += rows.target.tensor.shape[1];
        } else {
            all.push_back(rows);
        }
    }
    for (MovedRows &rows : all) normalise_apart(builder, rows);
    Parts dispatch;
    for (const MovedRows &rows : all) {
        if (join(builder.context().caps(), dispatch, rows)) continue;
        add_dispatch(builder, dispatch);
        dispatch = {};
        join(builder.context().caps(), dispatch, rows);
    }
    if (dispatch.queries != nullptr || dispatch.keys != nullptr) add_dispatch(builder, dispatch);
}

void add_rows(PlanBuilder &builder, const MovedRows &rows) { add_rows(builder, {&rows, 1}); }

} // namespace vkattn
