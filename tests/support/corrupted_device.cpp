#include "corrupted_device.hpp"

#ifdef VKATTN_STATIC

#include "runtime/kernels/kernel.hpp"
#include "runtime/vulkan/functions.hpp"
#include "shaders/interface/attention.h"
#include "shaders/interface/linear.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkattn_test {
namespace {

using vkattn::Shader;
namespace shaders = vkattn::shaders;

struct State {
    std::mutex mutex;
    std::optional<Corruption> corruption;
    vkattn::Functions vulkan; // the global functions alone
    PFN_vkGetDeviceProcAddr device_function = nullptr;
    PFN_vkCmdBindPipeline bind_pipeline = nullptr; // of the device that asked last
    PFN_vkQueueSubmit queue_submit = nullptr;
    std::map<std::pair<VkDevice, VkShaderModule>, const Shader *> modules;
    std::map<VkPipeline, std::string> deadly; // they lose the device or end the process; what the log says
    struct Twin {
        VkPipeline pipeline;
        bool is_next;
    };
    std::map<VkPipeline, Twin> wrong_twins; // by pipelines that are bound in turn with them
    std::string bound;                      // of those that were recorded last
    bool is_lost = false;
};

State &state() {
    static State instance;
    return instance;
}

// The specialisation constants of a pipeline, by the names that the shader gives them.
class Constants {
  public:
    Constants(const Shader &shader, const VkSpecializationInfo &info)
        : names_(shader.constants), entries_(info.pMapEntries, info.pMapEntries + info.mapEntryCount),
          values_(info.dataSize / sizeof(std::uint32_t)) {
        std::memcpy(values_.data(), info.pData, info.dataSize);
    }

    bool has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

    std::uint32_t &operator[](std::string_view name) {
        if (!has(name)) throw std::logic_error("no constant " + std::string(name) + " to corrupt a shader by");
        const auto id = static_cast<std::uint32_t>(std::ranges::find(names_, name) - names_.begin());
        return values_[std::ranges::find(entries_, id, &VkSpecializationMapEntry::constantID)->offset /
                       sizeof(std::uint32_t)];
    }

    std::string text() const {
        std::string all;
        for (const std::uint32_t value : values_) all += " " + std::to_string(value);
        return all;
    }

    VkSpecializationInfo info() const {
        return {static_cast<std::uint32_t>(entries_.size()), entries_.data(), values_.size() * sizeof(std::uint32_t),
                values_.data()};
    }

