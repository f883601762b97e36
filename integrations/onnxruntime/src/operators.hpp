// The operators that this provider computes.
#pragma once

#include "node.hpp"

namespace vkattn_ort {

// An operator of a node, ready for calls from any number of threads.
class Operator {
  public:
    virtual ~Operator() = default;
    virtual void compute(Call &call) const = 0;
};

// How a kind of node is taken.
//
// obstacle  says why a node is left to other providers; "" where it is taken. Looks at nothing but the node
// make      reads what it needs of the node, whose constants go afterwards
// host_inputs   bits: constants that make has read and no call asks for
// between   taken only beside another node that is taken: by itself its tensors would be copied for nothing
struct OperatorRow {
    const char *domain;
    const char *op;
    int first_version, last_version;
    std::string (*obstacle)(const Node &node);
    std::unique_ptr<Operator> (*make)(const Node &node, Device &device);
    std::uint32_t host_inputs;
    bool between;
};

// Returns the row of a node, or nullptr where its operator is none of ours, in whatever version.
const OperatorRow *find_operator(const Node &node);

// Returns why a node is not taken, or "".
std::string obstacle_of(const OperatorRow &row, const Node &node);

// The rows' functions, by file.
std::string attention_obstacle(const Node &node); // attention.cpp
std::unique_ptr<Operator> make_attention(const Node &node, Device &device);
std::string multi_head_obstacle(const Node &node);
std::unique_ptr<Operator> make_multi_head(const Node &node, Device &device);
std::string grouped_obstacle(const Node &node);
std::unique_ptr<Operator> make_grouped(const Node &node, Device &device);
std::string product_obstacle(const Node &node); // products.cpp
std::unique_ptr<Operator> make_product(const Node &node, Device &device);
std::string rotary_obstacle(const Node &node); // rotary.cpp
std::unique_ptr<Operator> make_rotary(const Node &node, Device &device);
std::string contrib_rotary_obstacle(const Node &node);
std::unique_ptr<Operator> make_contrib_rotary(const Node &node, Device &device);

// Returns "NAME is TYPE, expected float, float16 or bfloat16", or "".
std::string float_obstacle(const char *name, const Declared &value);

} // namespace vkattn_ort
