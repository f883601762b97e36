#include "tools/io/csv.hpp"

#include <string>

namespace vkattn::tools {
namespace {

// Text in quotes, a quote within it doubled; nothing for null.
std::string cell(const nlohmann::ordered_json &value) {
    if (value.is_null()) return "";
    if (!value.is_string()) return value.dump();
    std::string text = "\"";
    for (const char c : value.get<std::string>()) text += c == '"' ? "\"\"" : std::string(1, c);
    return text + "\"";
}

} // namespace

void write_csv(std::ostream &out, std::span<const nlohmann::ordered_json> rows) {
    if (rows.empty()) return;
    const auto write_row = [&](const auto &cell_of) {
        const char *separator = "";
        for (const auto &column : rows.front().items()) {
            out << separator << cell_of(column.key());
            separator = ",";
        }
        out << "\n";
    };
    write_row([](const std::string &name) { return name; });
    for (const nlohmann::ordered_json &row : rows)
        write_row([&](const std::string &name) { return cell(row.at(name)); });
}

} // namespace vkattn::tools
