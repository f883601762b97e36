#pragma once

#include "runtime/kernels/choose.hpp"
#include "runtime/vulkan/context.hpp"

#include <string>
#include <vector>

namespace vkattn {

// What a kernel would make of a problem, or why it cannot serve it.
struct Explanation {
    vkattn_kernel kernel;
    bool chosen;
    std::string shape;    // in words; "" where it does not serve
    uint32_t dispatches;  // of the first part, where the device needs several to bind the tensors
    std::string obstacle; // "": it serves
};

// Every kernel's, the best first. Compiles nothing and allocates nothing on the device; on devices that test kernels
// before their first use, the one that would be chosen is tested.
std::vector<Explanation> explain_attention(Context &context, const vkattn_attention_desc &desc);

} // namespace vkattn
