#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>
#include <map>
#include <string>

namespace vkattn {

// Paths of a shader's code that its specialisation constants switch on, a bit each. The self-test judges each by itself.
using CodePaths = uint32_t;

// Storage types that it reads or writes.
constexpr CodePaths kPathF32 = 1u << 0, kPathF16 = 1u << 1, kPathBf16 = 1u << 2, kPathQ8 = 1u << 3, kPathQ4 = 1u << 4;
constexpr CodePaths kPathTypes = kPathF32 | kPathF16 | kPathBf16 | kPathQ8 | kPathQ4;
// Of attention: head sizes above kUsualHeadDim, pages, V as the first elements of K's rows, keys in parts for merge_parts,
// keys in several dispatches.
constexpr CodePaths kPathLargeHeads = 1u << 5, kPathPages = 1u << 6, kPathLatent = 1u << 7, kPathParts = 1u << 8,
                    kPathStretches = 1u << 9;
constexpr uint32_t kCodePathCount = 10;
constexpr uint32_t kUsualHeadDim = 128;

// The path of a storage type of numbers; 0 for others.
constexpr CodePaths path_of(vkattn_type type) {
    switch (type) {
    case VKATTN_TYPE_F32:
        return kPathF32;
    case VKATTN_TYPE_F16:
        return kPathF16;
    case VKATTN_TYPE_BF16:
        return kPathBf16;
    case VKATTN_TYPE_Q8_0:
        return kPathQ8;
    case VKATTN_TYPE_Q4_0:
        return kPathQ4;
    default:
        return 0;
    }
}

// What tests have shown of a shader on a device.
struct ShaderVerdict {
    CodePaths passed = 0, failed = 0;
    std::string reason; // of what failed last: "self-test: decode, q8_0: wrong numbers"; "": nothing did
};

// By the shader's name: its own, and where it multiplies matrices their shape: "coopmat, 16x16x16".
using ShaderVerdicts = std::map<std::string, ShaderVerdict, std::less<>>;

} // namespace vkattn
