// What an estimate cannot know without a device: the workspace of a layer's calls there.
#pragma once

#include "tools/estimate/report.hpp"

#include <vkattn/vkattn.hpp>

namespace vkattn::tools {

// Fills the estimates' workspace bytes for the device. Leaves them open where the layer has no such call: a cache in a
// quantised type or of a kind that the layer keeps none of.
void measure_workspaces(const Context &context, std::span<Estimate> estimates);

} // namespace vkattn::tools
