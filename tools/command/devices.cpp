#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <optional>
#include <span>

namespace vkattn::tools {
namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

std::string joined(const std::vector<std::string> &words) {
    std::string text;
    for (const std::string &word : words) text += (text.empty() ? "" : " ") + word;
    return text.empty() ? "none" : text;
}

void print_features(const vkattn_device_facts &facts) {
    std::cout << "   features  " << joined(features(facts, true)) << "\n   without   " << joined(features(facts, false))
              << "\n";
}

// "32" or, where a pipeline may have others, "32 (16 to 32)".
std::string subgroup_sizes(const vkattn_device_facts &facts) {
    std::string text = std::to_string(facts.subgroup_size);
    if (facts.min_subgroup_size != facts.max_subgroup_size)
        text += " (" + std::to_string(facts.min_subgroup_size) + " to " + std::to_string(facts.max_subgroup_size) + ")";
    return text;
}

void print_device(const vkattn_device_facts &facts, vkattn_kernel kernel) {
    std::cout << facts.index << ": " << facts.name << " (" << device_type_name(facts.device_type) << ")\n"
              << "   driver    " << driver_text(facts) << ", Vulkan " << version_text(facts.api_version) << "\n"
              << "   memory    " << mebibytes(facts.device_memory_bytes) << ", storage buffers up to "
              << mebibytes(facts.max_storage_buffer_range) << "\n"
              << "   workgroup " << facts.max_workgroup_invocations << " invocations, " << facts.max_shared_memory_bytes
              << " bytes shared, " << facts.max_push_constants_bytes << " bytes of push constants\n"
              << "   subgroup  " << subgroup_sizes(facts) << ": " << joined(subgroup_features(facts)) << "\n";
    if (facts.shader_cores != 0) {
        std::cout << "   cores     " << facts.shader_cores;
        if (facts.max_subgroups_per_core != 0)
            std::cout << ", up to " << facts.max_subgroups_per_core << " subgroups on each";
        std::cout << "\n";
    }
    if (facts.matrix_shape_count != 0) std::cout << "   matrices  " << joined(matrix_shapes(facts)) << "\n";
    print_features(facts);
    for (const vkattn_kernel_support &support : kernels_of(facts, kernel))
        std::cout << "   kernel    " << padded(vkattn_kernel_name(support.kernel), 13) << " "
                  << (support.supported != 0 ? "yes" : "no") << (support.reason[0] != '\0' ? ": " : "")
                  << support.reason << "\n";
}

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return text;
}

bool is_selected(const vkattn_device_facts &facts, const std::string &selector) {
    if (selector.empty() || selector == std::to_string(facts.index)) return true;
    const bool is_index = std::ranges::all_of(selector, [](unsigned char digit) { return std::isdigit(digit) != 0; });
    return !is_index && lower(facts.name).find(lower(selector)) != std::string::npos;
}

// Of all that there are.
std::vector<const vkattn_device_facts *> selected_devices(const List<vkattn_device_facts> &all,
                                                          const std::string &selector) {
    if (all.empty()) throw InputError("devices", "no Vulkan device, expected a driver that the Vulkan loader can find");
    std::vector<const vkattn_device_facts *> found;
    for (const vkattn_device_facts &facts : all)
        if (is_selected(facts, selector)) found.push_back(&facts);
    if (found.empty())
        throw InputError("--device " + selector, "no such device, expected an index or a part of a name that "
                                                 "'vkattn devices' lists");
    return found;
}

// A context on the device, with the verdicts of earlier runs: it alone knows of matrix shapes. Nothing, once said why, where
// none can be made.
std::optional<Context> context_on(const vkattn_device_facts &listed, CommonOptions common, ValidationLog &validation) {
    common.device = std::to_string(listed.index);
    common.writes_saved = false;
    try {
        return make_context(common, validation);
    } catch (const Error &error) {
        print_error(error.what());
        return std::nullopt;
    }
}

} // namespace

int devices_command(const CommonOptions &common, const DevicesOptions &options, ValidationLog &validation) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const List<vkattn_device_facts> all = devices();
    const std::vector<const vkattn_device_facts *> found = selected_devices(all, common.device);
    if (!common.saved_file.empty() && found.size() > 1)
        throw InputError("--saved", std::to_string(found.size()) + " devices, expected --device to name one");
    nlohmann::json list = nlohmann::json::array();
    for (const vkattn_device_facts *listed : found) {
        const std::optional<Context> context = context_on(*listed, common, validation);
        const vkattn_device_facts facts = context.has_value() ? context->facts() : *listed;
        if (options.json) {
            list.push_back(to_json(facts, kernel));
        } else {
            print_device(facts, kernel);
            std::cout.flush(); // what the next one's driver does is its own
        }
    }
    if (options.json) std::cout << list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return kExitSuccess;
}

} // namespace vkattn::tools
