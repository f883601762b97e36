#include "runtime/jit/last_failure.hpp"

namespace vkattn::jit {

namespace {

thread_local LastFailure last;

} // namespace

LastFailure &last_failure() { return last; }

} // namespace vkattn::jit
