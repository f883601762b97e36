#include "runtime/jit/scanner.hpp"

#include <algorithm>
#include <charconv>

namespace vkattn::jit {

bool is_word(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_';
}

void Scanner::skip_to(size_t end) {
    end = std::min(end, text_.size()); // of npos, too
    line_ += static_cast<uint64_t>(std::ranges::count(text_.substr(at_, end - at_), '\n'));
    at_ = end;
}

void Scanner::skip_spaces_and_comments() {
    for (;;) {
        const std::string_view rest = text_.substr(at_);
        if (rest.starts_with("//")) {
            skip_to(text_.find('\n', at_));
        } else if (rest.starts_with("/*")) {
            const size_t end = text_.find("*/", at_ + 2);
            skip_to(end == std::string_view::npos ? end : end + 2);
        } else if (!rest.empty() && std::string_view(" \t\r\n\v\f").find(rest[0]) != std::string_view::npos) {
            skip_to(at_ + 1);
        } else {
            return;
        }
    }
}

// At a #: what follows may be `line NUMBER "NAME"`, which says what the next line is. A number that is none is left to the compiler.
void Scanner::follow_line_directive() {
    constexpr std::string_view kSpaces = " \t";
    std::string_view rest = text_.substr(at_ + 1, text_.find('\n', at_) - at_ - 1);
    const auto skip = [&](size_t count) { rest.remove_prefix(std::min(count, rest.size())); };
    skip(rest.find_first_not_of(kSpaces));
    if (!rest.starts_with("line")) return;
    skip(4);
    skip(rest.find_first_not_of(kSpaces));
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc()) return;
    skip(static_cast<size_t>(end - rest.data()));
    skip(rest.find_first_not_of(kSpaces));
    line_ = uint64_t{number} - 1; // of this line, so that the next has the number: may pass below 0 for as long
    if (rest.starts_with('"')) name_ = rest.substr(1, rest.find('"', 1) - 1);
}

Token Scanner::next() {
    skip_spaces_and_comments();
    const size_t start = at_;
    if (start == text_.size()) return {{}, start, name_, line_};
    if (text_[start] == '#') follow_line_directive();
    size_t end = start + 1;
    if (text_[start] == '"')
        end = std::min(text_.find_first_of("\"\n", end), text_.size() - 1) + 1;
    else if (is_word(text_[start]))
        while (end < text_.size() && is_word(text_[end])) ++end;
    const Token token{text_.substr(start, end - start), start, name_, line_};
    skip_to(end);
    return token;
}

} // namespace vkattn::jit
