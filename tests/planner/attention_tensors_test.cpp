// The table of attention's tensors, and what follows from it.
#include "runtime/ops/attention_split.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"
#include "shaders/interface/attention.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace vkattn;

namespace {

constexpr std::uint64_t kOtherFeatures[] = {
    FEATURE_CAUSAL,      FEATURE_WINDOW,       FEATURE_SOFTCAP,     FEATURE_QUERY_PAIRS,        FEATURE_KEY_PAIRS,
    FEATURE_VALUE_PAIRS, FEATURE_OUTPUT_PAIRS, FEATURE_SHORT_MASK,  FEATURE_KEYS_TO_LAST_QUERY, FEATURE_BOTTOM_RIGHT,
    FEATURE_DROPOUT,     FEATURE_SPLIT_KEYS,   FEATURE_KEY_ALIGNED, FEATURE_VALUE_ALIGNED,      FEATURE_QUERY_ALIGNED,
    FEATURE_PARTS};

// Three batch entries of four query heads, two KV heads. The padding mask's rows lie 40,000 bytes apart.
AttentionProblem problem_of_far_rows() {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F32, {3, 4, 5, 32});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F32, {3, 2, 16, 32});
    desc.key_padding_mask = contiguous(VKATTN_TYPE_BOOL, {3, 16});
    desc.key_padding_mask.strides[0] = 40000;
    desc.past_lengths = contiguous(VKATTN_TYPE_I32, {3});
    desc.sinks = contiguous(VKATTN_TYPE_F32, {4});
    desc.log_sum_exp = contiguous(VKATTN_TYPE_F32, {3, 4, 5});
    return check_attention(desc);
}

DeviceCaps caps_with_range(std::uint64_t bytes) {
    DeviceCaps caps{};
    caps.max_storage_buffer_range = bytes;
    return caps;
}

} // namespace

TEST_SUITE_BEGIN("planner");

TEST_CASE("each binding, role, name and feature bit of attention belongs to one tensor") {
    std::set<std::uint32_t> bindings{BINDING_SCORES}, roles;
    std::set<std::string> names;
    std::set<std::uint64_t> features(std::begin(kOtherFeatures), std::end(kOtherFeatures));
    CHECK(features.size() == std::size(kOtherFeatures));
    for (const AttentionTensor &tensor : kAttentionTensors) {
        INFO(std::string(tensor.name));
        CHECK(tensor.binding < ATTENTION_BINDINGS);
        CHECK(bindings.insert(tensor.binding).second);
        CHECK(roles.insert(tensor.role).second);
        CHECK(names.insert(tensor.name).second);
        CHECK(role_name(tensor.role) == std::string(tensor.name));
        CHECK((tensor.feature == 0 || features.insert(tensor.feature).second));
    }
}

TEST_CASE("each role has the name of its enumerator") {
    CHECK(role_name(VKATTN_ROLE_WORKSPACE) == std::string("workspace"));
    CHECK(role_name(VKATTN_ROLE_PRESENT_VALUE) == std::string("present_value"));
    CHECK(role_name(VKATTN_ROLE_PARTIAL_OUTPUT) == std::string("partial_output"));
    CHECK(role_name(VKATTN_ROLE_TOKENS) == std::string("tokens"));
    CHECK(role_name(VKATTN_ROLE_BLOCK_MASK) == std::string("block_mask"));
    CHECK(role_name(VKATTN_ROLE_CACHE) == std::string("cache"));
}

TEST_CASE("a problem is split by its batch for a tensor of any role") {
    const AttentionProblem problem = problem_of_far_rows();
    const std::vector<AttentionProblem> parts = split_to_bind(problem, caps_with_range(32768));
    REQUIRE(parts.size() == 3);
    for (std::uint64_t i = 0; i < parts.size(); ++i) {
        CHECK(parts[i].key_padding_mask.offset == i * 40000);
        CHECK(parts[i].key_padding_mask.shape[0] == 1);
        CHECK(parts[i].past_lengths.offset == i);
        CHECK(parts[i].log_sum_exp.offset == i * 20);
        CHECK(parts[i].query.offset == i * 4 * 5 * 32);
        CHECK(parts[i].sinks.offset == 0);
        CHECK(parts[i].sinks.shape[0] == 4);
    }
}

TEST_CASE("a batch entry that is too large is split by its KV heads") {
    const std::vector<AttentionProblem> parts = split_to_bind(problem_of_far_rows(), caps_with_range(2500));
    REQUIRE(parts.size() == 6);
    const AttentionProblem &last = parts.back();
    CHECK(last.query_heads == 2);
    CHECK(last.query.offset == (2 * 4 + 2) * 5 * 32);
    CHECK(last.key.offset == (2 * 2 + 1) * 16 * 32);
    CHECK(last.log_sum_exp.offset == (2 * 4 + 2) * 5);
    CHECK(last.sinks.offset == 2);
    CHECK(last.sinks.shape[0] == 2);
    CHECK(last.past_lengths.offset == 2);
    CHECK(last.key_padding_mask.offset == 80000);
    CHECK(last.key_padding_mask.shape[1] == 16);
}

TEST_SUITE_END();
