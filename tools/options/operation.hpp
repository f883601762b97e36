// The options by which commands are told an operation and its sizes.
#pragma once

#include "tools/bench/linear_shape.hpp"

#include <string>

namespace CLI {
class App;
}

namespace vkattn::tools {

void add_operation(CLI::App &command, OperationOptions &options);
void add_input_norm(CLI::App &command, OperationOptions &options);
void add_backward(CLI::App &command, OperationOptions &options);

// Throws InputError where the command was given an option of other operations than the one that it is asked for.
void refuse_options_of_others(const CLI::App &command, const OperationOptions &options, bool of_layers);

} // namespace vkattn::tools
