#include "tools/devices/shader_json.hpp"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

namespace vkattn::tools {

using Json = nlohmann::ordered_json;

bool is_assembly(const vkattn_shader_text &text) {
    std::string name = text.name;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("assembly") != std::string::npos;
}

Json number(double value) {
    const auto whole = static_cast<std::int64_t>(value);
    return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

nlohmann::ordered_json to_json(const vkattn_shader &shader) {
    Json constants = Json::object(), statistics = Json::object(), texts = Json::object();
    for (const vkattn_shader_constant &each : std::span(shader.constants, shader.constant_count))
        constants[each.name] = each.value;
    for (const vkattn_shader_statistic &each : std::span(shader.statistics, shader.statistic_count))
        statistics[each.name] = number(each.value);
    for (const vkattn_shader_text &each : std::span(shader.texts, shader.text_count))
        if (is_assembly(each)) texts[each.name] = each.text;
    Json json = {{"module", shader.module},
                 {"executable", shader.executable},
                 {"dispatches", shader.dispatches},
                 {"workgroup_size", shader.workgroup_size},
                 {"subgroup_size", shader.subgroup_size},
                 {"spirv_bytes", shader.spirv_bytes},
                 {"compile_ms", shader.compile_ms},
                 {"constants", constants},
                 {"statistics", statistics}};
    if (shader.text_count != 0) json["texts"] = texts;
    return json;
}

} // namespace vkattn::tools
