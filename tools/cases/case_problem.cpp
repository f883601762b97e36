#include "tools/cases/case_problem.hpp"

#include "tools/io/input_error.hpp"

#include <algorithm>
#include <limits>

namespace vkattn::tools {
namespace {

bool contains(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

std::string listed(std::span<const std::string_view> names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : " ") + std::string(name);
    return text;
}

} // namespace

vkattn_type type_of(Dtype dtype) {
    switch (dtype) {
    case Dtype::kF32:
        return VKATTN_TYPE_F32;
    case Dtype::kF16:
        return VKATTN_TYPE_F16;
    case Dtype::kBf16:
        return VKATTN_TYPE_BF16;
    case Dtype::kBool:
        return VKATTN_TYPE_BOOL;
    case Dtype::kI32:
        return VKATTN_TYPE_I32;
    case Dtype::kF64:
    case Dtype::kI64:
    case Dtype::kU8:
        return VKATTN_TYPE_NONE;
    }
    return VKATTN_TYPE_NONE;
}

Problem make_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel) {
    if (input.op == "attention_backward") return make_attention_backward_problem(input, wanted, kernel);
    if (input.op == "linear") return make_linear_problem(input, wanted);
    if (input.op == "linear_attention") return make_linear_attention_problem(input, wanted);
    if (input.op == "causal_conv1d") return make_causal_conv1d_problem(input, wanted);
    if (input.op == "index") return make_index_problem(input, wanted);
    return input.is_layer() ? make_layer_problem(input, wanted, kernel) : make_attention_problem(input, wanted, kernel);
}

void ProblemBuilder::fail(const std::string &what_and_expected) const {
    throw InputError(input_.file, what_and_expected);
}

bool ProblemBuilder::wants(const std::string &output) const {
    return std::ranges::find(wanted_, output) != wanted_.end();
}

void ProblemBuilder::check_inputs(std::span<const std::string_view> known) const {
    for (const auto &[name, tensor] : input_.tensors)
        if (!contains(known, name))
            fail("unknown tensor " + quote_name(name) + ", expected " + listed(known) + " or expected.*");
}

void ProblemBuilder::check_wanted(std::span<const std::string_view> given) const {
    for (const std::string &name : wanted_)
        if (!contains(given, name))
            fail("op " + quote_name(input_.op) + " has no output " + quote_name(name) + ", expected some of " +
                 listed(given));
}

const HostTensor &ProblemBuilder::required_float(const std::string &name, std::size_t rank,
                                                 std::size_t other_rank) const {
    const HostTensor *tensor = input_.find(name);
    if (tensor == nullptr) fail("tensor '" + name + "' is missing, expected it for op " + quote_name(input_.op));
    check_float(name, *tensor, rank, other_rank);
    return *tensor;
}

void ProblemBuilder::check_float(const std::string &name, const HostTensor &tensor, std::size_t rank,
                                 std::size_t other_rank) const {
    if (!is_float(tensor.dtype))
        fail("tensor '" + name + "' is " + std::string(dtype_name(tensor.dtype)) + ", expected F32, F16 or BF16");
    if (tensor.shape.size() != rank && tensor.shape.size() != other_rank)
        fail("tensor '" + name + "' is " + shape_text(tensor.shape) + ", expected " + std::to_string(rank) +
             (rank == other_rank ? "" : " or " + std::to_string(other_rank)) + " dimensions");
}

vkattn_tensor ProblemBuilder::contiguous(const std::string &name, vkattn_type type,
                                         std::span<const std::uint64_t> shape) const {
    if (shape.empty() || shape.size() > 4)
        fail("tensor " + quote_name(name) + " is " + shape_text(shape) + ", expected 1 to 4 dimensions");
    vkattn_tensor layout{};
    layout.type = type;
    layout.rank = static_cast<std::uint32_t>(shape.size());
    std::ranges::copy(shape, layout.shape);
    return layout;
}

const HostTensor &ProblemBuilder::keep(HostTensor tensor) {
    return *problem_.converted.emplace_back(std::make_unique<HostTensor>(std::move(tensor)));
}

vkattn_tensor ProblemBuilder::add(vkattn_role role, const vkattn_tensor &layout, const HostTensor &tensor) {
    problem_.inputs.push_back({role, layout, tensor.bytes});
    return layout;
}

vkattn_tensor ProblemBuilder::add_attn_mask() {
    const HostTensor *mask = input_.find("attn_mask");
    if (mask == nullptr) return {};
    if (!is_float(mask->dtype) && mask->dtype != Dtype::kBool)
        fail("tensor 'attn_mask' is " + std::string(dtype_name(mask->dtype)) + ", expected BOOL, F32, F16 or BF16");
    if (mask->dtype == Dtype::kBf16) mask = &keep(tensor_of(Dtype::kF32, mask->shape, values_of(*mask)));
    return add(VKATTN_ROLE_ATTN_MASK, contiguous("attn_mask", type_of(mask->dtype), mask->shape), *mask);
}

