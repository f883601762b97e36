// What ONNX Runtime finds in the library: the devices, and providers for them.
#include "provider.hpp"

#include <algorithm>

namespace vkattn_ort {
namespace {

constexpr const char *kDeviceKey = "vulkan_device"; // of an OrtEpDevice's metadata: the index of vkattn::devices
constexpr const char *kNameKey = "vulkan_device_name";
constexpr const char *kReasonsOption = "ep.vkattnexecutionprovider.fallback_reasons"; // "1": tell them as warnings

struct Factory : OrtEpFactory {
    Factory(int runtime_minor, const OrtLogger *logger);

    std::vector<std::unique_ptr<Device>> devices;
    std::vector<vkattn_device_facts> facts;

  private:
    void enumerate(int runtime_minor);
    void offer(std::span<const OrtHardwareDevice *const> hardware, std::span<OrtEpDevice *> offered,
               std::size_t &count);
    OrtEp *create(std::span<const OrtKeyValuePairs *const> metadata, const OrtSessionOptions *options,
                  const OrtLogger *session_logger);
    Device &device_of(const OrtMemoryInfo *memory);

    const OrtLogger *logger_;
};

// Returns y of a version "1.y.z".
int minor_of(const std::string &version) { return std::stoi(version.substr(version.find('.') + 1)); }

// Returns what ONNX Runtime knows as this device; where it does not know the GPU, the processor stands for it.
const OrtHardwareDevice *hardware_of(std::span<const OrtHardwareDevice *const> hardware,
                                     const vkattn_device_facts &facts) {
    const OrtApi &api = Ort::GetApi();
    const OrtHardwareDevice *processor = nullptr;
    for (const OrtHardwareDevice *each : hardware) {
        const OrtHardwareDeviceType type = api.HardwareDevice_Type(each);
        if (type == OrtHardwareDeviceType_CPU && !processor) processor = each;
        if (type == OrtHardwareDeviceType_GPU && facts.device_type != VK_PHYSICAL_DEVICE_TYPE_CPU &&
            api.HardwareDevice_VendorId(each) == facts.vendor_id &&
            api.HardwareDevice_DeviceId(each) == facts.device_id)
            return each;
    }
    return processor;
}

Factory::Factory(int runtime_minor, const OrtLogger *logger) : OrtEpFactory{}, logger_(logger) {
    ort_version_supported = kApiVersion;
    GetName = [](const OrtEpFactory *) noexcept { return kProviderName; };
    GetVendor = [](const OrtEpFactory *) noexcept { return "vkattn"; };
    GetVendorId = [](const OrtEpFactory *) noexcept { return std::uint32_t{0}; };
    GetVersion = [](const OrtEpFactory *) noexcept { return VKATTN_ONNXRUNTIME_VERSION; };
    GetSupportedDevices = [](OrtEpFactory *self, const OrtHardwareDevice *const *hardware, std::size_t hardware_count,
                             OrtEpDevice **offered, std::size_t most, std::size_t *count) noexcept {
        *count = 0;
        return guarded("devices: ", [&] {
            static_cast<Factory *>(self)->offer({hardware, hardware_count}, {offered, most}, *count);
        });
    };
    CreateEp = [](OrtEpFactory *self, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *metadata,
                  std::size_t count, const OrtSessionOptions *options, const OrtLogger *session_logger,
                  OrtEp **made) noexcept {
        *made = nullptr;
        return guarded("provider: ", [&] {
            *made = static_cast<Factory *>(self)->create({metadata, count}, options, session_logger);
        });
    };
    ReleaseEp = [](OrtEpFactory *, OrtEp *provider) noexcept { delete static_cast<Provider *>(provider); };
    CreateAllocator = [](OrtEpFactory *self, const OrtMemoryInfo *memory, const OrtKeyValuePairs *,
                         OrtAllocator **made) noexcept {
        *made = nullptr;
        return guarded("allocator: ", [&] {
            auto &factory = *static_cast<Factory *>(self);
            *made = new Allocator(factory.device_of(memory), factory.logger_);
        });
    };
    ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *allocator) noexcept {
        delete static_cast<Allocator *>(allocator);
    };
    CreateDataTransfer = [](OrtEpFactory *self, OrtDataTransferImpl **made) noexcept {
        *made = nullptr;
        return guarded("data transfer: ", [&] { *made = new DataTransfer(static_cast<Factory *>(self)->devices); });
    };
    IsStreamAware = [](const OrtEpFactory *) noexcept { return false; };
    enumerate(runtime_minor);
}

void Factory::enumerate(int runtime_minor) {
    try {
        for (const vkattn_device_facts &each : vkattn::devices()) {
            devices.push_back(std::make_unique<Device>(each, runtime_minor, logger_));
            facts.push_back(each);
        }
        if (devices.empty()) log(logger_, ORT_LOGGING_LEVEL_WARNING, "no Vulkan device, expected one");
    } catch (const vkattn::Error &error) { // the library is registered all the same, and has no device to offer
        log(logger_, ORT_LOGGING_LEVEL_WARNING, std::string("no device: ") + error.what());
    }
}

void Factory::offer(std::span<const OrtHardwareDevice *const> hardware, std::span<OrtEpDevice *> offered,
                    std::size_t &count) {
    for (std::size_t each = 0; each < devices.size() && count < offered.size(); ++each) {
        const OrtHardwareDevice *stands_for = hardware_of(hardware, facts[each]);
        if (!stands_for) continue;
        Ort::KeyValuePairs metadata;
        metadata.Add(kDeviceKey, std::to_string(each).c_str());
        metadata.Add(kNameKey, devices[each]->name().c_str());
        Ort::ThrowOnError(Ort::GetEpApi().CreateEpDevice(this, stands_for, metadata, nullptr, &offered[count]));
        Ort::ThrowOnError(Ort::GetEpApi().EpDevice_AddAllocatorInfo(offered[count], devices[each]->memory_info()));
        ++count;
    }
}

OrtEp *Factory::create(std::span<const OrtKeyValuePairs *const> metadata, const OrtSessionOptions *options,
                       const OrtLogger *session_logger) {
    if (metadata.size() != 1)
        throw Failure(ORT_INVALID_ARGUMENT, std::to_string(metadata.size()) + " devices for one session, expected one");
    const char *index = Ort::GetApi().GetKeyValue(metadata[0], kDeviceKey);
    const std::size_t number = index ? std::stoul(index) : devices.size();
    if (number >= devices.size())
        throw Failure(ORT_INVALID_ARGUMENT, "an unknown device, expected one of this library's");
    Device &device = *devices[number];
    device.context(); // what cannot be opened is said here, and not by an allocator
    const std::string reasons = Ort::ConstSessionOptions{options}.GetConfigEntryOrDefault(kReasonsOption, "0");
    if (reasons != "0" && reasons != "1")
        throw Failure(ORT_INVALID_ARGUMENT, "fallback_reasons is '" + reasons + "', expected 0 or 1");
    return new Provider(device, reasons == "1", session_logger);
}

Device &Factory::device_of(const OrtMemoryInfo *memory) {
    const OrtMemoryDevice *place = memory ? Ort::GetEpApi().MemoryInfo_GetMemoryDevice(memory) : nullptr;
    const auto found = std::ranges::find_if(devices, [&](const auto &device) { return place && device->holds(place); });
    if (found == devices.end())
        throw Failure(ORT_INVALID_ARGUMENT, "memory of another device, expected that of this library's");
    return **found;
}

} // namespace
} // namespace vkattn_ort

#if defined(_WIN32)
#define VKATTN_EXPORT __declspec(dllexport)
#else
#define VKATTN_EXPORT __attribute__((visibility("default")))
#endif

extern "C" {

VKATTN_EXPORT OrtStatus *CreateEpFactories(const char *, const OrtApiBase *base, const OrtLogger *logger,
                                           OrtEpFactory **factories, std::size_t most, std::size_t *count) {
    const OrtApi *api = base->GetApi(vkattn_ort::kApiVersion);
    if (!api) { // older than the interface of plugins: it does not come here
        *count = 0;
        return nullptr;
    }
    Ort::InitApi(api);
    *count = 0;
    return vkattn_ort::guarded("factory: ", [&] {
        if (most == 0) throw vkattn_ort::Failure(ORT_INVALID_ARGUMENT, "room for no factory, expected 1");
        factories[0] = new vkattn_ort::Factory(vkattn_ort::minor_of(base->GetVersionString()), logger);
        *count = 1;
    });
}

VKATTN_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
    delete static_cast<vkattn_ort::Factory *>(factory);
    return nullptr;
}
}
