#include "runtime/emit/rows.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/vulkan/memory.hpp"

#include <cmath>
#include <memory>
#include <vector>

namespace vkattn {
namespace {

// Rows [B,H,L,D], last stride 1.
vkattn_tensor checked_heads(const vkattn_tensor &given, const char *name) {
    const vkattn_tensor rows = checked_rank(given, name, 4);
    require_float(rows, name);
    require(rows.shape[3] >= 1 && (rows.shape[3] == 1 || rows.strides[3] == 1), name, ": shape ", shape_text(rows),
            ", expected [B,H,L,D] with D at least 1, last stride 1");
    return rows;
}

uint32_t checked_rotary_dims(uint32_t given, uint64_t head_dim) {
    const uint64_t dims = given != 0 ? given : head_dim;
    require(dims % 2 == 0 && dims <= head_dim, "rotary_dim: ", dims, ", expected an even number up to the row's size, ",
            head_dim);
    return static_cast<uint32_t>(dims);
}

// The members that layers have, too.
vkattn_layer_config checked_rope(const vkattn_rotary_embedding_desc &desc, uint32_t dims) {
    require(desc.rope_theta > 0 && desc.rope_theta < 1e30f, "rope_theta: ", desc.rope_theta,
            ", expected a finite number above 0");
    require(desc.rope_interleaved <= 1, "rope_interleaved: ", desc.rope_interleaved, ", expected 0 or 1");
    require(desc.inverse <= 1, "inverse: ", desc.inverse, ", expected 0 or 1");
    vkattn_layer_config config{};
    config.rope_theta = desc.rope_theta;
    config.rope_scaling = desc.rope_scaling;
    std::copy(std::begin(desc.rope_sections), std::end(desc.rope_sections), config.rope_sections);
    config.rope_sections_interleaved = desc.rope_sections_interleaved;
    check_rope_scaling(config.rope_scaling, dims / 2);
    check_rope_sections(config, dims / 2);
    return config;
}

Positions checked_positions(const vkattn_rotary_embedding_desc &desc, const vkattn_tensor &input, uint32_t streams) {
    Positions positions;
    require(desc.past_len <= kLargestSize, "past_len: ", desc.past_len, ", expected at most 2^29");
    positions.offset = desc.past_len;
    positions.sequences = static_cast<uint32_t>(input.shape[0]);
    positions.longest = static_cast<uint32_t>(input.shape[2]);
    const vkattn_tensor cu_seqlens = checked_cu_seqlens(desc.cu_seqlens, "cu_seqlens", input, "input");
    require(present(cu_seqlens) || desc.max_seqlen == 0, "max_seqlen: ", desc.max_seqlen,
            " without cu_seqlens, expected 0");
    if (present(cu_seqlens)) {
        positions.sequences = sequences_of(cu_seqlens);
        positions.longest = longest_sequence(desc.max_seqlen, "max_seqlen", input);
    }
    positions.cu_seqlens = role_view(cu_seqlens, VKATTN_ROLE_CU_SEQLENS_Q);
    const vkattn_tensor lengths = contiguous(VKATTN_TYPE_I32, {positions.sequences});
    positions.past_lengths =
        role_view(checked_contiguous(desc.past_lengths, "past_lengths", lengths), VKATTN_ROLE_PAST_LENGTHS);
    const vkattn_tensor of_tokens = contiguous(VKATTN_TYPE_I32, {streams, input.shape[0], input.shape[2]});
    positions.of_tokens = role_view(checked_contiguous(desc.positions, "positions", of_tokens), VKATTN_ROLE_POSITIONS);
    require(streams == 1 || present(desc.positions), "positions: absent, expected ", shape_text(of_tokens),
            " with rope_sections");
    return positions;
}

constexpr uint32_t kMostRotaryDims = 1u << 16; // the table of frequencies is made by the host

} // namespace

void turn_back(std::vector<RopeFrequency> &frequencies) {
    for (RopeFrequency &each : frequencies) {
        const uint64_t turns = -(uint64_t{each.turns_high} << 32 | each.turns_low);
        each.turns_low = static_cast<uint32_t>(turns);
        each.turns_high = static_cast<uint32_t>(turns >> 32);
    }
}

View frequencies_view(PlanBuilder &builder, std::span<const RopeFrequency> frequencies) {
    View view{contiguous(VKATTN_TYPE_F32, {4 * frequencies.size()}), {Source::Kind::kOwned}};
    if (builder.is_measure()) return view;
    const uint64_t bytes = frequencies.size() * sizeof(RopeFrequency);
    const auto buffer = std::make_shared<Buffer>(builder.context(), bytes, "vkattn frequencies");
    buffer->write(0, frequencies.data(), bytes);
    view.source.buffer = buffer->handle();
    builder.keep(buffer);
    return view;
}

void plan_rotary_embedding(PlanBuilder &builder, const vkattn_rotary_embedding_desc &desc) {
    const vkattn_tensor input = checked_heads(desc.input, "input"), output = checked_heads(desc.output, "output");
    vkattn_tensor same = input;
    same.type = output.type;
    require_shape(output, "output", same);
    require_no_overlap(output, "output");
    const uint32_t dims = checked_rotary_dims(desc.rotary_dim, input.shape[3]);
    require(dims <= kMostRotaryDims, "rotary_dim: ", dims, ", expected at most ", kMostRotaryDims);
    const vkattn_layer_config config = checked_rope(desc, dims);
    const Positions positions = checked_positions(desc, input, position_streams(config));
    std::vector<RopeFrequency> frequencies = rope_frequencies(dims, config);
    if (desc.inverse != 0) turn_back(frequencies);
    const Rotation rotation{frequencies_view(builder, std::move(frequencies)), desc.rope_interleaved != 0};
    add_rows(builder, rotated_rows(role_view(input, VKATTN_ROLE_INPUT), role_view(output, VKATTN_ROLE_OUTPUT), rotation,
                                   positions));
}

} // namespace vkattn
