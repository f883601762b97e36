#include "bench_linear.hpp"

#include "attention_shape.hpp"

namespace vkattn::tools {
namespace {

NamedType weight_type(const LinearShape &shape) {
    return shape.weight_dtype.empty() ? type_named("--dtype", shape.dtype)
                                      : type_named("--weight-dtype", shape.weight_dtype);
}

} // namespace

OperationTimes time_linear(const Context &context, const LinearShape &shape, const RepeatOptions &options) {
    const NamedType type = type_named("--dtype", shape.dtype), weights = weight_type(shape);
    vkattn_linear_desc desc{};
    desc.input = tensor(type.type, {1, shape.rows, shape.in_features});
    desc.weight = tensor(weights.type, {shape.out_features, shape.in_features});
    desc.output = tensor(type.type, {1, shape.rows, shape.out_features});
    const auto bytes = [](const vkattn_tensor &each) { return vkattn_tensor_bytes(&each); };
    OperationTimes times = time_operation(
        context, options, static_cast<double>(bytes(desc.input) + bytes(desc.weight) + bytes(desc.output)),
        [&] { return context.linear_plan(desc); },
        [&](unsigned seed) {
            const RandomValues random(seed);
            InputSet set;
            random.fill(set.add(context, VKATTN_ROLE_INPUT, bytes(desc.input)), type.dtype, bytes(desc.input));
            random.fill(set.add(context, VKATTN_ROLE_WEIGHT, bytes(desc.weight)), weights.dtype, bytes(desc.weight));
            set.add(context, VKATTN_ROLE_OUTPUT, bytes(desc.output));
            return set;
        });
    times.kernel = times.reason.substr(0, times.reason.find(':')); // plans name kernels of attention alone
    times.flops = 2.0 * shape.rows * shape.in_features * shape.out_features;
    times.of_16_bits = type.type != VKATTN_TYPE_F32;
    return times;
}

std::string shape_text(const LinearShape &shape) {
    const std::string features = std::to_string(shape.in_features) + " to " + std::to_string(shape.out_features);
    return features + " features, " + shape.dtype +
           (shape.weight_dtype.empty() ? "" : ", weights " + shape.weight_dtype);
}

} // namespace vkattn::tools
