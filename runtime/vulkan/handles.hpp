#pragma once

#include "runtime/support/error.hpp"

namespace vkattn {

// Calls a Vulkan function whose last argument is where it writes a handle. `call` is its name. A call that fails throws as
// Check does, and leaves the handle as it is: what such a call wrote is undefined.
template <auto Check = check, class Handle, class Function, class... Arguments>
void make_handle(Handle &handle, const char *call, Function function, Arguments... arguments) {
    Handle made{};
    Check(function(arguments..., &made), call);
    handle = made;
}

} // namespace vkattn
