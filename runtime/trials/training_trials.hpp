#pragma once

#include "runtime/vulkan/context.hpp"

#include <string>

namespace vkattn {

// The trials of what training takes, as OperatorTrial::check has them.
std::string check_gated_activation(Context &context);
std::string check_embedding_backward(Context &context);
std::string check_cross_entropy(Context &context);
std::string check_mean_loss(Context &context);
std::string check_squared_norm(Context &context);
std::string check_optimizer_step(Context &context);
std::string check_adamw(Context &context);

} // namespace vkattn
