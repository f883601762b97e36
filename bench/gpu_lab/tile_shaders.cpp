// tile_shaders < REQUESTS: what the driver's compiler makes of tiles that the planner would not choose. A request is a line:
//   {"heads": 32, "kv_heads": 8, "q_len": 2048, "kv_len": 2048, "head_dim": 128, "v_head_dim": 128, "dtype": "F16",
//    "value_in_key": false, "assembly": true, "tile": {"kernel": "flash", "rows": 4, "columns": 16}}
// and so is the answer: {"driver", "kernel", "tile", "shaders"} as `vkattn shaders --json` has them, or {"error"}. tile: members of
// AttentionTile by name; those that are missing are the rule's.
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

struct Member {
    const char *name;
    uint32_t AttentionTile::*member;
};
constexpr Member kMembers[] = {{"rows", &AttentionTile::rows},
                               {"keys", &AttentionTile::keys},
                               {"columns", &AttentionTile::columns},
                               {"staging", &AttentionTile::staging},
                               {"shared_bytes", &AttentionTile::shared_bytes},
                               {"dim_subgroups", &AttentionTile::dim_subgroups},
                               {"matrix_shape", &AttentionTile::matrix_shape},
                               {"parts", &AttentionTile::parts}};

vkattn_kernel kernel_named(const std::string &name) {
    for (uint32_t kernel = 0; kernel < VKATTN_KERNEL_COUNT; ++kernel)
        if (name == vkattn_kernel_name(static_cast<vkattn_kernel>(kernel))) return static_cast<vkattn_kernel>(kernel);
    fail(VKATTN_ERROR_INVALID_ARGUMENT, "kernel: ", name, ", expected a kernel's name");
}

AttentionTile tile_of(const Json &json) {
    AttentionTile tile;
    for (const auto &[name, value] : json.items()) {
        if (name == "kernel") {
            tile.kernel = static_cast<uint32_t>(kernel_named(value));
            continue;
        }
        const auto *member = std::ranges::find(kMembers, name, [](const Member &each) { return each.name; });
        require(member != std::end(kMembers), "tile: ", name, ", expected a member of AttentionTile");
        tile.*member->member = value;
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
            {"kernel", vkattn_kernel_name(choice.kernel->kernel)},
            {"tile", tile_text(choice)},
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
