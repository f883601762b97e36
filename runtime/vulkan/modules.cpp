#include "runtime/vulkan/modules.hpp"

#include "shaders/interface/advance_lengths.h"
#include "shaders/interface/attention.h"
#include "shaders/interface/embedding.h"
#include "shaders/interface/kv_append.h"
#include "shaders/interface/linear.h"
#include "shaders/interface/merge.h"
#include "shaders/interface/norm.h"
#include "shaders/interface/rope.h"

#include <algorithm>
#include <bit>

#include "vkattn_shaders/advance_lengths.spv.hpp"
#include "vkattn_shaders/coopmat.spv.hpp"
#include "vkattn_shaders/coopmat_bf16.spv.hpp"
#include "vkattn_shaders/coopmat_rolled.spv.hpp"
#include "vkattn_shaders/decode.spv.hpp"
#include "vkattn_shaders/decode_halves.spv.hpp"
#include "vkattn_shaders/decode_halves_subgroups.spv.hpp"
#include "vkattn_shaders/decode_subgroups.spv.hpp"
#include "vkattn_shaders/embedding.spv.hpp"
#include "vkattn_shaders/flash.spv.hpp"
#include "vkattn_shaders/flash_addresses.spv.hpp"
#include "vkattn_shaders/flash_halves.spv.hpp"
#include "vkattn_shaders/flash_wide_halves.spv.hpp"
#include "vkattn_shaders/kv_append.spv.hpp"
#include "vkattn_shaders/linear.spv.hpp"
#include "vkattn_shaders/linear_addresses.spv.hpp"
#include "vkattn_shaders/linear_coopmat.spv.hpp"
#include "vkattn_shaders/linear_coopmat_bf16.spv.hpp"
#include "vkattn_shaders/linear_vector.spv.hpp"
#include "vkattn_shaders/masked_softmax.spv.hpp"
#include "vkattn_shaders/merge.spv.hpp"
#include "vkattn_shaders/merge_parts.spv.hpp"
#include "vkattn_shaders/norm.spv.hpp"
#include "vkattn_shaders/qk_scores.spv.hpp"
#include "vkattn_shaders/rope.spv.hpp"
#include "vkattn_shaders/weighted_values.spv.hpp"

