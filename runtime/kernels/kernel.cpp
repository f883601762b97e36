#include "runtime/kernels/kernel.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn {
namespace {

constexpr const AttentionKernel *kKernels[] = {&kCoopmat, &kAddresses, &kFlash, &kDecode, &kLatentDecode, &kUnfused};
static_assert(std::size(kKernels) == VKATTN_KERNEL_COUNT - 2); // without AUTO and COOPMAT2

// What the self-test found wrong with the shaders of a shape that has none to take their place; "": nothing.
std::string obstacle_of_verdicts(const AttentionKernel &kernel, const AttentionProblem &problem,
                                 const DeviceCaps &caps) {
    if (!has_failures(caps)) return "";
    for (const ShaderUse &use : shaders_of(kernel.shape(problem, caps), problem))
        if (const std::string_view off = why_off(caps, use.shader, use.paths); !off.empty()) return std::string(off);
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
bool serves_some_type(const AttentionKernel &kernel, const DeviceCaps &caps) {
    constexpr vkattn_type kTypes[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0,
                                      VKATTN_TYPE_Q4_0};
    return !has_failures(caps) || std::ranges::any_of(kTypes, [&](vkattn_type type) {
        const bool in_key = kernel.kernel == VKATTN_KERNEL_LATENT_DECODE;
        return obstacle_of(kernel, problem_of_type(type, in_key), caps).empty();
    });
}

// What of the kernel has failed the self-test; lives as long as caps.
const char *first_failure(const AttentionKernel &kernel, const DeviceCaps &caps) {
    for (const auto &[shader, verdict] : caps.verdicts) {
        const std::string_view module = std::string_view(shader).substr(0, shader.find(','));
        const auto is_it = [&](Module each) { return module == module_name(each); };
        if (verdict.failed != 0 && std::ranges::any_of(kernel.modules, is_it)) return verdict.reason.c_str();
    }
    return "";
}

} // namespace

std::span<const AttentionKernel *const> attention_kernels() { return kKernels; }

const AttentionKernel &kernel_named(vkattn_kernel kernel) {
    return **std::ranges::find(kKernels, kernel, &AttentionKernel::kernel);
}

bool can_run(vkattn_kernel kernel, const DeviceCaps &caps) {
    return std::string_view(kernel_named(kernel).missing(caps)).empty();
}

std::vector<ShaderUse> shaders_of(const AttentionShape &shape, const AttentionProblem &problem) {
    std::vector<ShaderUse> uses;
    if (present(shape.staged_key)) // f32 copies, by kv_append
        uses.push_back(
            {module_name(Module::kKvAppend), kPathF32 | path_of(problem.key.type) | path_of(problem.value.type)});
    for (const AttentionShape::Dispatch &dispatch : shape.dispatches)
        if (dispatch.groups[0] != 0) uses.push_back({shader_name(dispatch.module, dispatch.constants), dispatch.paths});
    return uses;
}

void list_kernels(const DeviceCaps &caps, vkattn_device_facts &facts) {
    facts.kernel_count = 0;
    for (const AttentionKernel *kernel : kKernels) {
        const std::string_view missing = kernel->missing(caps);
        vkattn_kernel_support &support = facts.kernels[facts.kernel_count++];
        support.kernel = kernel->kernel;
        support.supported = missing.empty() && serves_some_type(*kernel, caps) ? 1 : 0;
        support.reason = missing.empty() ? first_failure(*kernel, caps) : missing.data(); // or static
    }
}

std::string obstacle_of(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps) {
    const auto buffers = std::ranges::count_if(
        kAttentionTensors, [&](const AttentionTensor &tensor) { return present(problem.*tensor.member); });
    if (buffers > int64_t{caps.max_storage_buffers_per_stage})
        return text(buffers, " tensors, expected at most maxPerStageDescriptorStorageBuffers, which is ",
                    caps.max_storage_buffers_per_stage);
    const std::string obstacle = kernel.obstacle(problem, caps);
    return obstacle.empty() ? obstacle_of_verdicts(kernel, problem, caps) : obstacle;
}

const char *nothing_missing(const DeviceCaps &) { return ""; }

const char *obstacle_of_arrays(const DeviceCaps &caps) {
    return caps.traits.specialised_arrays != 0 ? "" : "the driver does not size arrays by specialisation constants";
}

} // namespace vkattn

const char *vkattn_kernel_name(vkattn_kernel kernel) {
    switch (kernel) {
    case VKATTN_KERNEL_AUTO:
        return "auto";
    case VKATTN_KERNEL_UNFUSED:
        return "unfused";
    case VKATTN_KERNEL_FLASH:
        return "flash";
    case VKATTN_KERNEL_DECODE:
        return "decode";
    case VKATTN_KERNEL_LATENT_DECODE:
        return "latent_decode";
    case VKATTN_KERNEL_COOPMAT:
        return "coopmat";
    case VKATTN_KERNEL_COOPMAT2:
        return "coopmat2";
    case VKATTN_KERNEL_ADDRESSES:
        return "addresses";
    default:
        return "unknown";
    }
}
