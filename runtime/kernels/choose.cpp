#include "runtime/kernels/choose.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

bool is_unequal(const AttentionProblem &problem) {
    return present(problem.cu_seqlens_q) || present(problem.cu_seqlens_k) || present(problem.block_table);
}

// What no kernel can do on any device, in terms of the request.
void require_possible(const AttentionProblem &problem) {
    const bool wants_matrices = present(problem.attn_weights) || present(problem.qk_matmul_output);
    const vkattn_kernel kernel = problem.kernel;
    if (kernel == VKATTN_KERNEL_COOPMAT2)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: coopmat2, which is no longer there, expected coopmat or auto");
    if (wants_matrices && kernel != VKATTN_KERNEL_AUTO && kernel != VKATTN_KERNEL_UNFUSED)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", vkattn_kernel_name(kernel), " keeps no ",
             present(problem.attn_weights) ? "attn_weights" : "qk_matmul_output", ", expected unfused or auto");
    if (is_unequal(problem) && (wants_matrices || kernel == VKATTN_KERNEL_UNFUSED))
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: unfused, the only one with weights and scores, has no packed or paged ",
             "sequences, expected flash, decode or auto without attn_weights and qk_matmul_output");
    if (problem.batch_invariant && (wants_matrices || (kernel != VKATTN_KERNEL_AUTO && kernel != VKATTN_KERNEL_FLASH)))
        fail(VKATTN_ERROR_UNSUPPORTED, "batch_invariant: 1, expected 0 with kernels other than flash and with ",
             "attn_weights or qk_matmul_output");
    if (kernel == VKATTN_KERNEL_LATENT_DECODE && !problem.value_in_key)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: latent_decode, and value has rows of its own, expected the first ",
             "elements of key's rows, or another kernel");
}

std::string why_not(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps) {
    std::string missing = kernel.missing(caps);
    return missing.empty() ? obstacle_of(kernel, problem, caps) : missing;
}

const AttentionKernel &insisted_kernel(const AttentionProblem &problem, const DeviceCaps &caps) {
    const AttentionKernel &kernel = kernel_named(problem.kernel);
    const char *name = vkattn_kernel_name(kernel.kernel);
    if (const std::string_view missing = kernel.missing(caps); !missing.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, name, " on ", caps.name, ": ", missing);
    if (const std::string obstacle = obstacle_of(kernel, problem, caps); !obstacle.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", name, ": ", obstacle);
    return kernel;
}

// What tuning found, where it can still be followed.
const AttentionKernel *tuned_kernel(const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t tuned = problem.tile.kernel;
    if (tuned == VKATTN_KERNEL_AUTO || tuned >= VKATTN_KERNEL_COUNT || tuned == VKATTN_KERNEL_UNFUSED ||
        tuned == VKATTN_KERNEL_COOPMAT2)
        return nullptr;
    const AttentionKernel &kernel = kernel_named(static_cast<vkattn_kernel>(tuned));
    const bool asked = problem.kernel == VKATTN_KERNEL_AUTO || problem.kernel == kernel.kernel;
    return asked && !problem.batch_invariant && why_not(kernel, problem, caps).empty() ? &kernel : nullptr;
}

// The reason leaves out what no plan on this device would take.
AttentionChoice best_of(const std::vector<KernelOption> &options, const DeviceCaps &caps) {
    std::string better;
    for (const KernelOption &option : options) {
        const char *name = vkattn_kernel_name(option.kernel->kernel);
        if (option.obstacle.empty())
            return {option.kernel, {}, std::string(name).append(": ").append(option.kernel->merit).append(better)};
        if (std::string_view(option.kernel->missing(caps)).empty())
            better.append("; not ").append(name).append(": ").append(option.obstacle);
    }
    fail(VKATTN_ERROR_UNSUPPORTED, "attention on ", caps.name, ": no kernel serves",
         better.empty() ? text("; ", vkattn_kernel_name(options.front().kernel->kernel), ": ", options.front().obstacle)
                        : better);
}

} // namespace

std::vector<KernelOption> options_for(const AttentionProblem &problem, const DeviceCaps &caps) {
    std::vector<KernelOption> options;
    options.reserve(attention_kernels().size());
    for (const AttentionKernel *kernel : attention_kernels())
        options.push_back({kernel, kernel->rank(problem, caps), why_not(*kernel, problem, caps)});
    std::ranges::stable_sort(options, std::greater(), &KernelOption::rank);
    return options;
}

AttentionChoice choose_attention(const AttentionProblem &given, const DeviceCaps &caps) {
    require_possible(given);
    AttentionProblem problem = given;
    const AttentionKernel *tuned = tuned_kernel(problem, caps);
    if (tuned == nullptr) problem.tile = {};
    AttentionChoice choice{};
    if (problem.kernel != VKATTN_KERNEL_AUTO)
        choice = {&insisted_kernel(problem, caps), {}, text(vkattn_kernel_name(problem.kernel), " was asked for")};
    else if (tuned != nullptr)
        choice = {
            tuned, {}, text(vkattn_kernel_name(tuned->kernel), ": the fastest that tuning found for such problems")};
    else
        choice = best_of(options_for(problem, caps), caps);
    choice.shape = choice.kernel->shape(problem, caps);
    return choice;
}

std::string tile_text(const AttentionChoice &choice) {
    std::string tile = choice.kernel->describe(choice.shape);
    if (choice.shape.parts > 1) tile += text(", ", choice.shape.parts, " parts");
    return tile;
}

} // namespace vkattn