namespace vkattn {
namespace {

#define VKATTN_CONSTANT_NAME(id, NAME, default_value) #NAME,
constexpr const char *kAttentionConstants[] = {ATTENTION_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kLinearConstants[] = {LINEAR_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kEmbeddingConstants[] = {EMBEDDING_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kNormConstants[] = {NORM_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kRopeConstants[] = {ROPE_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kAppendConstants[] = {APPEND_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kMergeConstants[] = {MERGE_CONSTANTS(VKATTN_CONSTANT_NAME)};
#undef VKATTN_CONSTANT_NAME

struct ModuleInfo {
    const char *name;
    std::span<const uint32_t> code;
    std::span<const char *const> constants;
    ModuleLayout layout;
};

constexpr uint32_t kAttentionPush = sizeof(gpu::AttentionPush);
constexpr uint32_t kAttentionUniforms = sizeof(gpu::AttentionParameters);

// In the order of enum Module.
const ModuleInfo kModules[] = {
    {"flash", flash_spv, kAttentionConstants, {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"flash_halves",
     flash_halves_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"flash_wide_halves",
     flash_wide_halves_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"decode", decode_spv, kAttentionConstants, {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"decode_subgroups",
     decode_subgroups_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true}},
    {"decode_halves",
     decode_halves_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"decode_halves_subgroups",
     decode_halves_subgroups_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true}},
    {"flash_addresses",
     flash_addresses_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"coopmat", coopmat_spv, kAttentionConstants, {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true}},
    {"coopmat_rolled",
     coopmat_rolled_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true}},
    {"coopmat_bf16",
     coopmat_bf16_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true}},
    {"merge_parts",
     merge_parts_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"merge", merge_spv, kMergeConstants, {MERGE_BINDINGS, sizeof(gpu::MergePush), 0, false}},
    {"qk_scores", qk_scores_spv, kAttentionConstants, {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"masked_softmax",
     masked_softmax_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"weighted_values",
     weighted_values_spv,
     kAttentionConstants,
     {ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, false}},
    {"linear", linear_spv, kLinearConstants, {LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, false}},
    {"linear_vector", linear_vector_spv, kLinearConstants, {LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, false}},
    {"linear_addresses", linear_addresses_spv, kLinearConstants, {LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, false}},
    {"linear_coopmat", linear_coopmat_spv, kLinearConstants, {LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, true}},
    {"linear_coopmat_bf16",
     linear_coopmat_bf16_spv,
     kLinearConstants,
     {LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, true}},
    {"embedding", embedding_spv, kEmbeddingConstants, {EMBEDDING_BINDINGS, sizeof(gpu::EmbeddingPush), 0, false}},
    {"norm", norm_spv, kNormConstants, {NORM_BINDINGS, sizeof(gpu::NormPush), 0, false}},
    {"rope", rope_spv, kRopeConstants, {ROPE_BINDINGS, sizeof(gpu::RopePush), 0, false}},
    {"kv_append", kv_append_spv, kAppendConstants, {APPEND_BINDINGS, sizeof(gpu::AppendPush), 0, false}},
    {"advance_lengths", advance_lengths_spv, {}, {ADVANCE_BINDINGS, sizeof(gpu::AdvancePush), 0, false}},
};
static_assert(std::size(kModules) == static_cast<size_t>(Module::kCount));

constexpr uint32_t kDecorationSpecId = 1, kDecorationBinding = 33; // the SPIR-V specification's numbers

// Where the numbers stand that a decoration gives.
std::vector<size_t> decorations(std::span<const uint32_t> code, uint32_t decoration) {
    constexpr uint32_t kHeaderWords = 5, kOpDecorate = 71; // the SPIR-V specification's numbers
    std::vector<size_t> places;
    for (size_t at = kHeaderWords; at < code.size();) {
        const uint32_t words = code[at] >> 16, opcode = code[at] & 0xffffu;
        if (words == 0) break;
        if (opcode == kOpDecorate && words == 4 && code[at + 2] == decoration) places.push_back(at + 3);
        at += words;
    }
    return places;
}

const ModuleInfo &info_of(Module module) { return kModules[static_cast<size_t>(module)]; }

} // namespace

const char *module_name(Module module) { return info_of(module).name; }

std::span<const uint32_t> module_code(Module module) { return info_of(module).code; }

bool module_is_built(Module module) { return !info_of(module).code.empty(); }

std::span<const char *const> module_constants(Module module) { return info_of(module).constants; }

const ModuleLayout &module_layout(Module module) { return info_of(module).layout; }

std::vector<uint32_t> specialisation_ids(std::span<const uint32_t> code) {
    std::vector<uint32_t> ids;
    for (const size_t at : decorations(code, kDecorationSpecId)) ids.push_back(code[at]);
    std::ranges::sort(ids); // the one of the workgroup's size may be there twice
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

BindingSet binding_set(std::span<const uint32_t> code) {
    BindingSet bindings = 0;
    for (const size_t at : decorations(code, kDecorationBinding)) bindings |= BindingSet{1} << code[at];
    return bindings;
}

std::vector<uint32_t> renumber_bindings(std::span<const uint32_t> code, BindingSet used, uint32_t uniforms) {
    std::vector<uint32_t> renumbered(code.begin(), code.end());
    for (const size_t at : decorations(code, kDecorationBinding)) {
        const uint32_t number = code[at];
        const BindingSet before = used & ((BindingSet{1} << number) - 1);
        const bool is_used = number == uniforms || (used >> number & 1) != 0;
        renumbered[at] = is_used ? static_cast<uint32_t>(std::popcount(before)) : 0;
    }
    return renumbered;
}

} // namespace vkattn
