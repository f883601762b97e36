#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vkattn::jit {

// A word (a name, a keyword, a number), or one other character.
struct Token {
    std::string_view text; // "" at the end
    size_t offset = 0;     // in the text
    std::string_view name; // of the part of the text that it is in, by the last directive #line; "" before the first
    uint64_t line = 1;     // of that part
};

// Reads GLSL token by token, without its comments; what stands between quotes is one token. Takes any bytes, in time and memory
// of their number.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}
    Token next();

  private:
    void skip_spaces_and_comments();
    void skip_to(size_t end);
    void follow_line_directive();

    std::string_view text_, name_;
    size_t at_ = 0;
    uint64_t line_ = 1;
};

// Whether the character may be within a name.
bool is_word(char letter);

} // namespace vkattn::jit
