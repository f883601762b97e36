// Tables as comma-separated values (RFC 4180).
#pragma once

#include <nlohmann/json.hpp>

#include <ostream>
#include <span>

namespace vkattn::tools {

// Prints a row of names and a row of values for each object; all have the names of the first, in its order.
void write_csv(std::ostream &out, std::span<const nlohmann::ordered_json> rows);

} // namespace vkattn::tools
