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
#include <map>
#include <set>

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
constexpr const char *kAdvanceConstants[] = {ADVANCE_CONSTANTS(VKATTN_CONSTANT_NAME)};
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
    {"advance_lengths", advance_lengths_spv, kAdvanceConstants, {ADVANCE_BINDINGS, sizeof(gpu::AdvancePush), 0, false}},
};
static_assert(std::size(kModules) == static_cast<size_t>(Module::kCount));

// The SPIR-V specification's numbers.
enum : uint32_t { kOpTypePointer = 32, kOpVariable = 59, kOpDecorate = 71, kOpMemberDecorate = 72 };
enum : uint32_t { kDecorationSpecId = 1, kDecorationNonWritable = 24, kDecorationBinding = 33 };

// Calls visit(at, words) for each instruction of so many words that begins at `at`.
template <class Visit>
void for_each(std::span<const uint32_t> code, uint32_t opcode, Visit visit) {
    constexpr uint32_t kHeaderWords = 5;
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16 != 0; at += code[at] >> 16)
        if ((code[at] & 0xffffu) == opcode) visit(at, code[at] >> 16);
}

// Where the numbers stand that a decoration gives.
std::vector<size_t> decorations(std::span<const uint32_t> code, uint32_t decoration) {
    std::vector<size_t> places;
    for_each(code, kOpDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 2] == decoration) places.push_back(at + 3);
    });
    return places;
}

// The binding numbers whose buffers are not declared readonly.
BindingSet written_bindings(std::span<const uint32_t> code) {
    std::map<uint32_t, uint32_t> pointed, pointers; // the type of a pointer, the pointer of a variable
    std::set<uint32_t> readonly;                    // structs
    for_each(code, kOpMemberDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 3] == kDecorationNonWritable) readonly.insert(code[at + 1]);
    });
    for_each(code, kOpTypePointer, [&](size_t at, uint32_t) { pointed[code[at + 1]] = code[at + 3]; });
    for_each(code, kOpVariable, [&](size_t at, uint32_t) { pointers[code[at + 2]] = code[at + 1]; });
    BindingSet written = 0;
    for (const size_t at : decorations(code, kDecorationBinding))
        if (!readonly.contains(pointed[pointers[code[at - 2]]])) written |= BindingSet{1} << code[at];
    return written;
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
    const auto number_of = [&](uint32_t binding) {
        return static_cast<uint32_t>(std::popcount(used & ((BindingSet{1} << binding) - 1)));
    };
    const BindingSet written = written_bindings(code) & used;
    const uint32_t shared = written == 0 ? 0 : number_of(static_cast<uint32_t>(std::countr_zero(written)));
    std::vector<uint32_t> renumbered(code.begin(), code.end());
    for (const size_t at : decorations(code, kDecorationBinding)) {
        const bool is_used = code[at] == uniforms || (used >> code[at] & 1) != 0;
        renumbered[at] = is_used ? number_of(code[at]) : shared;
    }
    return renumbered;
}

} // namespace vkattn
