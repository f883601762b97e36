#include "tools/bench/linear.hpp"

#include "tools/tensors/stored_types.hpp"

namespace vkattn::tools {

OperationTimes time_linear(const Context &context, const LinearShape &shape, const RepeatOptions &options) {
    const ShapedLinear layer = problem_of(shape);
    const vkattn_linear_desc &desc = layer.desc;
    const auto bytes = [](const vkattn_tensor &each) { return vkattn_tensor_bytes(&each); };
    OperationTimes times = time_operation(
        context, options,
        static_cast<double>(bytes(desc.input) + bytes(desc.weight) + bytes(desc.norm_weight) + bytes(desc.output)),
        [&] { return context.linear_plan(desc); },
        [&](unsigned seed) {
            const RandomValues random(seed);
            InputSet set;
            random.fill(set.add(context, VKATTN_ROLE_INPUT, bytes(desc.input)), layer.type.dtype, bytes(desc.input));
            const Dtype dtype =
                is_quantised(desc.weight.type) ? Dtype::kF16 : layer.weight_type.dtype; // any bytes of blocks
            random.fill(set.add(context, VKATTN_ROLE_WEIGHT, bytes(desc.weight)), dtype, bytes(desc.weight));
            if (desc.norm_weight.type != VKATTN_TYPE_NONE)
                random.fill(set.add(context, VKATTN_ROLE_NORM_WEIGHT, bytes(desc.norm_weight)), layer.type.dtype,
                            bytes(desc.norm_weight));
            set.add(context, VKATTN_ROLE_OUTPUT, bytes(desc.output));
            return set;
        });
    times.kernel = times.reason.substr(0, times.reason.find(':')); // plans name kernels of attention alone
    times.flops = 2.0 * shape.rows * shape.in_features * shape.out_features * (shape.gated ? 2 : 1);
    times.of_16_bits = layer.type.type != VKATTN_TYPE_F32;
    return times;
}

OperationTimes time_linear_backward(const Context &context, const LinearShape &shape, const RepeatOptions &options) {
    const ShapedLinear layer = problem_of(shape);
    const vkattn_linear_backward_desc desc = gradients_of(layer);
    const bool frozen = is_quantised(desc.weight.type);
    const auto bytes = [](const vkattn_tensor &each) { return vkattn_tensor_bytes(&each); };
    double moved = static_cast<double>(bytes(desc.weight) + bytes(desc.d_output) + bytes(desc.d_input));
    if (!frozen) moved += static_cast<double>(bytes(desc.input) + bytes(desc.d_weight) + bytes(desc.d_output));
    OperationTimes times = time_operation(
        context, options, moved, [&] { return context.linear_backward_plan(desc); },
        [&](unsigned seed) {
            const RandomValues random(seed);
            InputSet set;
            const auto add = [&](vkattn_role role, const vkattn_tensor &tensor, Dtype dtype) {
                if (bytes(tensor) != 0) random.fill(set.add(context, role, bytes(tensor)), dtype, bytes(tensor));
            };
            add(VKATTN_ROLE_INPUT, desc.input, layer.type.dtype);
            add(VKATTN_ROLE_WEIGHT, desc.weight, frozen ? Dtype::kF16 : layer.weight_type.dtype); // any bytes of blocks
            add(VKATTN_ROLE_D_OUTPUT, desc.d_output, layer.type.dtype);
            set.add(context, VKATTN_ROLE_D_INPUT, bytes(desc.d_input));
            if (!frozen) set.add(context, VKATTN_ROLE_D_WEIGHT, bytes(desc.d_weight));
            return set;
        });
    times.kernel = times.reason.substr(0, times.reason.find(':'));
    times.flops = 2.0 * shape.rows * shape.in_features * shape.out_features * (frozen ? 1 : 2);
    times.of_16_bits = layer.type.type != VKATTN_TYPE_F32;
    return times;
}

} // namespace vkattn::tools
