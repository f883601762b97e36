// simulated_devices, the traits that make a CPU driver's device as poor as another: where the zoo has the other device,
// they are what its facts say. VKATTN_REWRITE_CHOICES=1 writes those lines anew.
#include "device_zoo.hpp"

#include "runtime/device/device_overrides.hpp"

#include "tools/devices/device_traits.hpp"
#include "tools/io/text_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

using namespace vkattn_test;
namespace tools = vkattn::tools;

namespace {

// The driver that CI simulates others on.
constexpr const char *kSimulator = "cpu-llvmpipe-22";

struct Limit {
    const char *name;
    std::uint32_t vkattn_device_facts::*member;
};
constexpr Limit kLimits[] = {{"max_shared_memory_bytes", &vkattn_device_facts::max_shared_memory_bytes},
                             {"max_workgroup_invocations", &vkattn_device_facts::max_workgroup_invocations},
                             {"max_push_constants_bytes", &vkattn_device_facts::max_push_constants_bytes}};
constexpr Limit kFeatures[] = {{"subgroup_size_control", &vkattn_device_facts::subgroup_size_control},
                               {"shader_float16", &vkattn_device_facts::shader_float16},
                               {"storage_16bit", &vkattn_device_facts::storage_16bit},
                               {"storage_8bit", &vkattn_device_facts::storage_8bit},
                               {"push_descriptors", &vkattn_device_facts::push_descriptors},
                               {"buffers_have_addresses", &vkattn_device_facts::buffers_have_addresses},
                               {"cooperative_matrix", &vkattn_device_facts::cooperative_matrix},
                               {"cooperative_matrix_reductions", &vkattn_device_facts::cooperative_matrix_reductions}};

struct Trait {
    const char *name;
    std::uint32_t vkattn::DeviceTraits::*member;
};
// Of what is fast, of the tiles that are taken, and for how long a system lets a device work. What the simulating driver needs for itself stays.
constexpr Trait kTraits[] = {{"scalar_address_loads", &vkattn::DeviceTraits::scalar_address_loads},
                             {"most_addressed_linear_rows", &vkattn::DeviceTraits::most_addressed_linear_rows},
                             {"parallel_workgroups", &vkattn::DeviceTraits::parallel_workgroups},
                             {"max_dispatch_megaflops", &vkattn::DeviceTraits::max_dispatch_megaflops},
                             {"self_test", &vkattn::DeviceTraits::self_test},
                             {"gpu_class", &vkattn::DeviceTraits::gpu_class}};

// A limit is lowered where the simulator has more, a feature taken away wherever the device lacks it.
std::string traits_of(const vkattn::DeviceCaps &device, const vkattn::DeviceCaps &simulator) {
    std::ostringstream traits;
    const auto add = [&](const char *name, std::uint64_t value) {
        traits << (traits.tellp() > 0 ? "," : "") << name << "=" << value;
    };
    for (const auto &[name, member] : kLimits)
        if (device.*member < simulator.*member) add(name, device.*member);
    if (device.max_storage_buffer_range < simulator.max_storage_buffer_range)
        add("max_storage_buffer_range", device.max_storage_buffer_range);
    const std::uint32_t subgroups = device.subgroup_features & simulator.subgroup_features;
    if (subgroups != simulator.subgroup_features) add("subgroup_features", subgroups);
    for (const auto &[name, member] : kFeatures)
        if (device.*member == 0) add(name, 0);
    for (const auto &[name, member] : kTraits) add(name, device.traits.*member);
    return traits.str();
}

std::string padded(std::string name) {
    constexpr std::size_t kColumn = 20;
    name.resize(std::max(name.size() + 1, kColumn), ' ');
    return name;
}

} // namespace

TEST_SUITE_BEGIN("device_zoo");

TEST_CASE("simulated devices are as poor as the real ones") {
    const std::string path = VKATTN_TEST_DEVICES "/../simulated_devices";
    const std::vector<ZooDevice> zoo = device_zoo();
    const auto find = [&](const std::string &name) { return std::ranges::find(zoo, name, &ZooDevice::name); };
    REQUIRE(find(kSimulator) != zoo.end());
    const vkattn::DeviceCaps &simulator = find(kSimulator)->caps;
    std::string all;
    std::size_t real = 0;
    std::istringstream file(tools::read_if_there(path));
    for (std::string line; std::getline(file, line);) {
        const std::string name = line.substr(0, line.find(' '));
        INFO("device ", name);
        if (const auto device = find(name); device != zoo.end()) {
            const std::string expected = padded(name) + traits_of(device->caps, simulator);
            if (std::getenv("VKATTN_REWRITE_CHOICES") == nullptr) CHECK(line == expected);
            line = expected;
            ++real;
        }
        if (!line.starts_with("#")) {
            vkattn::DeviceCaps simulated = simulator;
            const std::string text = line.substr(line.find_last_of(' ') + 1);
            CHECK_NOTHROW(vkattn::override_caps(simulated, tools::parse_traits(text, name)));
        }
        all += line + "\n";
    }
    CHECK(real >= 4);
    if (std::getenv("VKATTN_REWRITE_CHOICES") != nullptr) tools::write_text(path, all);
}

TEST_SUITE_END();
