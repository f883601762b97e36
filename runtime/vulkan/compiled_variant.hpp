#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vkattn {

// What is compiled of a variant: variant_file.hpp has it as a file.
struct CompiledVariant {
    std::string functions;
    uint32_t defined = 0; // vkattn_variant_functions
    std::map<std::string, std::vector<uint32_t>> modules;
};

} // namespace vkattn
