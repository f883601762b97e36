// Which of several devices a context takes.
#include "runtime/support/error.hpp"
#include "runtime/vulkan/devices.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

using namespace vkattn;

namespace {

ListedDevice device(const char *name, VkPhysicalDeviceType type, uint64_t memory_bytes, uint32_t index) {
    ListedDevice listed{};
    std::snprintf(listed.caps.name, sizeof listed.caps.name, "%s", name);
    listed.caps.device_type = type;
    listed.caps.device_memory_bytes = memory_bytes;
    listed.caps.index = index;
    return listed;
}

const std::vector<ListedDevice> kDevices = {
    device("a driver without a GPU", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 0, 0),
    device("a CPU", VK_PHYSICAL_DEVICE_TYPE_CPU, 1 << 30, 1),
    device("a small GPU", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 1 << 30, 2),
    device("a GPU", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 1 << 30, 3),
};

std::string chosen_of(std::span<const ListedDevice> devices, const std::string &selector = "") {
    return select_device(devices, selector).caps.name;
}

} // namespace

TEST_SUITE_BEGIN("select_device");

TEST_CASE("the best kind of device that has memory") {
    CHECK(chosen_of(kDevices) == "a GPU");
    CHECK(chosen_of(std::span(kDevices).first(3)) == "a small GPU");
    CHECK(chosen_of(std::span(kDevices).first(2)) == "a CPU");
    CHECK(chosen_of(std::span(kDevices).first(1)) == "a driver without a GPU"); // its own calls say what it lacks
}

TEST_CASE("an index or a part of a name is taken at its word") {
    CHECK(chosen_of(kDevices, "0") == "a driver without a GPU");
    CHECK(chosen_of(kDevices, "WITHOUT") == "a driver without a GPU");
    CHECK_THROWS_AS(select_device(kDevices, "9"), Error);
    CHECK_THROWS_AS(select_device({}, ""), Error);
}

TEST_SUITE_END();
