#include "instruction_table.hpp"

#include <cstring>
#include <unordered_map>

namespace execute {
namespace {

using Table = std::unordered_map<std::string, Execute>;

Table make_table() {
    Table table;
    for (const auto entries : {scalar_instructions(), scalar_memory_instructions(), vector_instructions(),
                               compare_instructions(), class_instructions(), packed_instructions(),
                               matrix_instructions(), data_share_instructions(), vector_memory_instructions()})
        for (const Entry &entry : entries) table[entry.name] = entry.execute;
    return table;
}

const Table &table() {
    static const Table result = make_table();
    return result;
}

} // namespace

std::vector<std::string> instruction_names() {
    std::vector<std::string> names;
    for (const auto &[name, execute] : table()) names.push_back(name);
    return names;
}

Execute find_instruction(const std::string &name) {
    for (const char *suffix : {"", "_e32", "_e64", "_dpp", "_e64_dpp", "_sdwa"}) {
        const size_t length = strlen(suffix);
        if (name.size() <= length || name.compare(name.size() - length, length, suffix) != 0) continue;
        std::string base = name.substr(0, name.size() - length);
        if (base.compare(0, 7, "v_dual_") == 0) base = "v_" + base.substr(7);
        const auto found = table().find(base);
        if (found != table().end()) return found->second;
    }
    return nullptr;
}

} // namespace execute
