#include "runtime/ops/operators.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/mask_indices.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

VKATTN_OPERATOR(MaskIndices, MASK_INDICES_TENSORS)

// With a stride of 0 where it is the same for all.
vkattn_tensor checked_mask(const vkattn_tensor &given, const vkattn_tensor &lists) {
    vkattn_tensor mask = checked_rank(given, "attn_mask", 4);
    require_mask(mask, "attn_mask");
    require(mask.shape[3] >= 1, "attn_mask: shape ", shape_text(mask), ", expected at least one key");
    require(mask.shape[3] == 1 || mask.strides[3] == 1, "attn_mask: last stride ", mask.strides[3], ", expected 1");
    for (uint32_t dim = 0; dim < 3; ++dim) {
        require(mask.shape[dim] == 1 || mask.shape[dim] == lists.shape[dim], "attn_mask: shape ", shape_text(mask),
                ", expected [", lists.shape[0], "|1,", lists.shape[1], "|1,", lists.shape[2], "|1,Lm]");
        if (mask.shape[dim] == 1) mask.strides[dim] = 0;
    }
    return mask;
}

} // namespace

void plan_mask_indices(PlanBuilder &builder, const vkattn_mask_indices_desc &desc) {
    MaskIndicesTensors tensors = MaskIndicesTensors::of(desc);
    checked_rank(desc.key_indices, "key_indices", 4);
    check_tensors(tensors);
    const vkattn_tensor &lists = tensors.key_indices.tensor;
    require(lists.shape[3] <= 1 || lists.strides[3] == 1, "key_indices: last stride ", lists.strides[3],
            ", expected 1");
    tensors.attn_mask.tensor = checked_mask(desc.attn_mask, lists);
    allow_roles(builder, tensors);
    if (is_empty(lists)) return;
    gpu::MaskIndicesPush push{};
    push.mask_len = static_cast<uint32_t>(tensors.attn_mask.tensor.shape[3]);
    push.list_len = static_cast<uint32_t>(lists.shape[3]);
    Step &step = add_step(builder, shaders::mask_indices, tensors, gpu::MaskIndicesConstants{}, push);
    step.groups = {tiles(lists.shape[2], 1), tiles(lists.shape[1], 1), tiles(lists.shape[0], 1)};
    step.flops = kFlopsOfElement * static_cast<double>(lists.shape[0] * lists.shape[1] * lists.shape[2]) *
                 std::max(push.mask_len, push.list_len);
}

} // namespace vkattn
