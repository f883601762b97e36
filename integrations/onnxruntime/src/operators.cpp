#include "operators.hpp"

namespace vkattn_ort {
namespace {

constexpr int kAnyVersion = 1 << 20;

constexpr OperatorRow kOperators[] = {
    {"", "Attention", 23, 25, attention_obstacle, make_attention, 0, false},
    {"com.microsoft", "MultiHeadAttention", 1, kAnyVersion, multi_head_obstacle, make_multi_head, 0, false},
    {"com.microsoft", "GroupQueryAttention", 1, kAnyVersion, grouped_obstacle, make_grouped, 1 << 7 | 1 << 8 | 1 << 11,
     false},
    {"com.microsoft", "MatMulNBits", 1, kAnyVersion, product_obstacle, make_product, 1 << 1 | 1 << 2 | 1 << 3, false},
    {"", "RotaryEmbedding", 23, 23, rotary_obstacle, make_rotary, 1 << 1 | 1 << 2, true},
    {"com.microsoft", "RotaryEmbedding", 1, kAnyVersion, contrib_rotary_obstacle, make_contrib_rotary, 1 << 2 | 1 << 3,
     true},
};

} // namespace

const OperatorRow *find_operator(const Node &node) {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    for (const OperatorRow &row : kOperators)
        if (domain == row.domain && node.op() == row.op) return &row;
    return nullptr;
}

std::string obstacle_of(const OperatorRow &row, const Node &node) {
    const int version = node.since_version();
    if (version < row.first_version || version > row.last_version)
        return "version " + std::to_string(version) + " of the operator, expected " +
               std::to_string(row.first_version) + " to " + std::to_string(row.last_version);
    return row.obstacle(node);
}

std::string float_obstacle(const char *name, const Declared &value) {
    if (is_float(value.type)) return "";
    return std::string(name) + " is " + element_name(value.type) + ", expected float, float16 or bfloat16";
}

} // namespace vkattn_ort
