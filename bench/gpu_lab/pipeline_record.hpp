// What a driver's compiler says of one compute pipeline, as a line of JSON.
#pragma once

#include "runtime/spirv/workgroup_size.hpp"

#include <nlohmann/json.hpp>
#include <vulkan/vulkan.h>

#include <mutex>
#include <thread>

namespace vkattn::gpu_lab {

// Of VK_KHR_pipeline_executable_properties; all null where the device has no such extension.
struct ExecutableFunctions {
    PFN_vkGetPipelineExecutablePropertiesKHR properties = nullptr;
    PFN_vkGetPipelineExecutableStatisticsKHR statistics = nullptr;
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR representations = nullptr;
};

// A SPIR-V module that the driver was given.
struct GivenModule {
    std::size_t bytes = 0;
    spirv::WorkgroupSize size;
};

// Specialisation constants of one word each.
using Constants = std::vector<spirv::ConstantValue>;
Constants constants_of(const VkPipelineShaderStageCreateInfo &stage);

// Members, to which the layer adds device: module (null until somebody names it), spirv_bytes, compile_ms, subgroup_size, workgroup_size,
// constants, statistics, texts.
// The pipeline has to be created with the flags that capture statistics and internal representations.
nlohmann::ordered_json describe_pipeline(const ExecutableFunctions &vk, VkDevice device, VkPipeline pipeline,
                                         const Constants &constants, const GivenModule &module, double compile_ms);

// Appends lines to the file that VKATTN_STATISTICS_FILE names. A program names a pipeline right after it is created, if at
// all: a record that may get a name waits until its thread creates the next one, or until the end. Threads may call it
// together.
class Records {
  public:
    Records() = default;
    Records(const Records &) = delete;
    Records &operator=(const Records &) = delete;
    ~Records();

    void add(VkPipeline pipeline, nlohmann::ordered_json record, bool may_get_name);
    void name(std::uint64_t pipeline, const char *name);

  private:
    struct Record {
        std::uint64_t pipeline = 0;
        nlohmann::ordered_json json;
    };

    std::mutex mutex_;
    std::map<std::thread::id, Record> waiting_;
};

} // namespace vkattn::gpu_lab