  private:
    std::span<const char *const> names_;
    std::vector<VkSpecializationMapEntry> entries_;
    std::vector<std::uint32_t> values_;
};

bool has_key_parts(Constants &constants) { return (constants["FEATURES"] & FEATURE_PARTS) != 0; }

// Of the shaders of its row; what several rows take is named by itself.
bool is_of_kernel(vkattn_kernel kernel, const Shader &shader, Constants &constants) {
    const vkattn::AttentionKernel *row = vkattn::kernel_named(kernel);
    if (row == nullptr || std::ranges::find(row->shaders, &shader) == row->shaders.end()) return false;
    if (kernel == VKATTN_KERNEL_UNFUSED) return &shader == &shaders::masked_softmax;
    if (are_variants(shader, shaders::flash)) return kernel == VKATTN_KERNEL_FLASH || has_key_parts(constants);
    return &shader != &shaders::merge_parts;
}

bool is_of_shape(const vkattn_matrix_shape &shape, Constants &constants) {
    return shape.m == 0 ||
           (constants["MATRIX_M"] == shape.m && constants["MATRIX_N"] == shape.n && constants["MATRIX_K"] == shape.k);
}

// Takes another type in the place of the one that the constant names, which takes no more room: what is beyond its tensor is
// not touched. In the place of the smallest of all it takes rows half as long.
void change_format(Constants &constants, const char *name) {
    std::uint32_t &format = constants[name];
    if (format == VKATTN_TYPE_Q4_0)
        constants["HEAD_DIM"] /= 2;
    else if (vkattn::is_quantised(static_cast<vkattn_type>(format)))
        format = VKATTN_TYPE_Q4_0;
    else
        format = format == VKATTN_TYPE_F16 ? VKATTN_TYPE_BF16 : VKATTN_TYPE_F16;
}

// A softcap of 0 makes all scores alike; ReLU drops what is negative; products of pairs take fewer; the others read or write another
// type.
void corrupt(const Shader &shader, Constants &constants) {
    if (constants.has("ACTIVATION")) // of linear layers
        constants["ACTIVATION"] = ACTIVATION_RELU;
    else if (&shader == &shaders::rows || &shader == &shaders::rows_quantised)
        change_format(constants, "TARGET_FORMAT");
    else if (&shader == &shaders::select)
        change_format(constants, "INPUT_FORMAT");
    else if (constants.has("SORTED_LEN"))
        constants["SORTED_LEN"] = 2;
    else if (&shader == &shaders::qk_scores || &shader == &shaders::index_scores ||
             &shader == &shaders::index_addresses)
        change_format(constants, "KEY_FORMAT");
    else if (&shader == &shaders::index_scores_dots)
        constants["HEAD_DIM"] = 8;
    else if (&shader == &shaders::merge_parts || &shader == &shaders::weighted_values)
        change_format(constants, "OUTPUT_FORMAT");
    else
        constants["FEATURES"] |= vkattn::FEATURE_SOFTCAP;
}

bool is_meant(const Corruption &corruption, const Shader &shader, Constants &constants) {
    if (is_of_kernel(corruption.kernel, shader, constants)) return is_of_shape(corruption.shape, constants);
    const std::string name = " " + std::string(shader.name) + " ";
    if ((" " + std::string(corruption.shaders) + " ").find(name) == std::string::npos) return false;
    if (corruption.key_type != VKATTN_TYPE_NONE &&
        constants["KEY_FORMAT"] != static_cast<std::uint32_t>(corruption.key_type))
        return false;
    return !corruption.pages || constants["PAGE_SIZE"] != 0;
}

template <class Function>
Function next(VkDevice device, const char *name) {
    return reinterpret_cast<Function>(state().device_function(device, name));
}

// Whatever numbers its bindings have been given.
bool is_code_of(const Shader &shader, std::span<const std::uint32_t> code) {
    if (code.size() != shader.code.word_count()) return false;
    const std::vector<std::uint32_t> own = shader.code.words();
    const auto unnumbered = [](std::span<const std::uint32_t> words) { return vkattn::renumber_bindings(words, 0); };
    return unnumbered(code) == unnumbered(own);
}

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkShaderModule *made) {
    const VkResult result =
        next<PFN_vkCreateShaderModule>(device, "vkCreateShaderModule")(device, info, allocator, made);
    if (result != VK_SUCCESS) return result;
    const std::lock_guard lock(state().mutex);
    for (const Shader *shader : shaders::table())
        if (is_code_of(*shader, {info->pCode, info->codeSize / sizeof(std::uint32_t)}))
            state().modules[{device, *made}] = shader;
    return result;
}

void write_line(const Corruption &corruption, const std::string &line) {
    if (!corruption.log.empty()) std::ofstream(corruption.log, std::ios::app) << line << std::endl;
}

[[noreturn]] void end_process(const Corruption &corruption, const std::string &line) {
    write_line(corruption, line);
    std::abort(); // as an access violation would
}

VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                                        const VkComputePipelineCreateInfo *infos,
                                                        const VkAllocationCallbacks *allocator, VkPipeline *made) {
    const auto create = next<PFN_vkCreateComputePipelines>(device, "vkCreateComputePipelines");
    std::optional<Corruption> corruption;
    const Shader *shader = nullptr;
    {
        const std::lock_guard lock(state().mutex);
        corruption = state().corruption;
        const auto found = state().modules.find({device, infos->stage.module});
        if (found != state().modules.end()) shader = found->second;
    }
    // the library makes one at a time
    if (count != 1 || !corruption.has_value() || shader == nullptr || shader->constants.empty())
        return create(device, cache, count, infos, allocator, made);
    Constants constants(*shader, *infos->stage.pSpecializationInfo);
    const bool meant = is_meant(*corruption, *shader, constants);
    const bool alternates = meant && corruption->effect == Corruption::Effect::kWrongEverySecondRun;
    const bool deadly = meant && !alternates && corruption->effect != Corruption::Effect::kWrongNumbers;
    if (meant && !deadly) corrupt(*shader, constants);
    const std::string line = deadly ? std::string(shader->name) + constants.text() : "";
    if (deadly && corruption->effect == Corruption::Effect::kEndsProcessInBuild) end_process(*corruption, line);
    const VkSpecializationInfo specialisation = constants.info();
    VkComputePipelineCreateInfo info = *infos;
    info.stage.pSpecializationInfo = &specialisation;
    VkResult result = create(device, cache, 1, &info, allocator, made);
    if (alternates && result == VK_SUCCESS) { // what was made is the wrong twin of the one that is given
        const VkPipeline wrong = *made;
        result = create(device, cache, 1, infos, allocator, made);
        const std::lock_guard lock(state().mutex);
        state().wrong_twins[*made] = {wrong, false};
    }
    if (deadly && result == VK_SUCCESS) {
        const std::lock_guard lock(state().mutex);
        state().deadly[*made] = line;
    }
    return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline pipeline,
                                            const VkAllocationCallbacks *allocator) {
    const auto destroy = next<PFN_vkDestroyPipeline>(device, "vkDestroyPipeline");
    VkPipeline twin = VK_NULL_HANDLE;
    {
        const std::lock_guard lock(state().mutex);
        if (const auto found = state().wrong_twins.find(pipeline); found != state().wrong_twins.end())
            twin = found->second.pipeline;
        state().wrong_twins.erase(pipeline);
    }
    destroy(device, twin, allocator);
    destroy(device, pipeline, allocator);
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
    PFN_vkCmdBindPipeline bind = nullptr;
    {
        const std::lock_guard lock(state().mutex);
        if (const auto found = state().deadly.find(pipeline); found != state().deadly.end()) {
            state().is_lost = true; // once it is submitted
            state().bound = found->second;
        }
        if (const auto found = state().wrong_twins.find(pipeline); found != state().wrong_twins.end()) {
            if (found->second.is_next) pipeline = found->second.pipeline;
            found->second.is_next = !found->second.is_next;
        }
        bind = state().bind_pipeline;
    }
    bind(commands, point, pipeline);
}

VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo *submits,
                                            VkFence fence) {
    PFN_vkQueueSubmit submit = nullptr;
    {
        const std::lock_guard lock(state().mutex);
        if (state().is_lost) {
            if (state().corruption->effect == Corruption::Effect::kEndsProcessInSubmit)
                end_process(*state().corruption, state().bound);
            write_line(*state().corruption, state().bound);
            return VK_ERROR_DEVICE_LOST;
        }
        submit = state().queue_submit;
    }
    return submit(queue, count, submits, fence);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    const std::string_view wanted = name;
    if (wanted == "vkCreateShaderModule") return reinterpret_cast<PFN_vkVoidFunction>(&create_shader_module);
    if (wanted == "vkDestroyPipeline") return reinterpret_cast<PFN_vkVoidFunction>(&destroy_pipeline);
    if (wanted == "vkCreateComputePipelines") return reinterpret_cast<PFN_vkVoidFunction>(&create_compute_pipelines);
    const PFN_vkVoidFunction real = state().device_function(device, name);
    const std::lock_guard lock(state().mutex);
    if (real != nullptr && wanted == "vkCmdBindPipeline") {
        state().bind_pipeline = reinterpret_cast<PFN_vkCmdBindPipeline>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&bind_pipeline);
    }
    if (real != nullptr && wanted == "vkQueueSubmit") {
        state().queue_submit = reinterpret_cast<PFN_vkQueueSubmit>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&queue_submit);
    }
    return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name) {
    const PFN_vkVoidFunction real = state().vulkan.vkGetInstanceProcAddr(instance, name);
    if (std::string_view(name) != "vkGetDeviceProcAddr" || real == nullptr) return real;
    const std::lock_guard lock(state().mutex);
    state().device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&device_function);
}

} // namespace

bool can_corrupt() { return true; }

CorruptedDevice::CorruptedDevice(const Corruption &corruption) {
    if (state().vulkan.vkGetInstanceProcAddr == nullptr) state().vulkan = vkattn::load_global_functions(nullptr);
    const std::lock_guard lock(state().mutex);
    state().corruption = corruption;
    state().deadly.clear();
    state().wrong_twins.clear();
    state().is_lost = false;
}

CorruptedDevice::~CorruptedDevice() {
    const std::lock_guard lock(state().mutex);
    state().corruption.reset();
    state().is_lost = false;
}

PFN_vkGetInstanceProcAddr CorruptedDevice::get_instance_proc_addr() const { return instance_function; }

} // namespace vkattn_test

#else

namespace vkattn_test {

bool can_corrupt() { return false; }

CorruptedDevice::CorruptedDevice(const Corruption &) {}
CorruptedDevice::~CorruptedDevice() = default;
PFN_vkGetInstanceProcAddr CorruptedDevice::get_instance_proc_addr() const { return nullptr; }

} // namespace vkattn_test

#endif
