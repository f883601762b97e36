#include "device.hpp"

namespace vkattn_ort {
namespace {

// Tells our memory from that of other providers on the same GPU, which carries its vendor's PCI number: above all such numbers.
constexpr std::uint32_t kMemoryVendor = 0x564b4154;
constexpr std::uint32_t kSharedPlans = 1024;

} // namespace

bool is_host(const OrtMemoryDevice *place) {
    return Ort::GetEpApi().MemoryDevice_GetDeviceType(place) == OrtMemoryInfoDeviceType_CPU ||
           Ort::GetEpApi().MemoryDevice_GetMemoryType(place) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

void log(const OrtLogger *logger, OrtLoggingLevel level, const std::string &line) noexcept {
    if (!logger) return;
    OrtStatus *failed =
        Ort::GetApi().Logger_LogMessage(logger, level, ("vkattn: " + line).c_str(), ORT_FILE, __LINE__, "vkattn");
    if (failed) Ort::GetApi().ReleaseStatus(failed);
}

Device::Device(const vkattn_device_facts &facts, int runtime_minor, const OrtLogger *logger)
    : index_(facts.index), runtime_minor_(runtime_minor), name_(facts.name), logger_(logger) {
    OrtMemoryInfo *made = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateMemoryInfo_V2("Vkattn", OrtMemoryInfoDeviceType_GPU, kMemoryVendor,
                                                        static_cast<std::int32_t>(index_), OrtDeviceMemoryType_DEFAULT,
                                                        0, OrtDeviceAllocator, &made));
    memory_info_ = Ort::MemoryInfo(made);
}

void Device::open() {
    const std::string selector = std::to_string(index_);
    vkattn_context_info info{};
    info.device_selector = selector.c_str();
    info.shared_plan_count = kSharedPlans;
    info.message_user = this;
    info.message_callback = [](void *user, vkattn_severity severity, const char *message) {
        log(static_cast<Device *>(user)->logger_,
            severity == VKATTN_SEVERITY_INFO ? ORT_LOGGING_LEVEL_INFO : ORT_LOGGING_LEVEL_WARNING, message);
    };
    context_.emplace(info);
    memory_.emplace(*context_);
}

const vkattn::Context &Device::context() {
    std::call_once(opened_, [this] { open(); });
    return *context_;
}

Memory &Device::memory() {
    std::call_once(opened_, [this] { open(); });
    return *memory_;
}

bool Device::holds(const OrtMemoryDevice *place) const {
    const OrtMemoryDevice *own = Ort::GetEpApi().MemoryInfo_GetMemoryDevice(memory_info_);
    return Ort::GetEpApi().MemoryDevice_AreEqual(place, own);
}

Allocator::Allocator(Device &of, const OrtLogger *to) : OrtAllocator{}, device(of), logger(to) {
    version = kApiVersion;
    Alloc = [](OrtAllocator *self, std::size_t bytes) -> void * {
        auto &allocator = *static_cast<Allocator *>(self);
        try {
            return allocator.device.memory().allocate(bytes);
        } catch (const std::exception &error) { // an allocator of ONNX Runtime has no other way to say it
            log(allocator.logger, ORT_LOGGING_LEVEL_ERROR,
                std::to_string(bytes) + " bytes of " + allocator.device.name() + ": " + error.what());
            return nullptr;
        }
    };
    Reserve = Alloc;
    Free = [](OrtAllocator *self, void *address) {
        if (address) static_cast<Allocator *>(self)->device.memory().release(address);
    };
    Info = [](const OrtAllocator *self) -> const OrtMemoryInfo * {
        return static_cast<const Allocator *>(self)->device.memory_info();
    };
}

DataTransfer::DataTransfer(std::span<const std::unique_ptr<Device>> among) : OrtDataTransferImpl{}, devices(among) {
    ort_version_supported = kApiVersion;
    Release = [](OrtDataTransferImpl *self) noexcept { delete static_cast<DataTransfer *>(self); };
    CanCopy = [](const OrtDataTransferImpl *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to) noexcept {
        const auto &transfer = *static_cast<const DataTransfer *>(self);
        const bool from_ours = transfer.device_of(from) != nullptr, to_ours = transfer.device_of(to) != nullptr;
        return (from_ours && (to_ours || is_host(to))) || (to_ours && is_host(from));
    };
    CopyTensors = [](OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to, OrtSyncStream **,
                     std::size_t count) noexcept -> OrtStatus * {
        return guarded("copy of a tensor: ", [&] {
            for (std::size_t each = 0; each < count; ++each)
                static_cast<DataTransfer *>(self)->copy(from[each], to[each]);
        });
    };
}

Device *DataTransfer::device_of(const OrtMemoryDevice *place) const {
    for (const auto &device : devices)
        if (device->holds(place)) return device.get();
    return nullptr;
}

void DataTransfer::copy(const OrtValue *from, OrtValue *to) const {
    Device *source = device_of(Ort::GetEpApi().Value_GetMemoryDevice(from));
    Device *target = device_of(Ort::GetEpApi().Value_GetMemoryDevice(to));
    const void *data = nullptr;
    void *place = nullptr;
    std::size_t bytes = 0;
    Ort::ThrowOnError(Ort::GetApi().GetTensorData(from, &data));
    Ort::ThrowOnError(Ort::GetApi().GetTensorMutableData(to, &place));
    Ort::ThrowOnError(Ort::GetApi().GetTensorSizeInBytes(from, &bytes));
    if (source && target && source != target) {
        std::vector<std::byte> between(bytes);
        source->memory().read(between.data(), data, bytes);
        target->memory().write(place, between.data(), bytes);
    } else if (source && target) {
        target->memory().copy(place, data, bytes);
    } else if (target) {
        target->memory().write(place, data, bytes);
    } else if (source) {
        source->memory().read(place, data, bytes);
    }
}

} // namespace vkattn_ort
