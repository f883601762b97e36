// Who asks a driver for its matrix shapes: some end the process over it. Only contexts do, and only where no row of the device
// table and no trait says that matrices are off.
#include "application.hpp"
#include "device.hpp"
#include "matrix_vulkan.hpp"

#include <vkattn/vkattn.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vkattn_test;

namespace {

// A Radeon 860M, as AMD's driver of Windows tells of it.
constexpr std::uint32_t kAmd = 0x1002, kAmdsOwn = 1;

MatrixVulkan &vulkan_of(std::uint32_t vendor, std::uint32_t driver, const char *info, bool dies) {
    load_vulkan();
    MatrixVulkan &vulkan = matrix_vulkan();
    vulkan.vendor_id = vendor;
    vulkan.driver_id = driver;
    vulkan.driver_info = info;
    vulkan.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    vulkan.dies = dies;
    vulkan.numbers_asked = vulkan.shapes_asked = 0;
    return vulkan;
}

std::uint32_t shapes_of(const char *traits) {
    ContextRequest request(traits);
    request.info.device_selector = nullptr; // the device has another name
    request.info.get_instance_proc_addr = matrix_vulkan_function;
    const vkattn::Context context(request.info);
    return context.facts().matrix_shape_count;
}

} // namespace

TEST_SUITE_BEGIN("api");

TEST_CASE_FIXTURE(DeviceTest, "a driver whose row has matrices off is not asked for their shapes, over which it dies") {
    const MatrixVulkan &vulkan = vulkan_of(kAmd, kAmdsOwn, "26.3.1 (LLPC)", true);
    CHECK(!vkattn::devices(matrix_vulkan_function).empty());
    CHECK(shapes_of("self_test=0") == 0);
    CHECK(vulkan.numbers_asked == 0);
}

TEST_CASE_FIXTURE(DeviceTest, "traits have it not asked, either, and a listing never asks") {
    const MatrixVulkan &vulkan = vulkan_of(kAmd, kAmdsOwn, "25.1.1", true);
    CHECK(shapes_of("self_test=0,cooperative_matrix=0") == 0);
    CHECK(shapes_of("self_test=0,matrix_units=0") == 0);
    for (const vkattn_device_facts &facts : vkattn::devices(matrix_vulkan_function)) {
        CHECK(facts.cooperative_matrix == 1);
        CHECK(facts.matrix_shape_count == 0);
        for (std::uint32_t i = 0; i < facts.kernel_count; ++i)
            if (facts.kernels[i].kernel == VKATTN_KERNEL_COOPMAT) CHECK(facts.kernels[i].supported == 0);
    }
    CHECK(vulkan.numbers_asked == 0);
}

TEST_CASE_FIXTURE(DeviceTest, "a context asks where nothing speaks against it, once; a trait lifts a row") {
    const MatrixVulkan &vulkan = vulkan_of(kAmd, kAmdsOwn, "25.1.1", false);
    CHECK(shapes_of("self_test=0") == 1);
    CHECK(vulkan.shapes_asked == 1);
    vulkan_of(kAmd, kAmdsOwn, "26.3.1", false);
    CHECK(shapes_of("self_test=0,matrix_units=1") == 1);
    CHECK(vulkan.shapes_asked == 1);
}

TEST_SUITE_END();
