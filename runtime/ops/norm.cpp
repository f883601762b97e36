#include "runtime/ops/norm.hpp"

#include "runtime/error.hpp"

namespace vkattn {

void add_norm(Plan &plan, Norm norm, float epsilon, const View &input, const View &weight, const View &bias,
              const View &output) {
    gpu::NormPush push{};
    push.features = static_cast<uint32_t>(input.tensor.shape[2]);
    push.epsilon = epsilon;
    bool even = output.tensor.offset % 2 == 0;
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = static_cast<uint32_t>(input.tensor.strides[dim]);
        push.output_strides[dim] = static_cast<uint32_t>(output.tensor.strides[dim]);
        even = even && output.tensor.strides[dim] % 2 == 0;
    }
    gpu::NormConstants constants;
    constants.SUBTRACTS_MEAN = norm == Norm::kLayer;
    constants.INPUT_FORMAT = static_cast<uint32_t>(input.tensor.type);
    constants.WEIGHT_FORMAT = static_cast<uint32_t>(weight.tensor.type);
    constants.BIAS_FORMAT = static_cast<uint32_t>(bias.tensor.type);
    constants.OUTPUT_FORMAT = static_cast<uint32_t>(output.tensor.type);
    constants.OUTPUT_PAIRS = even;
    Step &step = plan.add_step(plan.pipeline(Module::kNorm, constants), push);
    for (uint32_t axis = 0; axis < 2; ++axis) {
        const uint64_t groups = input.tensor.shape[1 - axis];
        if (groups > plan.context().caps().max_workgroup_count[axis])
            fail(VKATTN_ERROR_UNSUPPORTED, "norm: ", groups, " workgroups on axis ", axis, ", expected at most ",
                 plan.context().caps().max_workgroup_count[axis]);
        step.groups[axis] = static_cast<uint32_t>(groups);
    }
    bind(plan, step, BINDING_NORM_INPUT, input);
    bind(plan, step, BINDING_NORM_WEIGHT, weight);
    bind(plan, step, BINDING_NORM_BIAS, bias);
    bind(plan, step, BINDING_NORM_OUTPUT, output);
    step.written_binding = BINDING_NORM_OUTPUT;
}

} // namespace vkattn
