#include "runtime/kernels/kernel.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn {
namespace {

constexpr const AttentionKernel *kKernels[] = {&kCoopmat2, &kCoopmat,      &kAddresses, &kFlash,
                                               &kDecode,   &kLatentDecode, &kUnfused};
static_assert(std::size(kKernels) == VKATTN_KERNEL_COUNT - 1);

} // namespace

std::span<const AttentionKernel *const> attention_kernels() { return kKernels; }

const AttentionKernel &kernel_named(vkattn_kernel kernel) {
    return **std::ranges::find(kKernels, kernel, &AttentionKernel::kernel);
}

std::string why_off(const AttentionKernel &kernel, const DeviceCaps &caps) {
    if (const std::string_view missing = kernel.missing(caps); !missing.empty()) return std::string(missing);
    const KernelVerdict &verdict = caps.verdicts[static_cast<size_t>(kernel.kernel)];
    return verdict.passed ? "" : verdict.told;
}

bool can_run(vkattn_kernel kernel, const DeviceCaps &caps) { return why_off(kernel_named(kernel), caps).empty(); }

void list_kernels(const DeviceCaps &caps, vkattn_device_facts &facts) {
    facts.kernel_count = 0;
    for (const AttentionKernel *kernel : kKernels) {
        const std::string_view missing = kernel->missing(caps);
        const KernelVerdict &verdict = caps.verdicts[static_cast<size_t>(kernel->kernel)];
        vkattn_kernel_support &support = facts.kernels[facts.kernel_count++];
        support.kernel = kernel->kernel;
        support.supported = missing.empty() && verdict.passed ? 1 : 0;
        support.reason = missing.data(); // static
        if (missing.empty() && !verdict.told.empty()) support.reason = verdict.told.c_str();
    }
}

std::string obstacle_of(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps) {
    const auto tensors = tensors_of(problem);
    const auto buffers = std::ranges::count_if(
        tensors, [](const vkattn_tensor *tensor) { return tensor != nullptr && present(*tensor); });
    if (buffers > int64_t{caps.max_storage_buffers_per_stage})
        return text(buffers, " tensors, expected at most maxPerStageDescriptorStorageBuffers, which is ",
                    caps.max_storage_buffers_per_stage);
    return kernel.obstacle(problem, caps);
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
