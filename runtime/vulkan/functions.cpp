#include "runtime/vulkan/functions.hpp"

#include "runtime/support/error.hpp"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace vkattn {
namespace {

#if defined(_WIN32)
constexpr const char *kLoaderNames[] = {"vulkan-1.dll"};
std::shared_ptr<void> open_library(const char *name) {
    HMODULE module = LoadLibraryA(name);
    if (module == nullptr) return nullptr;
    return {module, [](void *handle) { FreeLibrary(static_cast<HMODULE>(handle)); }};
}
void *find_symbol(void *library, const char *name) {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}
#else
#if defined(__APPLE__)
constexpr const char *kLoaderNames[] = {"libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib",
                                        "vulkan.framework/vulkan", "MoltenVK.framework/MoltenVK"};
#else
constexpr const char *kLoaderNames[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
std::shared_ptr<void> open_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    return {library, [](void *handle) { dlclose(handle); }};
}
void *find_symbol(void *library, const char *name) { return dlsym(library, name); }
#endif

void open_loader(Functions &vk) {
    for (const char *name : kLoaderNames) {
        vk.loader = open_library(name);
        if (vk.loader == nullptr) continue;
        vk.vkGetInstanceProcAddr =
            reinterpret_cast<PFN_vkGetInstanceProcAddr>(find_symbol(vk.loader.get(), "vkGetInstanceProcAddr"));
        if (vk.vkGetInstanceProcAddr != nullptr) return;
    }
    fail(VKATTN_ERROR_NO_VULKAN, "Vulkan loader: ", kLoaderNames[0],
         " cannot be opened, expected an installed Vulkan loader (Debian: libvulkan1)");
}

template <class Function>
void load(Function &function, PFN_vkVoidFunction found, const char *name) {
    if (found == nullptr) fail(VKATTN_ERROR_NO_VULKAN, "Vulkan: function ", name, " is missing, expected Vulkan 1.1");
    function = reinterpret_cast<Function>(found);
}

} // namespace

Functions load_global_functions(PFN_vkGetInstanceProcAddr get_instance_proc_addr) {
    Functions vk;
    vk.vkGetInstanceProcAddr = get_instance_proc_addr;
    if (get_instance_proc_addr == nullptr) open_loader(vk);
#define VKATTN_LOAD(name) load(vk.name, vk.vkGetInstanceProcAddr(nullptr, #name), #name);
    VKATTN_GLOBAL_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    vk.vkEnumerateInstanceVersion = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(
        vk.vkGetInstanceProcAddr(nullptr, "vkEnumerateInstanceVersion"));
    return vk;
}

void load_instance_functions(Functions &vk, VkInstance instance) {
#define VKATTN_LOAD(name) load(vk.name, vk.vkGetInstanceProcAddr(instance, #name), #name);
    VKATTN_INSTANCE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
#define VKATTN_LOAD(name) vk.name = reinterpret_cast<PFN_##name>(vk.vkGetInstanceProcAddr(instance, #name));
    VKATTN_DEBUG_FUNCTIONS(VKATTN_LOAD)
    VKATTN_MATRIX_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
}

void load_device_functions(Functions &vk, VkDevice device) {
#define VKATTN_LOAD(name) load(vk.name, vk.vkGetDeviceProcAddr(device, #name), #name);
    VKATTN_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
#define VKATTN_LOAD(name) vk.name = reinterpret_cast<PFN_##name>(vk.vkGetDeviceProcAddr(device, #name));
    VKATTN_OPTIONAL_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    if (vk.vkGetBufferDeviceAddress == nullptr)
        vk.vkGetBufferDeviceAddress = reinterpret_cast<PFN_vkGetBufferDeviceAddress>(
            vk.vkGetDeviceProcAddr(device, "vkGetBufferDeviceAddressKHR"));
}

} // namespace vkattn
