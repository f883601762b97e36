// Text as token numbers: 0 to 255 are bytes, what follows are pieces of words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

class Vocabulary {
  public:
    // Reads a JSON object whose "pieces" are an array. Throws InputError.
    explicit Vocabulary(const std::filesystem::path &path);

    std::size_t size() const { return pieces_.size(); }
    // The bytes of a token; "" for a number that is none.
    std::string_view piece(std::int32_t token) const;
    // The longest piece that the rest of the text begins with, again and again, as the models were trained.
    std::vector<std::int32_t> encode(std::string_view text) const;

  private:
    std::vector<std::string> pieces_;
    std::unordered_map<std::string, std::int32_t> numbers_;
    std::size_t longest_ = 1;
};
