#include "vocabulary.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"

#include <algorithm>

using vkattn::tools::InputError;

Vocabulary::Vocabulary(const std::filesystem::path &path) {
    for (int byte = 0; byte < 256; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
    const nlohmann::json json = vkattn::tools::read_strict_json(path, "vocabulary", 1 << 20, 2);
    const nlohmann::json pieces = json.value("pieces", nlohmann::json());
    const bool are_texts =
        pieces.is_array() && std::ranges::all_of(pieces, [](const auto &piece) { return piece.is_string(); });
    if (!are_texts) throw InputError(path.string(), "'pieces': expected an array of strings");
    for (const nlohmann::json &piece : pieces) pieces_.push_back(piece.get<std::string>());
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        numbers_.try_emplace(pieces_[i], static_cast<std::int32_t>(i));
        longest_ = std::max(longest_, pieces_[i].size());
    }
}

std::string_view Vocabulary::piece(std::int32_t token) const {
    return token >= 0 && static_cast<std::size_t>(token) < pieces_.size() ? std::string_view(pieces_[token]) : "";
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    while (!text.empty()) {
        std::size_t length = std::min(longest_, text.size());
        while (length > 1 && !numbers_.contains(std::string(text.substr(0, length)))) --length;
        tokens.push_back(numbers_.at(std::string(text.substr(0, length))));
        text.remove_prefix(length);
    }
    return tokens;
}
