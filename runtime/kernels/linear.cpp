// What the kernels of linear layers share, and how one of them all is chosen.
#include "runtime/kernels/linear.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace vkattn {
namespace {

static_assert(ACTIVATION_RELU == VKATTN_ACTIVATION_RELU && ACTIVATION_SOFTPLUS == VKATTN_ACTIVATION_SOFTPLUS);

// Two neighbouring output features share a word: even heads, and every token starts at an even element.
bool outputs_in_pairs(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    bool even = problem.output.offset % 2 == 0 && push.head_dim % 2 == 0 && push.output_strides[3] == 1;
    for (uint32_t i : {0u, 1u, 2u, 4u}) even = even && push.output_strides[i] % 2 == 0;
    return even;
}

// Fails where a driver that limits a shader's loop iterations allows too few. Every 32 input features take 9 to multiply, 36 to load
// unaligned rows and up to 11 in loops that a driver may unroll. linear_vector and the kernels of addresses need fewer.
void require_loops(const DeviceCaps &caps, uint64_t in_features) {
    if (caps.max_loop_iterations == 0) return;
    const uint64_t most = (caps.max_loop_iterations - 64) / 56 * 32;
    if (in_features > most)
        fail(VKATTN_ERROR_UNSUPPORTED, "linear: ", in_features, " input features, expected at most ", most, " ",
             on_bounded_loops(caps));
}

// Every row begins at a multiple of so many elements.
bool rows_are_aligned(const vkattn_tensor &tensor, std::initializer_list<uint32_t> strides, uint32_t elements) {
    return tensor.offset % elements == 0 &&
           std::all_of(strides.begin(), strides.end(), [&](uint32_t s) { return s % elements == 0; });
}

constexpr const LinearKernel *kKernels[] = {
    &kLinearCoopmat, &kLinearAddresses, &kLinearVector,     &kLinearTiles,
    &kLinearDots,    &kLinearUniform,   &kLinearTransposed, &kLinearTransposedCoopmat};

LinearAnswer ask(const LinearKernel &kernel, const LinearProblem &given, const DeviceCaps &caps) {
    if (kernel.transposes != (given.transposed != 0))
        return {Rank::kByTuningAlone, "takes other layouts of the factors"};
    if (const char *missing = kernel.missing(caps); *missing != '\0') return {Rank::kByTuningAlone, missing};
    LinearProblem problem = given;
    if (problem.tile.kernel != number_of(kernel)) problem.tile = {};
    LinearAnswer answer = kernel.answer(problem, caps);
    if (answer.obstacle.empty() && present(problem.norm_weight) && !answer.shape.normalises)
        answer.obstacle = "does not normalise such an input";
    if (answer.obstacle.empty()) answer.obstacle = answer.shape.shader->code.why_empty();
    if (answer.obstacle.empty())
        answer.obstacle = why_off(caps, shader_name(*answer.shape.shader, answer.shape.constants), answer.shape.paths);
    return answer;
}

LinearChoice choice_of(const LinearKernel &kernel, const LinearAnswer &answer, const char *why) {
    return {answer.shape, &kernel, text(kernel.name, ": ", why)};
}

// What tuning found, if it can still be followed.
std::optional<LinearChoice> tuned_choice(const LinearProblem &problem, const DeviceCaps &caps) {
    if (problem.tile.kernel == 0 || problem.tile.kernel > std::size(kKernels)) return std::nullopt;
    const LinearKernel &kernel = *kKernels[problem.tile.kernel - 1];
    LinearAnswer answer = ask(kernel, problem, caps);
    if (!answer.obstacle.empty()) return std::nullopt;
    return choice_of(kernel, answer, "the fastest that tuning found for such layers");
}

} // namespace

std::string words_of_parts(const LinearShape &shape) {
    const uint32_t parts = shape.constants.WORKGROUP_SIZE / LINEAR_WORKGROUP_SIZE;
    return parts == 1 ? "" : text(", ", parts, " parts of the features");
}

uint32_t feature_parts(const LinearProblem &problem, const Grid &groups, uint32_t step, uint32_t bytes, uint32_t wanted,
                       const DeviceCaps &caps) {
    constexpr uint32_t kMost = 4, kFewestSteps = 2;
    const uint32_t steps = tiles(problem.push.in_features, step);
    uint32_t parts = 1;
    const auto may_double = [&] {
        const uint32_t more = 2 * parts;
        return more <= kMost && more * kFewestSteps <= steps && more * bytes <= caps.max_shared_memory_bytes &&
               more * LINEAR_WORKGROUP_SIZE <= caps.max_workgroup_invocations;
    };
    const auto wants_more = [&] {
        return wanted != 0 ? parts < wanted : workgroup_count(groups) * parts <= uint64_t{4} * cores_of(caps.traits);
    };
    while (may_double() && wants_more()) parts *= 2;
    return parts;
}

