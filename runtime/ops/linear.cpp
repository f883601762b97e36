#include "runtime/ops/linear.hpp"

#include "runtime/error.hpp"
#include "runtime/tensor.hpp"

namespace vkattn {
namespace {

void set_output(const vkattn_tensor &output, gpu::LinearPush &push) {
    const bool heads = output.rank == 4;
    push.head_dim = static_cast<uint32_t>(output.shape[output.rank - 1]);
    push.output_strides[0] = static_cast<uint32_t>(output.strides[0]);
    push.output_strides[1] = static_cast<uint32_t>(output.strides[heads ? 2 : 1]);
    push.output_strides[2] = heads ? static_cast<uint32_t>(output.strides[1]) : 0;
    push.output_strides[3] = static_cast<uint32_t>(output.strides[output.rank - 1]);
}

// Two neighbouring output features share a word: even heads, and every token starts at an even element.
bool in_pairs(const vkattn_tensor &output, const gpu::LinearPush &push) {
    bool even = output.offset % 2 == 0 && push.head_dim % 2 == 0 && push.output_strides[3] == 1;
    for (uint32_t i = 0; i < 3; ++i) even = even && push.output_strides[i] % 2 == 0;
    return even;
}

} // namespace

void add_linear(Plan &plan, const View &input, const View &weight, const View &bias, const View &output) {
    const vkattn_tensor &x = input.tensor;
    gpu::LinearPush push{};
    push.positions = static_cast<uint32_t>(x.shape[1]);
    push.rows = static_cast<uint32_t>(x.shape[0] * x.shape[1]);
    push.in_features = static_cast<uint32_t>(weight.tensor.shape[1]);
    push.out_features = static_cast<uint32_t>(weight.tensor.shape[0]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = static_cast<uint32_t>(x.strides[dim]);
        push.weight_strides[dim] = static_cast<uint32_t>(weight.tensor.strides[dim]);
    }
    set_output(output.tensor, push);

    gpu::LinearConstants constants;
    constants.INPUT_FORMAT = static_cast<uint32_t>(x.type);
    constants.WEIGHT_FORMAT = static_cast<uint32_t>(weight.tensor.type);
    constants.BIAS_FORMAT = static_cast<uint32_t>(bias.tensor.type);
    constants.OUTPUT_FORMAT = static_cast<uint32_t>(output.tensor.type);
    constants.OUTPUT_PAIRS = in_pairs(output.tensor, push);

    Step &step = plan.add_step(plan.context().pipelines().get(Module::kLinear, constants), push);
    step.groups = {(push.out_features + LINEAR_TILE - 1) / LINEAR_TILE, (push.rows + LINEAR_TILE - 1) / LINEAR_TILE, 1};
    for (size_t axis = 0; axis < 2; ++axis)
        if (step.groups[axis] > plan.context().caps().max_workgroup_count[axis])
            fail(VKATTN_ERROR_UNSUPPORTED, "linear: ", push.rows, " rows, ", push.out_features,
                 " features, expected at most ", plan.context().caps().max_workgroup_count[axis], " tiles of ", LINEAR_TILE);
    bind(plan, step, BINDING_LINEAR_INPUT, input);
    bind(plan, step, BINDING_LINEAR_WEIGHT, weight);
    bind(plan, step, BINDING_LINEAR_BIAS, bias);
    bind(plan, step, BINDING_LINEAR_OUTPUT, output);
    step.written_binding = BINDING_LINEAR_OUTPUT;
}

} // namespace vkattn
