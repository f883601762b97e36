#include "runtime/device/code_paths.hpp"

namespace vkattn {

std::string path_names(CodePaths paths) {
    static constexpr const char *kNames[kCodePathCount - kTypePathCount] = {
        "large heads", "pages", "V in K", "keys in parts", "keys in several dispatches"};
    std::string names;
    for (uint32_t path = 0; path < kCodePathCount; ++path) {
        if ((paths >> path & 1) == 0) continue;
        const bool is_type = path < kTypePathCount;
        names += std::string(names.empty() ? "" : ", ") +
                 (is_type ? stored_type(static_cast<vkattn_type>(path)).info.name : kNames[path - kTypePathCount]);
    }
    return names;
}

} // namespace vkattn