const Shader &variant_of(const LinearProblem &problem, const Shader &floats, const Shader &quantised) {
    return is_quantised(problem.weight.type) ? quantised : floats;
}

bool input_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.input_strides;
    return rows_are_aligned(problem.input, {strides[0], strides[1], strides[2]}, elements);
}

bool weight_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.weight_strides;
    return strides[1] == 1 && rows_are_aligned(problem.weight, {strides[0], strides[2]}, elements);
}

namespace {

// The same of factors whose outputs, or rows, lie beside each other.
uint32_t aligned_transposed(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    const auto are_aligned = [](const vkattn_tensor &factor, const uint32_t(&strides)[3], uint32_t lines) {
        return lines % kLinearFeatures == 0 &&
               rows_are_aligned(factor, {strides[0], strides[1]}, elements_of_vector(factor));
    };
    const bool input =
        (problem.transposed & TRANSPOSED_INPUT) != 0
            ? are_aligned(problem.input, push.input_strides, push.rows)
            : push.in_features % kLinearFeatures == 0 && input_is_aligned(problem, elements_of_vector(problem.input));
    const bool weight = are_aligned(problem.weight, push.weight_strides, push.out_features);
    return (input ? ALIGNED_INPUT : 0) | (weight ? ALIGNED_WEIGHT : 0);
}

} // namespace

uint32_t aligned_factors(const LinearProblem &problem) {
    if (problem.transposed != 0) return aligned_transposed(problem);
    if (problem.push.in_features % kLinearFeatures != 0) return 0;
    const bool input = input_is_aligned(problem, elements_of_vector(problem.input));
    const bool weight = weight_is_aligned(problem, elements_of_vector(problem.weight));
    return (input ? ALIGNED_INPUT : 0) | (weight ? ALIGNED_WEIGHT : 0);
}

gpu::LinearConstants constants_of(const LinearProblem &problem) {
    gpu::LinearConstants constants;
#define VKATTN_FORMAT(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                         \
    constants.NAME##_FORMAT = format_of(problem.name);
    LINEAR_TENSORS(VKATTN_FORMAT)
#undef VKATTN_FORMAT
    constants.ACTIVATION = static_cast<uint32_t>(problem.activation);
    constants.OUTPUT_PAIRS = outputs_in_pairs(problem);
    constants.GATED = problem.gated ? 1 : 0;
    constants.TRANSPOSED = problem.transposed;
    if (present(problem.norm_weight)) constants.NORM_EPSILON = std::bit_cast<uint32_t>(problem.norm_epsilon);
    return constants;
}

Grid grid(const LinearProblem &problem, uint32_t outputs, uint32_t rows) {
    return {tiles(problem.push.out_features, outputs), tiles(problem.push.rows, rows), problem.groups};
}

CodePaths paths_of(const LinearProblem &problem) { return path_of(problem.input.type) | path_of(problem.weight.type); }

std::span<const LinearKernel *const> linear_kernels() { return kKernels; }

uint32_t number_of(const LinearKernel &kernel) {
    return 1 + static_cast<uint32_t>(std::ranges::find(kKernels, &kernel) - std::begin(kKernels));
}

LinearClass class_of(const LinearProblem &problem) {
    LinearClass layers{};
    layers.input_type = format_of(problem.input);
    layers.weight_type = format_of(problem.weight);
    layers.output_type = format_of(problem.output);
    layers.flags = aligned_factors(problem) | (outputs_in_pairs(problem) ? 4 : 0) | (problem.gated ? 8 : 0) |
                   (present(problem.norm_weight) ? 16 : 0) | problem.transposed << 5;
    layers.in_features = problem.push.in_features;
    layers.out_features = problem.push.out_features;
    layers.log2_rows = log2_up(problem.push.rows);
    layers.log2_groups = log2_up(problem.groups);
    return layers;
}

LinearChoice choose_linear(const LinearProblem &problem, const DeviceCaps &caps) {
    require_loops(caps, problem.push.in_features);
    if (std::optional<LinearChoice> tuned = tuned_choice(problem, caps)) return *std::move(tuned);
    LinearProblem untuned = problem;
    untuned.tile = {};
    const LinearKernel *best = nullptr;
    LinearAnswer answer{Rank::kByTuningAlone};
    std::string off;
    for (const LinearKernel *kernel : kKernels) {
        LinearAnswer each = ask(*kernel, untuned, caps);
        if (kernel == &kLinearTiles || (kernel == &kLinearTransposed && problem.transposed != 0))
            off = each.obstacle; // which serve whatever the others do not
        if (!each.obstacle.empty() || each.rank <= answer.rank) continue;
        best = kernel;
        answer = std::move(each);
    }
    if (best == nullptr) fail(VKATTN_ERROR_UNSUPPORTED, "linear on ", caps.name, ": no shader serves: ", off);
    return choice_of(*best, answer, best->merit);
}

std::string words(const LinearChoice &choice) { return choice.kernel->name + choice.kernel->describe(choice); }

} // namespace vkattn
