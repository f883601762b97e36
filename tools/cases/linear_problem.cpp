// Op "linear" as a problem: x, weight and bias of the file; gated with a weight [2,out,in].
#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <string>

namespace vkattn::tools {
namespace {

constexpr std::string_view kLinearInputs[] = {"x", "weight", "bias"};

// The weight in its storage type. The device quantises rows of heads, of which it is one.
vkattn_tensor add_weight(ProblemBuilder &builder, const HostTensor &weight) {
    vkattn_tensor layout = builder.contiguous("weight", type_of(weight.dtype), weight.shape);
    const std::optional<vkattn_type> type = builder.input().linear.weight_dtype;
    if (!type || *type == layout.type) return builder.add(VKATTN_ROLE_WEIGHT, layout, weight);
    layout.type = *type;
    const HostTensor &stored = builder.keep(tensor_of(dtype_of(*type), weight.shape, values_of(weight)));
    if (is_quantised(*type) && weight.shape.back() % 32 != 0)
        builder.fail("tensor 'weight' is " + shape_text(weight.shape) + ", expected rows of a multiple of 32 for " +
                     type_name(*type));
    const std::uint64_t rows = weight.shape.size() == 3 ? weight.shape[0] * weight.shape[1] : weight.shape[0];
    const std::uint64_t shape[] = {1, 1, rows, weight.shape.back()};
    builder.add(VKATTN_ROLE_WEIGHT, builder.contiguous("weight", *type, shape), stored);
    return layout;
}

} // namespace

Problem make_linear_problem(const CaseFile &input, std::span<const std::string> wanted) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kLinearInputs);
    const std::string_view outputs[] = {"output"};
    builder.check_wanted(outputs);
    const HostTensor &x = builder.required_float("x", 3, 3), &weight = builder.required_float("weight", 2, 3);
    vkattn_linear_desc desc{};
    desc.input = builder.add(VKATTN_ROLE_INPUT, builder.contiguous("x", type_of(x.dtype), x.shape), x);
    desc.weight = add_weight(builder, weight);
    if (const HostTensor *bias = input.find("bias")) {
        const std::uint64_t rank = weight.shape.size() - 1;
        builder.check_float("bias", *bias, rank, rank);
        desc.bias = builder.add(VKATTN_ROLE_BIAS, builder.contiguous("bias", type_of(bias->dtype), bias->shape), *bias);
    }
    desc.activation = input.linear.activation;
    desc.output = builder.add_output("output", VKATTN_ROLE_OUTPUT, x.dtype,
                                     {x.shape[0], x.shape[1], weight.shape[weight.shape.size() - 2]});
    return builder.finish(desc);
}

} // namespace vkattn::tools
