#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace vkattn {

struct InflateError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Returns what was deflated (RFC 1951), which is so many bytes. Throws InflateError where it is not.
std::vector<std::byte> inflate(std::span<const uint8_t> deflated, size_t bytes);

} // namespace vkattn
