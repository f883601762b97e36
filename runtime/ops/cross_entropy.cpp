#include "runtime/ops/operators.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/cross_entropy.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

VKATTN_OPERATOR(CrossEntropy, CROSS_ENTROPY_TENSORS)

CrossEntropyTensors checked(const vkattn_cross_entropy_desc &desc) {
    CrossEntropyTensors tensors = CrossEntropyTensors::of(desc);
    check_tensors(tensors, {{'S', 1}});
    const vkattn_tensor &input = tensors.input.tensor;
    require(input.shape[2] >= 1, "input: shape ", shape_text(input), ", expected [B,L,N] with N at least 1");
    require(present(tensors.labels), "labels: absent, expected I32 [", input.shape[0], ",", input.shape[1], "]");
    require(present(tensors.loss) || present(tensors.mean_loss) || present(tensors.d_input),
            "loss, mean_loss, d_input: absent, expected one at least");
    const vkattn_optional_uint ignored = desc.ignore_label;
    require(ignored.present == 0 || ignored.value < input.shape[2], "ignore_label: ", ignored.value,
            ", expected one of 0 to ", input.shape[2] - 1, "; other labels are ignored anyway");
    return tensors;
}

// So that an invocation has four fours of features on a GPU, whose loads are then all under way at the same time. A CPU driver has no
// use for more invocations.
uint32_t workgroup_size_of(uint64_t features, const DeviceCaps &caps) {
    constexpr uint32_t kLeast = 64, kFeatures = 16; // of an invocation
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return kLeast;
    const uint32_t most = std::min(uint32_t{512}, std::bit_floor(caps.max_workgroup_invocations));
    return std::clamp(std::bit_ceil(divide_up(static_cast<uint32_t>(features), kFeatures)), kLeast, most);
}

View workspace_of(PlanBuilder &builder, std::initializer_list<uint64_t> shape) {
    const vkattn_tensor tensor = contiguous(VKATTN_TYPE_F32, shape);
    return {tensor, builder.reserve_workspace(extent_bytes(tensor))};
}

// Some drivers bound the iterations of a shader's loops, and one workgroup counts all labels.
void require_loops(const DeviceCaps &caps, uint64_t rows, uint64_t features) {
    constexpr uint64_t kFewest = 64; // invocations of a row's workgroup
    const uint64_t most = uint64_t{caps.max_loop_iterations} * CROSS_ENTROPY_MEAN_WORKGROUP_SIZE;
    if (most != 0 && rows > most)
        fail(VKATTN_ERROR_UNSUPPORTED, "labels: ", rows, " of them, expected at most ", most, " ",
             on_bounded_loops(caps));
    const uint64_t most_features = caps.max_loop_iterations * kFewest;
    if (most_features != 0 && features > most_features)
        fail(VKATTN_ERROR_UNSUPPORTED, "input: ", features, " logits of a row, expected at most ", most_features, " ",
             on_bounded_loops(caps));
}

class CrossEntropy {
  public:
    CrossEntropy(PlanBuilder &builder, const CrossEntropyTensors &tensors, const vkattn_optional_uint &ignored)
        : builder_(builder), tensors_(tensors) {
        const vkattn_tensor &input = tensors.input.tensor;
        push_.features = static_cast<uint32_t>(input.shape[2]);
        push_.batch = static_cast<uint32_t>(input.shape[0]);
        push_.len = static_cast<uint32_t>(input.shape[1]);
        push_.ignore_label = ignored.present != 0 ? ignored.value : UINT32_MAX;
    }

    // The rows' losses and gradients.
    void add_rows() {
        const vkattn_tensor &input = tensors_.input.tensor;
        gpu::CrossEntropyConstants constants;
        constants.WORKGROUP_SIZE = workgroup_size_of(input.shape[2], builder_.context().caps());
        constants.IN_FOURS = input.shape[2] % 4 == 0 && rows_start_even(input) &&
                             (!present(tensors_.d_input) || rows_start_even(tensors_.d_input.tensor));
        BindingSet used = binding_set({BINDING_CROSS_ENTROPY_INPUT, BINDING_CROSS_ENTROPY_LABELS,
                                       BINDING_CROSS_ENTROPY_LOSS, BINDING_CROSS_ENTROPY_D_INPUT});
        if (present(tensors_.d_input)) used |= binding_set({BINDING_CROSS_ENTROPY_SCALE});
        set_token_grid(add_step(builder_, shaders::cross_entropy, tensors_, constants, push_, used), input);
    }

    // Over all labels: mean_loss, or the scale of the gradients.
    void add_mean(bool of_losses) {
        CrossEntropyTensors tensors = tensors_;
        if (!of_losses) tensors.mean_loss = {};
        const BindingSet used = of_losses ? binding_set({BINDING_CROSS_ENTROPY_LABELS, BINDING_CROSS_ENTROPY_LOSS,
                                                         BINDING_CROSS_ENTROPY_MEAN_LOSS})
                                          : binding_set({BINDING_CROSS_ENTROPY_LABELS, BINDING_CROSS_ENTROPY_LOSS_SCALE,
                                                         BINDING_CROSS_ENTROPY_SCALE});
        Step &step = add_step(builder_, shaders::cross_entropy_mean, tensors, {}, push_, used);
        step.groups = {1, 1, 1};
        step.flops = kFlopsOfElement * push_.batch * push_.len;
    }

  private:
    PlanBuilder &builder_;
    const CrossEntropyTensors &tensors_;
    gpu::CrossEntropyPush push_{};
};

} // namespace

void plan_cross_entropy(PlanBuilder &builder, const vkattn_cross_entropy_desc &desc) {
    CrossEntropyTensors tensors = checked(desc);
    const vkattn_tensor &input = tensors.input.tensor;
    require_loops(builder.context().caps(), input.shape[0] * input.shape[1], input.shape[2]);
    allow_roles(builder, tensors);
    if (is_empty(input)) return;
    if (present(tensors.d_input)) tensors.scale = workspace_of(builder, {1});
    if (present(tensors.mean_loss) && !present(tensors.loss))
        tensors.loss = workspace_of(builder, {input.shape[0], input.shape[1]});
    CrossEntropy steps(builder, tensors, desc.ignore_label);
    if (present(tensors.d_input)) steps.add_mean(false);
    builder.barrier();
    steps.add_rows();
    if (!present(tensors.mean_loss)) return;
    builder.barrier();
    steps.add_mean(true);
}

} // namespace vkattn
