#include "runtime/trials/list_checks.hpp"

#include "runtime/emit/sorted_lists.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/select.hpp"
#include "runtime/ops/top_k.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/trials/trial_values.hpp"
#include "runtime/vulkan/memory.hpp"
#include "shaders/interface/sort_lists.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace vkattn {
namespace {

// A tensor's buffer, and its region of a role.
class RoleBuffer {
  public:
    RoleBuffer(Context &context, vkattn_role role, const vkattn_tensor &tensor)
        : tensor_(tensor), buffer_(context, extent_bytes(tensor), "vkattn self-test"), role_(role) {
        const std::vector<std::byte> poison(buffer_.bytes(), std::byte{0xff});
        buffer_.write(0, poison.data(), poison.size());
    }

    std::vector<float> randomise(TrialNumbers &numbers) {
        const std::vector<std::byte> bytes = bytes_of_numbers(tensor_, numbers);
        buffer_.write(0, bytes.data(), bytes.size());
        return numbers_in(bytes, tensor_);
    }
    void write(std::span<const int32_t> entries) { buffer_.write(0, entries.data(), entries.size_bytes()); }
    std::vector<int32_t> read(uint64_t offset, uint64_t count) {
        std::vector<int32_t> entries(count);
        buffer_.read(offset, entries.data(), count * sizeof(int32_t));
        return entries;
    }
    View view() const { return {tensor_, {Source::Kind::kRole, role_, VK_NULL_HANDLE, 0}}; }
    vkattn_binding binding() const { return {role_, {buffer_.handle(), 0, buffer_.bytes()}}; }
    const vkattn_tensor &tensor() const { return tensor_; }

  private:
    vkattn_tensor tensor_;
    Buffer buffer_;
    vkattn_role role_;
};

std::string compare_entries(const char *what, const std::vector<int32_t> &actual,
                            const std::vector<int32_t> &expected) {
    const auto [at, wanted] = std::ranges::mismatch(actual, expected);
    if (wanted == expected.end()) return "";
    return text("wrong numbers, ", what, " ", wanted - expected.begin(), " is ", *at, ", expected ", *wanted);
}

// Lists of two queries, with entries that name nothing and such as are there twice.
std::string check_sorting(Context &context, uint32_t len) {
    constexpr uint32_t kBlocks = 3000;
    RoleBuffer lists(context, VKATTN_ROLE_KEY_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, 2, len}));
    std::vector<int32_t> entries(2 * size_t{len});
    for (size_t i = 0; i < entries.size(); ++i)
        entries[i] = static_cast<int32_t>(i * 2654435761u % (kBlocks + 500)) - 250;
    lists.write(entries);
    PlanBuilder builder(context);
    allow_role(builder, lists.view());
    const View sorted = sort_lists(builder, lists.view(), kBlocks);
    const std::unique_ptr<const Plan> plan = builder.build();
    RoleBuffer workspace(context, VKATTN_ROLE_WORKSPACE,
                         contiguous(VKATTN_TYPE_I32, {divide_up(plan->workspace_bytes(), sizeof(int32_t))}));
    const vkattn_binding bindings[] = {lists.binding(), workspace.binding()};
    plan->run(bindings);
    for (int32_t &entry : entries)
        if (static_cast<uint32_t>(entry) >= kBlocks) entry = 0x7fffffff; // as shaders/layers/sort_lists.comp has it
    std::sort(entries.begin(), entries.begin() + len);
    std::sort(entries.begin() + len, entries.end());
    return compare_entries("entry", workspace.read(sorted.source.offset, entries.size()), entries);
}

// The first of the numbers in their order, of equal ones the lower indices.
std::vector<int32_t> greatest(const std::vector<float> &numbers, size_t count) {
    std::vector<int32_t> order(numbers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int32_t a, int32_t b) { return numbers[static_cast<size_t>(a)] > numbers[static_cast<size_t>(b)]; });
    order.resize(count);
    return order;
}

constexpr uint64_t kWidth = 300, kMost = 50; // of a row, and those that are selected

// Those that are selected, in the order of the row.
std::string check_select(Context &context) {
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, 1, kWidth}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, kMost}));
    std::vector<int32_t> expected = greatest(input.randomise(numbers), kMost);
    std::ranges::sort(expected);
    PlanBuilder builder(context);
    for (const View &view : {input.view(), indices.view()}) allow_role(builder, view);
    add_select(builder, input.view(), {}, kMost, indices.view(), false);
    const vkattn_binding bindings[] = {input.binding(), indices.binding()};
    builder.build()->run(bindings);
    return compare_entries("index", indices.read(0, kMost), expected);
}

// By sort_selected in the order of their ranks.
std::string check_top_k(Context &context) {
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, 1, kWidth}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, kMost}));
    const std::vector<int32_t> expected = greatest(input.randomise(numbers), kMost);
    vkattn_top_k_desc desc{};
    desc.input = input.tensor();
    desc.indices = indices.tensor();
    PlanBuilder builder(context);
    plan_top_k(builder, desc);
    const vkattn_binding bindings[] = {input.binding(), indices.binding()};
    builder.build()->run(bindings);
    return compare_entries("index", indices.read(0, kMost), expected);
}

// One query; heads of 20 elements are no whole vectors of lanes, which index_addresses needs.
std::string check_index(Context &context, uint64_t head_dim) {
    constexpr uint64_t kKeys = 75, kChosen = 20;
    TrialNumbers numbers;
    RoleBuffer query(context, VKATTN_ROLE_QUERY, contiguous(VKATTN_TYPE_F32, {1, 1, 1, head_dim}));
    RoleBuffer key(context, VKATTN_ROLE_KEY, contiguous(VKATTN_TYPE_F32, {1, 1, kKeys, head_dim}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, 1, kChosen}));
    const std::vector<float> q = query.randomise(numbers), k = key.randomise(numbers);
    std::vector<float> products(kKeys); // sums of multiples of 1/64 are exact
    for (size_t i = 0; i < k.size(); ++i) products[i / head_dim] += q[i % head_dim] * k[i];
    std::vector<int32_t> expected = greatest(products, kChosen);
    std::ranges::sort(expected);
    vkattn_index_desc desc{};
    desc.query = query.tensor();
    desc.key = key.tensor();
    desc.indices = indices.tensor();
    desc.activation = VKATTN_INDEX_IDENTITY;
    PlanBuilder builder(context);
    plan_index(builder, desc);
    const vkattn_binding bindings[] = {query.binding(), key.binding(), indices.binding()};
    builder.build()->run(bindings);
    return compare_entries("index", indices.read(0, kChosen), expected);
}

} // namespace

std::string check_list_shader(Context &context, const Shader &shader) {
    if (&shader == &shaders::sort_lists) return check_sorting(context, 100);
    if (&shader == &shaders::merge_lists) return check_sorting(context, SORT_LISTS_CHUNK + 100);
    if (&shader == &shaders::select) return check_select(context);
    if (&shader == &shaders::sort_selected) return check_top_k(context);
    return check_index(context, &shader == &shaders::index_addresses ? 64 : 20);
}

} // namespace vkattn
