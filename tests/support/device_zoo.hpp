// Real devices as data: what their drivers report, from files that `vkattn devices --json` wrote.
#pragma once

#include "runtime/device/device_caps.hpp"

#include <map>
#include <string>
#include <vector>

namespace vkattn_test {

struct ZooDevice {
    std::string name;                    // of the file: "amd-navi31"
    vkattn::DeviceCaps caps;             // as a context of its own would have them
    std::map<std::string, bool> kernels; // whether the device could run each, where the file was written
};

// All of them, by name.
std::vector<ZooDevice> device_zoo();

} // namespace vkattn_test
