// The Vulkan devices of the process, and how ONNX Runtime allocates and copies there.
#pragma once

#include "memory.hpp"

#include <optional>

namespace vkattn_ort {

// A Vulkan device, with a context that all sessions share. It is opened when it is first used.
class Device {
  public:
    // runtime_minor: y of the version 1.y of ONNX Runtime that runs, where operators mean different things by it
    Device(const vkattn_device_facts &facts, int runtime_minor, const OrtLogger *logger);

    int runtime_minor() const { return runtime_minor_; }
    const std::string &name() const { return name_; }
    const Ort::MemoryInfo &memory_info() const { return memory_info_; }
    const vkattn::Context &context();
    Memory &memory();

    // Says whether a tensor's place is this device's memory.
    bool holds(const OrtMemoryDevice *place) const;

    // Returns what make() gives, or what it gave for the same key as long as somebody has that: tables that layers share.
    template <typename T, typename Make>
    std::shared_ptr<const T> shared(const std::vector<std::byte> &key, const Make &make) {
        const std::lock_guard lock(shared_mutex_);
        std::weak_ptr<const void> &kept = shared_[key];
        if (auto found = kept.lock()) return std::static_pointer_cast<const T>(found);
        std::shared_ptr<const T> made = make();
        kept = made;
        std::erase_if(shared_, [](const auto &each) { return each.second.expired(); });
        return made;
    }

  private:
    void open();

    std::uint32_t index_;
    int runtime_minor_;
    std::string name_;
    Ort::MemoryInfo memory_info_{nullptr};
    const OrtLogger *logger_;
    std::once_flag opened_;
    std::optional<vkattn::Context> context_;
    std::optional<Memory> memory_;
    std::mutex shared_mutex_;
    std::map<std::vector<std::byte>, std::weak_ptr<const void>> shared_;
};

// Says whether the host reads and writes there.
bool is_host(const OrtMemoryDevice *place);

// What ONNX Runtime allocates a device's tensors with.
struct Allocator : OrtAllocator {
    Allocator(Device &device, const OrtLogger *logger);

    Device &device;
    const OrtLogger *logger;
};

// What it copies them with, between the host and any of the devices.
struct DataTransfer : OrtDataTransferImpl {
    explicit DataTransfer(std::span<const std::unique_ptr<Device>> devices);

    std::span<const std::unique_ptr<Device>> devices;

  private:
    Device *device_of(const OrtMemoryDevice *place) const;
    void copy(const OrtValue *from, OrtValue *to) const;
};

// Writes a line to a log of ONNX Runtime.
void log(const OrtLogger *logger, OrtLoggingLevel level, const std::string &line) noexcept;

} // namespace vkattn_ort
