#pragma once

#include "runtime/support/failure.hpp"

namespace vkattn::jit {

// The calling thread's. By a call, and not where it is caught: in a handler GCC 16 finds a thread_local before the exception, in whose
// place its address then stands.
LastFailure &last_failure();

} // namespace vkattn::jit
