#include "runtime/emit/hadamard.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/tensor.hpp"
#include "shaders/interface/hadamard.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {

void add_hadamard(PlanBuilder &builder, const View &source, const View &target, uint32_t block, const View &cu_seqlens,
                  uint32_t longest, float factor) {
    const vkattn_tensor &from = source.tensor, &to = target.tensor;
    if (is_empty(from)) return;
    gpu::HadamardPush push{};
    for (uint32_t dim = 0; dim < 4; ++dim) {
        push.source_strides[dim] = static_cast<uint32_t>(from.strides[dim]);
        push.target_strides[dim] = static_cast<uint32_t>(to.strides[dim]);
    }
    push.elements = static_cast<uint32_t>(from.shape[2] * from.shape[3]);
    push.sequences = present(cu_seqlens) ? static_cast<uint32_t>(cu_seqlens.tensor.shape[0] - 1) : 0;
    push.positions = longest;
    push.scale = hadamard_scale(block) * factor;
    gpu::HadamardConstants constants;
    constants.BLOCK = block;
    constants.HEAD_DIM = static_cast<uint32_t>(from.shape[3]);
    constants.SOURCE_FORMAT = format_of(from);
    constants.TARGET_FORMAT = format_of(to);
    constants.TARGET_PAIRS = in_pairs(to);
    constants.PACKED = present(cu_seqlens);
    Step &step = builder.add_step(shaders::hadamard, constants, push);
    step.groups = {tiles(push.elements, HADAMARD_TILE), tiles(from.shape[1], 1), tiles(from.shape[0], 1)};
    step.flops =
        kFlopsOfElement * static_cast<double>(push.elements) * static_cast<double>(from.shape[0] * from.shape[1]);
    bind(builder, step, BINDING_HADAMARD_SOURCE, source);
    bind(builder, step, BINDING_HADAMARD_TARGET, target);
    bind(builder, step, BINDING_HADAMARD_CU_SEQLENS, cu_seqlens);
}

} // namespace vkattn
