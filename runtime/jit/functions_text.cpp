#include "runtime/jit/functions_text.hpp"

#include "runtime/jit/scanner.hpp"

#include <vkattn/variants.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace vkattn::jit {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
// Of a statement: compilers call themselves once for each level of an expression.
constexpr size_t kMostTokens = 4096;

// A function that a text may define.
struct Function {
    vkattn_variant_functions bit;
    const char *define;
    std::string_view type, name;
};

constexpr Function kFunctions[] = {
    {VKATTN_VARIANT_SCORE_MOD, "#define SCORE_MOD\n", "float", "score_mod"},
    {VKATTN_VARIANT_MASK_MOD, "#define MASK_MOD\n", "bool", "mask_mod"},
    {VKATTN_VARIANT_LSE_MOD, "#define LSE_MOD\n", "float", "lse_mod"},
    {VKATTN_VARIANT_OUTPUT_MOD, "#define OUTPUT_MOD\n", "float", "output_mod"},
    {VKATTN_VARIANT_SCORE_MOD_GRAD, "#define SCORE_MOD_GRAD\n", "float", "score_mod_grad"},
    {VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED, "#define SCORE_MOD_GRAD_CAPTURED\n", "void", "score_mod_grad_captured"}};

// What no function may say: kernels know their resources and their barriers, and drivers end the process where there are others.
struct Refused {
    std::string_view word, what;
};

constexpr Refused kRefused[] = {{"layout", "a resource"},
                                {"buffer", "a resource"},
                                {"uniform", "a resource"},
                                {"shared", "shared memory"},
                                {"barrier", "a barrier"},
                                {"controlBarrier", "a barrier"},
                                {"memoryBarrier", "a barrier"},
                                {"memoryBarrierBuffer", "a barrier"},
                                {"memoryBarrierShared", "a barrier"},
                                {"memoryBarrierImage", "a barrier"},
                                {"groupMemoryBarrier", "a barrier"},
                                {"subgroupBarrier", "a barrier"},
                                {"subgroupMemoryBarrier", "a barrier"},
                                {"subgroupMemoryBarrierBuffer", "a barrier"},
                                {"subgroupMemoryBarrierShared", "a barrier"},
                                {"subgroupMemoryBarrierImage", "a barrier"}};

std::string place_of(std::string_view name, std::string_view line, size_t column) {
    return std::string(name) + ":" + std::string(line) + ":" + std::to_string(column) + ": ";
}

std::string place_of(const Token &token, std::string_view text) {
    const size_t newline = token.offset == 0 ? std::string_view::npos : text.rfind('\n', token.offset - 1);
    return place_of(token.name, std::to_string(token.line), token.offset - (newline + 1) + 1); // of npos 0
}

// The line of the text that is `line` of the part `name`; "" where there is none.
std::string_view line_of(std::string_view text, std::string_view name, uint64_t line) {
    Scanner scanner(text);
    for (Token token = scanner.next(); !token.text.empty(); token = scanner.next()) {
        if (token.line != line || token.name != name) continue;
        const size_t start = token.offset == 0 ? 0 : text.rfind('\n', token.offset - 1) + 1;
        return text.substr(start, text.find('\n', token.offset) - start);
    }
    return {};
}

// Where the last of such a token is in a line, from 0; nothing where there is none.
std::optional<size_t> find_token(std::string_view line, std::string_view wanted) {
    std::optional<size_t> found;
    Scanner scanner(line);
    for (Token token = scanner.next(); !token.text.empty(); token = scanner.next())
        if (token.text == wanted) found = token.offset;
    if (found.has_value() || wanted.empty() || is_word(wanted[0])) return found;
    const size_t place = line.rfind(wanted);
    return place == std::string_view::npos ? std::nullopt : std::optional(place);
}

// "NAME:LINE: what" of a log, in its parts.
struct Complaint {
    std::string_view name, line, what;
};

