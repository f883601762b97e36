// A device's facts in words, and as JSON.
#pragma once

#include <vkattn/vkattn.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace vkattn::tools {

// "discrete".
const char *device_type_name(VkPhysicalDeviceType type);

// "1.3.275".
std::string version_text(std::uint32_t version);

// "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)".
std::string driver_text(const vkattn_device_facts &facts);

// "KERNEL: why", without the name twice.
std::string kernel_text(const std::string &kernel, const std::string &reason);

// The names of the features that the device has, or has not.
std::vector<std::string> features(const vkattn_device_facts &facts, bool present);

std::vector<std::string> subgroup_features(const vkattn_device_facts &facts);

// "16x16x16 f16": m, n and k of a product, and the type of its factors.
std::vector<std::string> matrix_shapes(const vkattn_device_facts &facts);

// The kernels to tell of: all, or that one.
std::vector<vkattn_kernel_support> kernels_of(const vkattn_device_facts &facts, vkattn_kernel kernel);

// An object of all facts.
nlohmann::json to_json(const vkattn_device_facts &facts, vkattn_kernel kernel);

} // namespace vkattn::tools
