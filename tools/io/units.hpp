// Sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::tools {

// Reads bytes: "2GiB", "1.5G" (k, M, G, T are powers of 1024), "2GB" (kB, MB, GB, TB are powers of 1000), "4096".
// Throws InputError(source, ...).
std::uint64_t parse_bytes(std::string_view source, std::string_view text);

// Reads a number of tokens: "4096", "32k", "1M" (powers of 1024). At least 1. Throws InputError(source, ...).
std::uint64_t parse_tokens(std::string_view source, std::string_view text);

enum class Unit {
    kPlain,  // 0.25, 12, 1500
    kCount,  // 67.1 M, 1.24 T: powers of 1000
    kBytes,  // 512 B, 1.50 GiB: powers of 1024
    kTokens, // 32k if a multiple of 1024, else 35,120
};

// Writes a value in three digits, or exactly where those are enough.
std::string format_value(double value, Unit unit);

std::string format_bytes(std::uint64_t bytes); // as kBytes

// Writes all digits, in groups of three: "35,120".
std::string format_grouped(std::uint64_t value);

} // namespace vkattn::tools
