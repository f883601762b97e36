// Attention's gradients on CPU drivers, as shaders/cpu/backward_*_addresses.comp have them.
#include "runtime/kernels/backward.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t kMostStep = 16, kMostSubgroups = 8;

// The knobs, by their places.
enum Place : uint32_t { kGradientStepKnob, kOwnSubgroupsKnob };
constexpr uint32_t kStepsToTry[] = {4, 6, 8, 12}, kSubgroupsToTry[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"step", kStepsToTry}, {"subgroups", kSubgroupsToTry}};

// Measured on llvmpipe 26, of D 64 and 128.
uint32_t step_of(const BackwardProblem &problem) {
    if (const uint32_t tuned = problem.tile.knobs[kGradientStepKnob]; tuned != 0) return std::min(tuned, kMostStep);
    const uint32_t dims = std::max(problem.attention.head_dim, problem.attention.v_head_dim);
    return problem.sums == BackwardSums::kKeys && dims > 96 ? 6 : 8;
}

uint32_t workgroup_of(const BackwardProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kOwn = 16;
    const uint32_t tuned = problem.tile.knobs[kOwnSubgroupsKnob];
    const uint32_t subgroups = tuned == 0 ? std::max(kOwn / caps.subgroup_size, 1u) : std::min(tuned, kMostSubgroups);
    return std::min(subgroups, std::max(caps.max_workgroup_invocations / caps.subgroup_size, 1u)) * caps.subgroup_size;
}

// Not lists of keys; nor packed sequences where neighbours must not count: a last step takes rows of them that it does not need.
std::string obstacle(const BackwardProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kElements = 4, kMostDims = 256; // larger heads take a CPU driver seconds to compile
    const AttentionProblem &attention = problem.attention;
    const bool of_queries = problem.sums == BackwardSums::kQueries;
    const uint64_t passing = of_queries ? attention.key.shape[2] : attention.query.shape[2];
    const uint64_t iterations = of_queries ? slots_of(attention) : rows_of(attention);
    if (!has_backward_addresses(caps)) return "scalar loads through addresses are not for this device";
    if (present(attention.key_indices)) return "lists of keys";
    if (attention.batch_invariant && present(attention.cu_seqlens_q))
        return "packed sequences that are batch_invariant";
    if (attention.head_dim % kElements != 0 || attention.v_head_dim % kElements != 0 ||
        std::max(attention.head_dim, attention.v_head_dim) > kMostDims)
        return text("head sizes ", attention.head_dim, " and ", attention.v_head_dim, ", expected multiples of ",
                    kElements, " up to ", kMostDims);
    if (passing < step_of(problem)) return text(passing, " pass by, expected ", step_of(problem), " at least");
    return caps.max_loop_iterations == 0 || iterations <= caps.max_loop_iterations ? "" : "loops are bounded";
}

BackwardAnswer answer(const BackwardProblem &problem, const DeviceCaps &caps) {
    BackwardAnswer answer{Rank::kScalars, obstacle(problem, caps)};
    if (!answer.obstacle.empty()) return answer;
    const uint32_t workgroup = workgroup_of(problem, caps);
    gpu::AttentionConstants constants = constants_of(problem.attention, workgroup);
    constants.STEP = step_of(problem);
    const Shader &shader =
        problem.sums == BackwardSums::kQueries ? shaders::backward_queries_addresses : shaders::backward_keys_addresses;
    answer.shape = {&shader, constants, workgroup, constants.STEP};
    return answer;
}

constexpr const Shader *kShaders[] = {&shaders::backward_queries_addresses, &shaders::backward_keys_addresses};

} // namespace

bool has_backward_addresses(const DeviceCaps &caps) {
    return is_built(shaders::backward_queries_addresses) && caps.traits.scalar_address_loads != 0 &&
           caps.buffers_have_addresses != 0 && *obstacle_of_arrays(caps) == '\0';
}

bool passes_in_place(const AttentionProblem &problem, const vkattn_tensor &rows) {
    return rows.type == VKATTN_TYPE_F32 && rows_are_in_blocks(problem, rows);
}

void set_addressed_rows(gpu::AttentionConstants &constants, const vkattn_tensor &first, const vkattn_tensor &second) {
    constants.KEY_ROW_BYTES = stride_bytes(first, 2);
    constants.VALUE_ROW_BYTES = stride_bytes(second, 2);
}

const BackwardKernel kBackwardAddresses = {
    .shaders = kShaders, .answer = answer, .describe = words_of_tile, .knobs = kKnobs};

} // namespace vkattn
