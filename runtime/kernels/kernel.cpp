#include "runtime/kernels/kernel.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"
#include "runtime/vulkan/variant.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn {
namespace {

constexpr const AttentionKernel *kKernels[] = {&kCoopmat, &kCoopmat2, &kAddresses, &kFlash, &kDecode, &kUnfused};

// What stands in the kernel's way by what its row says of it; "": nothing.
std::string general_obstacle(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps) {
    if (const std::string_view missing = kernel.missing(caps); !missing.empty()) return std::string(missing);
    const auto buffers = std::ranges::count_if(
        kAttentionTensors, [&](const AttentionTensor &tensor) { return present(problem.*tensor.member); });
    if (buffers > int64_t{caps.max_storage_buffers_per_stage})
        return text(buffers, " tensors, expected at most maxPerStageDescriptorStorageBuffers, which is ",
                    caps.max_storage_buffers_per_stage);
    if (present(problem.attn_weights) && !kernel.keeps_scores) return "keeps no attn_weights";
    if (present(problem.qk_matmul_output) && !kernel.keeps_scores) return "keeps no qk_matmul_output";
    if (!is_dense(problem) && kernel.keeps_scores) return "has no packed or paged sequences";
    return problem.batch_invariant && !kernel.batch_invariant ? "is not batch-invariant" : "";
}

// What the self-test found wrong with the shaders of a shape that has none to take their place; "": nothing.
std::string obstacle_of_verdicts(const AttentionShape &shape, const AttentionProblem &problem, const DeviceCaps &caps) {
    if (!has_failures(caps)) return "";
    for (const ShaderUse &use : shaders_of(shape, problem))
        if (const std::string_view off = why_off(caps, use.shader, use.paths); !off.empty()) return std::string(off);
    return "";
}

// Which shader of a shape the problem's variant cannot have; "": none.
std::string obstacle_of_variant(const AttentionShape &shape, const AttentionProblem &problem) {
    if (problem.variant == nullptr) return "";
    for (const AttentionShape::Dispatch &dispatch : shape.dispatches)
        if (dispatch.groups[0] != 0 && !problem.variant->variant->serves(*dispatch.shader))
            return text("the variant has no module ", dispatch.shader->name);
    return "";
}

// A small problem of a storage type that the kernel may serve.
AttentionProblem problem_of_type(vkattn_type type, bool value_in_key) {
    vkattn_attention_desc desc{};
    desc.key = contiguous(type, {1, 1, 64, 64});
    desc.query = desc.output = contiguous(is_quantised(type) ? VKATTN_TYPE_F16 : type, {1, 1, 1, 64});
    if (!value_in_key) desc.value = desc.key;
    return check_attention(desc);
}

// Whether the self-test leaves the kernel a type that it serves.
bool serves_some_type(const AttentionKernel &kernel, bool in_key, const DeviceCaps &caps) {
    return !has_failures(caps) || std::ranges::any_of(stored_types(), [&](const StoredType &type) {
        return is_key_value(type.info.type) &&
               ask(kernel, problem_of_type(type.info.type, in_key), caps).obstacle.empty();
    });
}

// What of the kernel has failed the self-test; lives as long as caps.
const char *first_failure(const AttentionKernel &kernel, const DeviceCaps &caps) {
    for (const auto &[shader, verdict] : caps.verdicts) {
        const std::string_view name = std::string_view(shader).substr(0, shader.find(','));
        const auto is_it = [&](const Shader *each) { return name == each->name; };
        if (verdict.failed != 0 && std::ranges::any_of(kernel.shaders, is_it)) return verdict.reason.c_str();
    }
    return "";
}

} // namespace

std::span<const AttentionKernel *const> attention_kernels() { return kKernels; }

const AttentionKernel *kernel_named(uint32_t kernel) {
    if (kernel == VKATTN_KERNEL_AUTO) return nullptr;
    const auto *const row = std::ranges::find_if(
        kKernels, [&](const AttentionKernel *each) { return each->kernel == kernel || each->latent_kernel == kernel; });
    return row == std::end(kKernels) ? nullptr : *row;
}

vkattn_kernel name_of(const AttentionKernel &kernel, const AttentionProblem &problem) {
    if (kernel_named(problem.kernel) == &kernel) return problem.kernel; // as it was asked for
    const bool latent = problem.value_in_key && kernel.latent_kernel != VKATTN_KERNEL_AUTO;
    return latent ? kernel.latent_kernel : kernel.kernel;
}

std::vector<ShaderUse> shaders_of(const AttentionShape &shape, const AttentionProblem &problem) {
    std::vector<ShaderUse> uses;
    if (present(shape.staged_key)) // f32 copies
        uses.push_back({shaders::rows.name, kPathF32 | path_of(problem.key.type) | path_of(problem.value.type)});
    for (const AttentionShape::Dispatch &dispatch : shape.dispatches)
        if (dispatch.groups[0] != 0)
            uses.push_back({shader_name(*dispatch.shader, dispatch.constants), dispatch.paths});
    return uses;
}

std::vector<vkattn_kernel_support> list_kernels(const DeviceCaps &caps) {
    std::vector<vkattn_kernel_support> all;
    const auto list = [&](const AttentionKernel &kernel, vkattn_kernel name) {
        const std::string_view missing = kernel.missing(caps);
        const bool serves = missing.empty() && serves_some_type(kernel, name != kernel.kernel, caps);
        all.push_back({name, serves ? 1u : 0u, missing.empty() ? first_failure(kernel, caps) : missing.data()});
    };
    for (const AttentionKernel *kernel : kKernels) {
        list(*kernel, kernel->kernel);
        if (kernel->latent_kernel != VKATTN_KERNEL_AUTO) list(*kernel, kernel->latent_kernel);
    }
    return all;
}

AttentionAnswer ask(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionProblem asked = problem;
    if (kernel_named(problem.tile.kernel) != &kernel) asked.tile = {};
    AttentionAnswer answer = kernel.answer(asked, caps);
    if (std::string general = general_obstacle(kernel, problem, caps); !general.empty())
        answer.obstacle = std::move(general);
    else if (answer.obstacle.empty())
        answer.obstacle = obstacle_of_verdicts(answer.shape, problem, caps);
    if (answer.obstacle.empty()) answer.obstacle = obstacle_of_variant(answer.shape, problem);
    return answer;
}

} // namespace vkattn

const char *vkattn_kernel_name(vkattn_kernel kernel) {
    if (kernel == VKATTN_KERNEL_AUTO) return "auto";
    const vkattn::AttentionKernel *row = vkattn::kernel_named(static_cast<uint32_t>(kernel));
    if (row == nullptr) return "unknown";
    return row->kernel == kernel ? row->name : row->latent_name;
}
