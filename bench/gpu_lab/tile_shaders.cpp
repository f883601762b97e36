// tile_shaders < REQUESTS: what the driver's compiler makes of tiles that the planner would not choose. A request is a line:
//   {"heads": 32, "kv_heads": 8, "q_len": 2048, "kv_len": 2048, "head_dim": 128, "v_head_dim": 128, "dtype": "F16",
//    "value_in_key": false, "assembly": true, "tile": {"kernel": "flash", "rows": 4, "columns": 16}}
// and so is the answer: {"driver", "kernel", "tile", "shaders"} as `vkattn shaders --json` has them, or {"error"}. tile: a kernel,
// and its knobs by name, parts and matrix_shape; those that are missing are the rule's.
#include "runtime/kernels/choose.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/plan/shader_reports.hpp"
#include "runtime/support/error.hpp"
#include "tools/devices/shader_json.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

namespace {

using namespace vkattn;
using Json = nlohmann::ordered_json;

const AttentionKernel &row_named(const std::string &name) {
    const auto rows = attention_kernels();
    const auto row =
        std::ranges::find_if(rows, [&](const auto *each) { return each->name == name || each->latent_name == name; });
    require(row != rows.end(), "kernel: ", name, ", expected a kernel's name");
    return **row;
}

KernelTile tile_of(const Json &json) {
    if (json.empty()) return {};
    const std::string kernel = json.at("kernel");
    const AttentionKernel &row = row_named(kernel);
    KernelTile tile{.kernel = static_cast<uint32_t>(row.kernel)};
    for (const auto &[name, value] : json.items()) {
        const auto knob = std::ranges::find_if(row.knobs, [&](const Knob &each) { return each.name == name; });
        if (knob != row.knobs.end())
            tile.knobs[static_cast<size_t>(knob - row.knobs.begin())] = value;
        else if (name == "parts" || name == "matrix_shape")
            (name == "parts" ? tile.parts : tile.matrix_shape) = value;
        else
            require(name == "kernel", "tile: ", name, ", expected parts, matrix_shape or a knob of ", row.name);
    }
    return tile;
}

vkattn_type type_named(const std::string &name) {
    for (const StoredType &type : stored_types())
        if (name == type.name && is_key_value(type.info.type)) return type.info.type;
    fail(VKATTN_ERROR_INVALID_ARGUMENT, "dtype: ", name, ", expected ", type_names(is_key_value));
}

vkattn_tensor contiguous(vkattn_type type, uint64_t heads, uint64_t len, uint64_t size) {
    vkattn_tensor tensor{};
    tensor.type = type;
    tensor.rank = 4;
    const uint64_t shape[] = {1, heads, len, size};
    std::ranges::copy(shape, tensor.shape);
    return tensor;
}

AttentionProblem problem_of(const Json &json) {
    const vkattn_type type = type_named(json.at("dtype"));
    const vkattn_type kv_type = json.contains("kv_dtype") ? type_named(json.at("kv_dtype")) : type;
    vkattn_attention_desc desc{};
    desc.query = contiguous(type, json.at("heads"), json.at("q_len"), json.at("head_dim"));
    desc.key = contiguous(kv_type, json.at("kv_heads"), json.at("kv_len"), json.at("head_dim"));
    if (!json.at("value_in_key"))
        desc.value = contiguous(kv_type, json.at("kv_heads"), json.at("kv_len"), json.at("v_head_dim"));
    desc.output = contiguous(type, json.at("heads"), json.at("q_len"), json.at("v_head_dim"));
    AttentionProblem problem = check_attention(desc);
    problem.tile = tile_of(json.at("tile"));
    return problem;
}

Json answer(Context &context, const Json &request) {
    const AttentionProblem problem = problem_of(request);
    PlanBuilder builder(context);
    add_attention(builder, problem, roles_of(problem));
    const std::unique_ptr<const Plan> plan = builder.build();
    Json shaders = Json::array();
    const ShaderReports reports(*plan);
    for (const vkattn_shader &shader : reports.shaders()) shaders.push_back(tools::to_json(shader));
    const AttentionChoice choice = choose_attention(problem, *context.judged_caps());
    return {{"driver", text(context.caps().driver_name, " ", context.caps().driver_info)},
            {"kernel", vkattn_kernel_name(choice.name)},
            {"tile", tile_text(*choice.kernel, choice.shape)},
            {"shaders", shaders}};
}

} // namespace

int main() {
    vkattn_context_info info{};
    std::string line;
    std::unique_ptr<Context> statistics, texts; // texts: some drivers take far longer to keep the code than to make it
    while (std::getline(std::cin, line)) {
        Json reply;
        try {
            const Json request = Json::parse(line);
            const bool assembly = request.value("assembly", false);
            std::unique_ptr<Context> &context = assembly ? texts : statistics;
            info.capture_shaders = assembly ? VKATTN_SHADER_CAPTURE_TEXTS : VKATTN_SHADER_CAPTURE_STATISTICS;
            if (context == nullptr) context = std::make_unique<Context>(info);
            reply = answer(*context, request);
        } catch (const std::exception &error) {
            reply = {{"error", error.what()}};
        }
        std::cout << reply.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }
    return 0;
}
