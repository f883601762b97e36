#include "tools/tensors/stored_types.hpp"

#include "tools/io/input_error.hpp"

#include <algorithm>
#include <vector>

namespace vkattn::tools {
namespace {

const std::vector<vkattn_type_info> &table() {
    static const auto types = [] {
        const List<vkattn_type_info> all = enumerate_types(); // whose texts are static
        return std::vector<vkattn_type_info>(all.begin(), all.end());
    }();
    return types;
}

// All zeros of a type that is not there.
vkattn_type_info info_of(vkattn_type type) {
    const auto found = std::ranges::find(table(), type, &vkattn_type_info::type);
    return found == table().end() ? vkattn_type_info{} : *found;
}

} // namespace

bool is_float(vkattn_type type) { return info_of(type).kind == VKATTN_TYPE_KIND_FLOAT; }
bool is_quantised(vkattn_type type) { return info_of(type).kind == VKATTN_TYPE_KIND_QUANTISED; }
bool is_key_value(vkattn_type type) { return info_of(type).key_value != 0; }
bool is_weight(vkattn_type type) { return info_of(type).weight != 0; }

std::string type_name(vkattn_type type) {
    const char *name = info_of(type).name;
    return name == nullptr ? "none" : name;
}

std::string type_names(bool (*is_one)(vkattn_type), const std::string &last) {
    std::string names;
    for (auto type = table().rbegin(); type != table().rend(); ++type) {
        if (!is_one(type->type)) continue;
        const bool first = names.empty(), second = names.find(' ') == std::string::npos;
        names = type->name + (first ? "" : (second ? last : ", ") + names);
    }
    return names;
}

vkattn_type type_named(const std::string &option, const std::string &name, bool (*is_one)(vkattn_type)) {
    for (const vkattn_type_info &info : table())
        if (name == info.name && is_one(info.type)) return info.type;
    throw InputError(option + " " + name, "no such type, expected " + type_names(is_one, " or "));
}

Dtype dtype_of(vkattn_type type) {
    if (type == VKATTN_TYPE_F16) return Dtype::kF16;
    return type == VKATTN_TYPE_BF16 ? Dtype::kBf16 : Dtype::kF32;
}

void store(const Context &context, const vkattn_tensor &layout, const Buffer &values, const Buffer &stored,
           bool rotated) {
    vkattn_kv_append_desc desc{};
    desc.source = desc.cache = layout;
    if (is_quantised(layout.type)) desc.source.type = VKATTN_TYPE_F32;
    if (rotated) desc.rotation = VKATTN_ROTATION_HADAMARD;
    const vkattn_binding bindings[] = {bind(VKATTN_ROLE_SOURCE, values), bind(VKATTN_ROLE_CACHE, stored)};
    context.kv_append_plan(desc).run(bindings);
}

} // namespace vkattn::tools
