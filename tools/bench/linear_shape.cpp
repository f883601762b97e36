#include "tools/bench/linear_shape.hpp"

#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <utility>

namespace vkattn::tools {

ShapedLinear problem_of(const LinearShape &shape) {
    ShapedLinear shaped;
    shaped.type = named_type("--dtype", shape.dtype, is_float);
    shaped.weight_type =
        shape.weight_dtype.empty() ? shaped.type : named_type("--weight-dtype", shape.weight_dtype, is_weight);
    shaped.desc.input = tensor(shaped.type.type, {1, shape.rows, shape.in_features});
    shaped.desc.weight = shape.gated ? tensor(shaped.weight_type.type, {2, shape.out_features, shape.in_features})
                                     : tensor(shaped.weight_type.type, {shape.out_features, shape.in_features});
    if (shape.gated) shaped.desc.activation = VKATTN_ACTIVATION_SILU;
    shaped.desc.output = tensor(shaped.type.type, {1, shape.rows, shape.out_features});
    if (shape.input_norm) shaped.desc.norm_weight = tensor(shaped.type.type, {shape.in_features});
    return shaped;
}

vkattn_linear_backward_desc gradients_of(const ShapedLinear &layer) {
    vkattn_linear_backward_desc desc{};
    desc.weight = layer.desc.weight;
    desc.d_output = layer.desc.output;
    desc.d_input = layer.desc.input;
    if (is_quantised(desc.weight.type)) return desc;
    desc.input = layer.desc.input;
    desc.d_weight = layer.desc.weight;
    return desc;
}

std::string shape_text(const LinearShape &shape) {
    const std::string features = std::to_string(shape.in_features) + " to " + std::to_string(shape.out_features);
    return features + " features, " + shape.dtype +
           (shape.weight_dtype.empty() ? "" : ", weights " + shape.weight_dtype) +
           (shape.input_norm ? ", RMSNorm of the input" : "") + (shape.gated ? ", gated" : "");
}

bool is_linear(const OperationOptions &options) {
    if (options.op != "linear") return false;
    for (const auto &[option, given] :
         {std::pair("--input-norm", options.linear.input_norm), std::pair("--gated", options.linear.gated)})
        if (given && options.shape.backward) throw InputError(option, "given with --backward, expected one of the two");
    return true;
}

std::vector<LinearShape> linear_shapes_of(const OperationOptions &options) {
    std::vector<LinearShape> shapes(options.rows.size(), options.linear);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        shapes[i].dtype = options.shape.dtype;
        shapes[i].rows = options.rows[i];
    }
    return shapes;
}

} // namespace vkattn::tools
