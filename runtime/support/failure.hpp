#pragma once

#include "vkattn/results.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vkattn {

// Returns the line and column of "NAME:LINE:COLUMN: what"; 0 and 0 of other messages.
inline std::pair<uint32_t, uint32_t> place_in(std::string_view message) {
    const char *const end = message.data() + message.size();
    for (size_t at = message.find(':'); at != message.npos; at = message.find(':', at + 1)) { // a name may have some
        uint32_t line = 0, column = 0;
        const auto [after_line, no_line] = std::from_chars(message.data() + at + 1, end, line);
        if (no_line != std::errc{} || after_line == end || *after_line != ':') continue;
        const auto [after_column, no_column] = std::from_chars(after_line + 1, end, column);
        if (no_column == std::errc{} && after_column != end && *after_column == ':') return {line, column};
    }
    return {0, 0};
}

// The last failure of a thread, the message cut to fit. Header alone, since vkattn_jit, a library beside vkattn, keeps one too.
class LastFailure {
  public:
    const vkattn_failure &shown() const { return shown_; }

    // Returns the result. Lines and columns count from 1; 0: not known.
    vkattn_result keep(vkattn_result result, const char *message, uint32_t line = 0, uint32_t column = 0) noexcept {
        std::snprintf(message_, sizeof message_, "%s", message);
        try {
            std::snprintf(member_, sizeof member_, "%s", member_of(message_).c_str());
        } catch (const std::bad_alloc &) { // the message is there
            member_[0] = '\0';
        }
        shown_ = {result, message_, member_, entry_of(member_), line, column};
        return result;
    }

  private:
    static constexpr size_t kLongestMessage = 2048, kLongestMember = 128;

    static bool is_of_name(char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' ||
               letter == '[' || letter == ']';
    }

    // Messages about an argument begin with its name and a colon, or with those of what it is in: "descs[2]: scale: ...".
    static std::string member_of(std::string_view message) {
        std::string member;
        for (;;) {
            size_t length = 0;
            while (length < message.size() && is_of_name(message[length])) ++length;
            if (length == 0 || message.substr(length, 2) != ": ") return member;
            member.append(member.empty() ? "" : ".").append(message.substr(0, length));
            message.remove_prefix(length + 2);
        }
    }

    static uint32_t entry_of(std::string_view member) {
        uint32_t entry = UINT32_MAX;
        const size_t bracket = member.find('[');
        if (bracket != std::string_view::npos)
            std::from_chars(member.data() + bracket + 1, member.data() + member.size(), entry);
        return entry;
    }

    char message_[kLongestMessage] = "";
    char member_[kLongestMember] = "";
    vkattn_failure shown_{VKATTN_SUCCESS, "", "", UINT32_MAX, 0, 0};
};
static_assert(std::is_trivially_destructible_v<LastFailure>); // threads end without it

} // namespace vkattn
