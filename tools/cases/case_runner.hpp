// Runs a case on a device: uploads, plans, runs, fetches.
#pragma once

#include "tools/cases/case_file.hpp"

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace vkattn::tools {

struct CaseResult {
    TensorMap outputs;
    std::string kernel;
    std::string reason; // why this kernel
    std::uint64_t workspace_bytes = 0;
    double plan_ms = 0.0; // wall clock; with the upload of a layer's weights
    double run_ms = 0.0;  // wall clock
    double gpu_ms = 0.0;  // negative: the device has no timestamps
};

// Runs a case and fetches the wanted outputs. Throws InputError, also for what the library refuses.
CaseResult run_case(const Context &context, const CaseFile &input, std::span<const std::string> wanted,
                    vkattn_kernel kernel);

// Returns the names of the case's expected tensors.
std::vector<std::string> expected_outputs(const CaseFile &input);

} // namespace vkattn::tools
