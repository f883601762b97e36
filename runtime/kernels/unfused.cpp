// Scores, softmax and weighted values as three dispatches: the only kernel that keeps weights and scores, for dense
// sequences.
#include "runtime/kernels/kernel.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

// Without tiles, every product reads its factors anew: an operation takes as long as several of the other kernels'.
constexpr double kCostOfUntiled = 8;
constexpr double kPassesOfSoftmax = 3; // over the scores

std::string obstacle(const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint64_t most_keys = uint64_t{caps.max_loop_iterations} * KEYS_OF_UNFUSED_ITERATION;
    if (most_keys == 0 || slots_of(problem) <= most_keys) return "";
    return text(slots_of(problem), " keys, expected at most ", most_keys, " ", on_bounded_loops(caps));
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint64_t heads = uint64_t{problem.batch} * problem.query_heads;
    const uint64_t value_pairs = uint64_t{problem.q_len} * ((problem.v_head_dim + 1) / 2);
    const double pairs = static_cast<double>(heads) * problem.q_len * slots_of(problem);
    const double flops_of_dim = 2 * kCostOfUntiled * pairs;
    const gpu::AttentionConstants constants = constants_of(problem, UNFUSED_WORKGROUP_SIZE);
    const CodePaths paths = paths_of(problem);
    AttentionShape shape{};
    shape.parameters = parameters_of(problem);
    shape.parts = 1;
    shape.keys_per_dispatch = slots_of(problem);
    shape.dispatches = {{{&shaders::qk_scores,
                          constants,
                          {tiles(slots_of(problem), UNFUSED_WORKGROUP_SIZE), problem.q_len, tiles(heads, 1)},
                          paths,
                          flops_of_dim * problem.head_dim,
                          BINDING_QK_MATMUL_OUTPUT},
                         {&shaders::masked_softmax,
                          constants,
                          {problem.q_len, problem.query_heads, problem.batch},
                          kPathF32,
                          kPassesOfSoftmax * kFlopsOfElement * pairs,
                          BINDING_ATTN_WEIGHTS},
                         {&shaders::weighted_values,
                          constants,
                          {tiles(value_pairs, UNFUSED_WORKGROUP_SIZE), problem.query_heads, problem.batch},
                          paths,
                          flops_of_dim * problem.v_head_dim}}};
    shape.scores = contiguous(VKATTN_TYPE_F32, {problem.batch, problem.query_heads, problem.q_len, slots_of(problem)});
    return {Rank::kUntiled, obstacle(problem, caps), shape};
}

std::string describe(const AttentionShape &) { return ""; }

constexpr const Shader *kShaders[] = {&shaders::qk_scores, &shaders::masked_softmax, &shaders::weighted_values};

} // namespace

const AttentionKernel kUnfused = {.kernel = VKATTN_KERNEL_UNFUSED,
                                  .name = "unfused",
                                  .shaders = kShaders,
                                  .merit = "attention weights or scores are asked for, which flash does not keep",
                                  .keeps_scores = true,
                                  .missing = nothing_missing,
                                  .answer = answer,
                                  .describe = describe};

} // namespace vkattn