vkattn_tensor ProblemBuilder::add_key_padding_mask() {
    const HostTensor *mask = input_.find("key_padding_mask");
    if (mask == nullptr) return {};
    if (mask->dtype != Dtype::kBool)
        fail("tensor 'key_padding_mask' is " + std::string(dtype_name(mask->dtype)) + ", expected BOOL");
    return add(VKATTN_ROLE_KEY_PADDING_MASK, contiguous("key_padding_mask", VKATTN_TYPE_BOOL, mask->shape), *mask);
}

void ProblemBuilder::add_functions(vkattn_attention_desc &desc) {
    problem_.functions = input_.attention.functions;
    vkattn_tensor *const captured[] = {&desc.captured_0, &desc.captured_1, &desc.captured_2, &desc.captured_3};
    for (std::size_t i = 0; i < std::size(captured); ++i) {
        const std::string name = "captured." + std::to_string(i);
        const HostTensor *tensor = input_.find(name);
        if (tensor == nullptr) continue;
        if (problem_.functions.empty())
            fail("has tensor '" + name + "', expected a config key score_mod, mask_mod, lse_mod or output_mod with it");
        if (!is_float(tensor->dtype) && tensor->dtype != Dtype::kI32)
            fail("tensor '" + name + "' is " + std::string(dtype_name(tensor->dtype)) +
                 ", expected F32, F16, BF16 or I32");
        *captured[i] = add(static_cast<vkattn_role>(VKATTN_ROLE_CAPTURED_0 + i),
                           contiguous(name, type_of(tensor->dtype), tensor->shape), *tensor);
    }
}

vkattn_tensor ProblemBuilder::add_block_mask() {
    const bool has_sizes = input_.mask.block_q_len != 0 || input_.mask.block_kv_len != 0;
    if (has_sizes && input_.find("block_mask") == nullptr)
        fail("has config keys block_q_len and block_kv_len alone, expected a tensor 'block_mask' with them");
    return add_integers(VKATTN_ROLE_BLOCK_MASK, "block_mask");
}

vkattn_tensor ProblemBuilder::add_integers(vkattn_role role, const std::string &name) {
    const HostTensor *integers = input_.find(name);
    if (integers == nullptr) return {};
    if (integers->dtype != Dtype::kI32 && integers->dtype != Dtype::kI64)
        fail("tensor '" + name + "' is " + std::string(dtype_name(integers->dtype)) + ", expected I32 or I64");
    constexpr double kMin = std::numeric_limits<std::int32_t>::min(), kMax = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> clamped;
    for (const double value : values_of(*integers))
        clamped.push_back(static_cast<std::int32_t>(std::clamp(value, kMin, kMax)));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(clamped));
    const HostTensor &kept = keep({Dtype::kI32, integers->shape, {bytes.begin(), bytes.end()}});
    return add(role, contiguous(name, VKATTN_TYPE_I32, kept.shape), kept);
}

vkattn_tensor ProblemBuilder::add_f32_vector(vkattn_role role, const std::string &name) {
    const HostTensor *vector = input_.find(name);
    if (vector == nullptr) return {};
    check_float(name, *vector, 1, 1);
    if (vector->dtype != Dtype::kF32) vector = &keep(tensor_of(Dtype::kF32, vector->shape, values_of(*vector)));
    return add(role, contiguous(name, VKATTN_TYPE_F32, vector->shape), *vector);
}

vkattn_tensor ProblemBuilder::add_output(const std::string &name, vkattn_role role, Dtype dtype,
                                         std::vector<std::uint64_t> shape) {
    const vkattn_tensor layout = contiguous(name, type_of(dtype), shape);
    add_output({name, role, layout, dtype, std::move(shape)});
    return layout;
}

void ProblemBuilder::add_rotation(vkattn_attention_desc &desc) {
    const vkattn_rotation rotation = input_.attention.kv_rotation;
    if (rotation == VKATTN_ROTATION_NONE) return;
    for (const char *output : {"present_key", "present_value"})
        if (wants(output))
            fail("output '" + std::string(output) + "' beside kv_rotation, expected none of what is rotated");
    for (ProblemInput &input : problem_.inputs)
        input.rotated = input.role == VKATTN_ROLE_KEY || input.role == VKATTN_ROLE_VALUE;
    desc.key_rotation = desc.value_rotation = rotation;
}

void ProblemBuilder::add_key_list(vkattn_attention_desc &desc) {
    desc.key_block_len = input_.attention.key_block_len;
    if (input_.find("key_indices") == nullptr && desc.key_block_len != 0)
        fail("has config key key_block_len alone, expected a tensor 'key_indices' with it");
    desc.key_indices = add_integers(VKATTN_ROLE_KEY_INDICES, "key_indices");
}

Problem ProblemBuilder::finish(Description description) {
    problem_.description = std::move(description);
    return std::move(problem_);
}

} // namespace vkattn::tools
