// JSON from files that nobody vouches for.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace vkattn::tools {

// Parses text, which must be an object without repeated keys, nested at most max_depth deep (1: no object or array
// inside it). Throws InputError(source, ...); subject names the text in its message.
nlohmann::json parse_strict_json(std::string_view text, std::string_view source, std::string_view subject,
                                 int max_depth);

// The same for the whole of a file of at most max_bytes.
nlohmann::json read_strict_json(const std::filesystem::path &path, std::string_view subject, std::uintmax_t max_bytes,
                                int max_depth);

} // namespace vkattn::tools
