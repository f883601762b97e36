#include "runtime/kernels/choose.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace vkattn {
namespace {

// What no kernel can do on any device, in terms of the request.
void require_possible(const AttentionProblem &problem) {
    const bool wants_scores = present(problem.attn_weights) || present(problem.qk_matmul_output);
    const AttentionKernel *kernel = kernel_named(problem.kernel);
    const char *name = vkattn_kernel_name(problem.kernel);
    if (wants_scores && kernel != nullptr && !kernel->keeps_scores)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", name, " keeps no ",
             present(problem.attn_weights) ? "attn_weights" : "qk_matmul_output", ", expected unfused or auto");
    if (!is_dense(problem) && (wants_scores || (kernel != nullptr && kernel->keeps_scores)))
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: unfused, the only one with weights and scores, has no packed or paged ",
             "sequences, expected flash, decode or auto without attn_weights and qk_matmul_output");
    if (problem.batch_invariant && (wants_scores || (kernel != nullptr && !kernel->batch_invariant)))
        fail(VKATTN_ERROR_UNSUPPORTED, "batch_invariant: 1, expected 0 with kernels other than flash and with ",
             "attn_weights or qk_matmul_output");
    if (kernel != nullptr && problem.kernel == kernel->latent_kernel && !problem.value_in_key)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", name, ", and value has rows of its own, expected the first ",
             "elements of key's rows, or another kernel");
}

// The kernel that was requested.
AttentionChoice requested_choice(const AttentionKernel &kernel, const AttentionProblem &problem,
                                 const DeviceCaps &caps) {
    const AttentionAnswer answer = ask(kernel, problem, caps);
    const char *name = vkattn_kernel_name(problem.kernel);
    if (const std::string_view missing = kernel.missing(caps); !missing.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, name, " on ", caps.name, ": ", missing);
    if (!answer.obstacle.empty()) fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", name, ": ", answer.obstacle);
    return {&kernel, problem.kernel, answer.shape, text(name, " was asked for")};
}

// What tuning found, where it can still be followed.
std::optional<AttentionChoice> tuned_choice(const AttentionProblem &problem, const DeviceCaps &caps) {
    const AttentionKernel *kernel = kernel_named(problem.tile.kernel), *asked = kernel_named(problem.kernel);
    if (kernel == nullptr || kernel->knobs.empty() || problem.batch_invariant) return std::nullopt;
    if (asked != nullptr && asked != kernel) return std::nullopt;
    const AttentionAnswer answer = ask(*kernel, problem, caps);
    if (!answer.obstacle.empty()) return std::nullopt;
    const vkattn_kernel name = name_of(*kernel, problem);
    const char *why = asked != nullptr ? " was asked for" : ": the fastest that tuning found for such problems";
    return AttentionChoice{kernel, name, answer.shape, text(vkattn_kernel_name(name), why)};
}

// Whether the device can bind what the shape keeps in the workspace.
bool workspace_fits(const AttentionShape &shape, const DeviceCaps &caps) {
    const vkattn_tensor *const kept[] = {&shape.scores, &shape.staged_key, &shape.staged_value};
    return caps.max_storage_buffer_range == 0 || // not known
           std::ranges::all_of(kept, [&](const vkattn_tensor *each) { return is_bindable(caps, *each); });
}

// The reason leaves out what no plan on this device would take.
AttentionChoice best_choice(const AttentionProblem &problem, const DeviceCaps &caps) {
    const std::vector<KernelOption> options = options_for(problem, caps);
    std::string better;
    for (const KernelOption &option : options) {
        const vkattn_kernel kernel = name_of(*option.kernel, problem);
        const char *name = vkattn_kernel_name(kernel);
        if (option.obstacle.empty())
            return {option.kernel, kernel, option.shape, text(name, ": ", option.kernel->merit, better)};
        if (std::string_view(option.kernel->missing(caps)).empty())
            better.append("; not ").append(name).append(": ").append(option.obstacle);
    }
    const KernelOption &first = options.front();
    fail(VKATTN_ERROR_UNSUPPORTED, "attention on ", caps.name, ": no kernel serves",
         better.empty() ? text("; ", first.kernel->name, ": ", first.obstacle) : better);
}

} // namespace

std::vector<KernelOption> options_for(const AttentionProblem &problem, const DeviceCaps &caps) {
    std::vector<KernelOption> options;
    options.reserve(attention_kernels().size());
    for (const AttentionKernel *kernel : attention_kernels()) options.push_back({ask(*kernel, problem, caps), kernel});
    std::ranges::stable_sort(options, std::greater(), [&](const KernelOption &option) {
        return std::pair(workspace_fits(option.shape, caps), option.rank);
    });
    return options;
}

AttentionChoice choose_attention(const AttentionProblem &problem, const DeviceCaps &caps) {
    require_possible(problem);
    if (std::optional<AttentionChoice> tuned = tuned_choice(problem, caps)) return *std::move(tuned);
    AttentionProblem untuned = problem;
    untuned.tile = {};
    const AttentionKernel *asked = kernel_named(problem.kernel);
    return asked != nullptr ? requested_choice(*asked, untuned, caps) : best_choice(untuned, caps);
}

std::string tile_text(const AttentionKernel &kernel, const AttentionShape &shape) {
    std::string tile = kernel.describe(shape);
    if (shape.parts > 1) tile += text(", ", shape.parts, " parts");
    return tile;
}

} // namespace vkattn
