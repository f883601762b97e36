#pragma once

#include "runtime/vulkan/context.hpp"

namespace vkattn {

// Has the context measure, within so many milliseconds in all, what plans are about to take and nothing is known of: the
// candidates of a class of problems, once, before the first plan of it is made; other threads that would plan such a problem wait
// meanwhile. A class has half of what is left, so that a prompt leaves something for the token after it. Of what the time
// allows no candidate beside the untuned plan, nothing is kept: the next context asks again. Nothing is measured while the
// device is at what was submitted without a wait, which may wait for the caller. Of a fault of a candidate nothing but a lost
// device reaches the plan. Before the context is used. clock: of milliseconds.
void allow_tuning(Context &context, double milliseconds, Clock clock = steady_milliseconds);

} // namespace vkattn