std::optional<Complaint> first_complaint(std::string_view log) {
    constexpr std::string_view kError = "ERROR: ";
    const size_t start = log.find(kError);
    if (start == std::string_view::npos) return std::nullopt;
    const std::string_view text = log.substr(start + kError.size(), log.find('\n', start) - start - kError.size());
    for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
        const size_t end = text.find_first_not_of("0123456789", colon + 1);
        if (end == std::string_view::npos || end == colon + 1 || !text.substr(end).starts_with(": ")) continue;
        return Complaint{text.substr(0, colon), text.substr(colon + 1, end - colon - 1), text.substr(end + 2)};
    }
    return std::nullopt;
}

uint64_t lines_between(std::string_view text, size_t begin, size_t end) {
    return static_cast<uint64_t>(std::ranges::count(text.substr(begin, end - begin), '\n'));
}

// Compilers take a backslash at the end of a line and its newline away before they look for words and comments, which Scanner does
// not: between spaces both see the same.
std::string fault_of_joined_lines(std::string_view text) {
    for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at + 1)) {
        const std::string_view end = text.substr(at + 1, 2);
        if (!end.starts_with('\n') && !end.starts_with("\r")) continue;
        if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t') continue;
        Token place{text.substr(at, 1), at, {}, 1};
        Scanner scanner(text);
        for (Token token = scanner.next(); !token.text.empty() && token.offset <= at; token = scanner.next())
            place.name = token.name, place.line = token.line + lines_between(text, token.offset, at);
        return place_of(place, text) + "a backslash that joins two lines, expected a space before it";
    }
    return "";
}

} // namespace

uint32_t defined_functions(std::string_view text) {
    uint32_t defined = 0;
    std::array<std::string_view, 3> last; // tokens
    Scanner scanner(text);
    for (Token token = scanner.next(); !token.text.empty(); token = scanner.next()) {
        last = {last[1], last[2], token.text};
        for (const Function &function : kFunctions)
            if (last == std::array<std::string_view, 3>{function.type, function.name, "("}) defined |= function.bit;
    }
    return defined;
}

std::string defines_of(std::string_view text) {
    const uint32_t defined = defined_functions(text);
    std::string defines = "#define VARIANT_FUNCTIONS\n";
    for (const Function &function : kFunctions)
        if ((defined & function.bit) != 0) defines += function.define;
    return defines;
}

std::string fault_of_text(std::string_view text) {
    if (text.size() > kMostBytes)
        return "functions: " + std::to_string(text.size()) + " bytes, expected at most " + std::to_string(kMostBytes);
    if (std::string fault = fault_of_joined_lines(text); !fault.empty()) return fault;
    Scanner scanner(text);
    std::string_view last;
    size_t tokens = 0; // of the statement
    for (Token token = scanner.next(); !token.text.empty(); last = token.text, token = scanner.next()) {
        if (last == "#" && token.text == "#")
            return place_of(token, text) + "'##' : a word made of two, expected it as one";
        if (last == "#" && token.text == "include")
            return place_of(token, text) + "'include' : another text, expected all functions in this one";
        if (const auto *found = std::ranges::find(kRefused, token.text, &Refused::word); found != std::end(kRefused))
            return place_of(token, text) + "'" + std::string(token.text) + "' : " + std::string(found->what) +
                   ", expected functions of their arguments and of captured tensors alone";
        tokens = std::string_view(";{}#").find(token.text) != std::string_view::npos ? 0 : tokens + 1;
        if (tokens > kMostTokens)
            return place_of(token, text) + "a statement of more than " + std::to_string(kMostTokens) +
                   " words, expected fewer: a captured tensor holds many numbers";
    }
    return "";
}

std::string first_error(std::string_view log, std::string_view text) {
    const std::optional<Complaint> error = first_complaint(log);
    if (!error.has_value()) return std::string(log.substr(0, log.find('\n')));
    uint64_t number = 0; // of a line that is too large to be one: 0, which none is
    std::from_chars(error->line.data(), error->line.data() + error->line.size(), number);
    const std::string_view line = line_of(text, error->name, number);
    const std::string_view what = error->what;
    std::optional<size_t> column;
    if (what.starts_with("'")) column = find_token(line, what.substr(1, what.find('\'', 1) - 1));
    const size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    std::string result = place_of(error->name, error->line, column.value_or(first) + 1) + std::string(what);
    if (line.empty()) result += ", expected functions with the parameters of vkattn/variants.h";
    return result;
}

} // namespace vkattn::jit
