#pragma once

#include "runtime/problem/stored_types.hpp"
#include "vkattn/vkattn.h"

#include <cstdint>
#include <map>
#include <string>

namespace vkattn {

// Paths of a shader's code that its specialisation constants switch on, a bit each. The self-test judges each by itself.
using CodePaths = uint32_t;

// Storage types of numbers that it reads or writes: the bit of vkattn_type.
constexpr CodePaths kPathF32 = 1u << VKATTN_TYPE_F32, kPathF16 = 1u << VKATTN_TYPE_F16,
                    kPathBf16 = 1u << VKATTN_TYPE_BF16;
constexpr uint32_t kTypePathCount = 24;
constexpr CodePaths kPathTypes = (1u << kTypePathCount) - 1;
// Of attention: head sizes above kUsualHeadDim, pages, V as the first elements of K's rows, keys in parts for merge_parts,
// keys in several dispatches.
constexpr CodePaths kPathLargeHeads = 1u << 24, kPathPages = 1u << 25, kPathLatent = 1u << 26, kPathParts = 1u << 27,
                    kPathStretches = 1u << 28;
constexpr uint32_t kCodePathCount = 29;
constexpr uint32_t kUsualHeadDim = 128;

// The path of a storage type of numbers; 0 for others.
inline CodePaths path_of(vkattn_type type) { return is_float(type) || is_quantised(type) ? 1u << type : 0; }

// "q8_0"; of several "f16, pages".
std::string path_names(CodePaths paths);

// A shader, as verdicts name it, and the paths of its code that a choice takes; 0: it has none.
struct ShaderUse {
    std::string shader;
    CodePaths paths = 0;
};

// What tests have shown of a shader on a device.
struct ShaderVerdict {
    CodePaths passed = 0, failed = 0;
    std::string reason; // of what failed last: "self-test: decode, q8_0: wrong numbers"; "": nothing did
};

// By the shader's name: its own, and where it multiplies matrices their shape: "coopmat, 16x16x16".
using ShaderVerdicts = std::map<std::string, ShaderVerdict, std::less<>>;

} // namespace vkattn
