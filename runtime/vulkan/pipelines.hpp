#pragma once

#include "runtime/device/crash_journal.hpp"
#include "runtime/device/device_caps.hpp"
#include "runtime/spirv/specialise.hpp"
#include "runtime/vulkan/debug_labels.hpp"
#include "runtime/vulkan/functions.hpp"
#include "runtime/vulkan/shader.hpp"

#include <compare>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace vkattn {

using SpecialisationConstant = spirv::ConstantValue;

struct Pipeline {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSetLayout set_layout;
    BindingSet bindings; // of the shader's storage buffers: those that it uses, bound at 0, 1, 2 ... in their order
    BindingSet written;  // of the shader's: those that it may write
    bool has_uniforms;   // a uniform buffer at the next
    const Shader *shader;
    std::span<const SpecialisationConstant> constants; // those that the shader reads
    double compile_ms;                                 // what specialising and vkCreateComputePipelines took
    uint32_t spirv_bytes;                              // of the module that the driver got
    uint32_t workgroup_size;                           // in invocations
    std::shared_ptr<const Attempt> first_run;          // as a crash journal has it; NULL: there is none
};

// Compute pipelines, built on first use and kept: one for each shader, the bindings that it uses, and the values of the
// specialisation constants that it reads. Thread safe; threads that want different ones compile side by side.
class Pipelines {
  public:
    Pipelines(const Functions &vk, VkDevice device, VkPipelineCache cache, const DeviceCaps &caps,
              vkattn_shader_capture capture, const DebugLabels &labels);
    ~Pipelines();
    Pipelines(const Pipelines &) = delete;
    Pipelines &operator=(const Pipelines &) = delete;

    // Starts from what saved() gave in an earlier run of the same driver; nothing may be compiled yet.
    void load(std::span<const std::byte> saved);
    // The driver's cache of compiled pipelines; empty where the caller keeps it in a VkPipelineCache of his own.
    std::vector<std::byte> saved() const;

    // What the driver keeps of each compilation.
    vkattn_shader_capture capture() const { return capture_; }

    // bindings: those of the shader's that the call binds. constants: by their ids. use: what a crash journal calls it. Fails
    // with VKATTN_ERROR_UNSUPPORTED where they are more storage buffers than the device takes, and where a process ended over
    // that pipeline.
    const Pipeline &get(const Shader &shader, BindingSet bindings, std::span<const uint32_t> constants,
                        const ShaderUse &use = {});

    // Notes there what is built for the first time, before anything is. device: identity_of.
    void set_journal(std::shared_ptr<CrashJournal> journal, uint64_t device);

    // Destroys those of a shader that is about to go, and that no plan has any more. leak: destroys nothing on the device.
    void forget(const Shader &shader, bool leak);

    // How many there are so far.
    size_t count();

  private:
    // A module that pipelines are made of, unpacked once: all that there are take some megabytes.
    struct Unpacked {
        std::vector<uint32_t> words;
        ModuleFacts facts;
    };
    struct Layout {
        VkDescriptorSetLayout set = VK_NULL_HANDLE;
        VkPipelineLayout pipeline = VK_NULL_HANDLE;
        const Unpacked *module = nullptr;
        BindingSet bindings = 0;
    };
    struct Entry {
        std::mutex mutex; // held while it is compiled: others are compiled meanwhile
        Pipeline pipeline{};
    };
    using LayoutKey = std::pair<const Shader *, BindingSet>;
    using Key = std::pair<LayoutKey, std::vector<SpecialisationConstant>>;

    struct Found {
        const Layout &layout; // complete
        const Key &key;
        Entry &entry; // may have no pipeline yet
    };

    // All of these stay where they are.
    Found entry_of(const Shader &shader, BindingSet bindings, std::span<const uint32_t> constants);
    const Unpacked &unpacked(const Shader &shader);
    const Layout &layout_of(const Unpacked &module, LayoutKey key);
    void destroy(const Layout &layout) const;
    Attempt attempt_of(const Shader &shader, const Key &key, const ShaderUse &use) const;
    void require_survivor(const Attempt &attempt) const;
    void make(const Shader &shader, const Found &found, std::span<const uint32_t> constants);
    void add_set_layout(Layout &layout) const;
    void add_pipeline_layout(const Shader &shader, Layout &layout) const;
    std::vector<SpecialisationConstant> values_of(const Layout &layout, std::span<const uint32_t> constants) const;
    // To ask for; 0: the driver decides.
    uint32_t subgroup_size_of(const Shader &shader, std::span<const uint32_t> constants) const;
    // The module of one pipeline, and the constants that are left to the driver.
    struct Module {
        std::vector<uint32_t> code;
        std::span<const SpecialisationConstant> constants;
    };
    Module module_of(const Shader &shader, const Layout &layout,
                     std::span<const SpecialisationConstant> constants) const;
    VkPipeline create(const Shader &shader, const Layout &layout, uint32_t subgroup_size, const Module &module) const;
    VkPipeline create_of_module(const Shader &shader, const Layout &layout, uint32_t subgroup_size,
                                std::span<const SpecialisationConstant> constants, VkShaderModule module) const;

    const Functions &vk_;
    VkDevice device_;
    VkPipelineCache cache_; // the caller's, or own_cache_
    VkPipelineCache own_cache_ = VK_NULL_HANDLE;
    vkattn_shader_capture capture_;
    const DebugLabels &labels_;
    bool push_descriptors_;
    DeviceTraits traits_;
    uint32_t max_storage_buffers_;
    bool takes_subgroup_sizes_;
    bool takes_full_subgroups_;
    std::shared_ptr<CrashJournal> journal_; // or NULL
    uint64_t journal_device_ = 0;
    std::mutex mutex_; // of what follows
    std::map<const Shader *, Unpacked> modules_;
    std::map<LayoutKey, Layout> layouts_;
    std::map<Key, Entry> pipelines_;
};

} // namespace vkattn
