#include "tools/io/units.hpp"

#include "tools/io/input_error.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

namespace vkattn::tools {
namespace {

struct Suffix {
    std::string_view name;
    double factor;
};

constexpr double kKibi = 1024.0;
constexpr std::array<Suffix, 18> kByteSuffixes{{{"", 1},
                                                {"B", 1},
                                                {"k", kKibi},
                                                {"K", kKibi},
                                                {"M", kKibi *kKibi},
                                                {"G", kKibi *kKibi *kKibi},
                                                {"T", kKibi *kKibi *kKibi *kKibi},
                                                {"KiB", kKibi},
                                                {"kiB", kKibi},
                                                {"MiB", kKibi *kKibi},
                                                {"GiB", kKibi *kKibi *kKibi},
                                                {"TiB", kKibi *kKibi *kKibi *kKibi},
                                                {"kB", 1e3},
                                                {"KB", 1e3},
                                                {"MB", 1e6},
                                                {"GB", 1e9},
                                                {"TB", 1e12},
                                                {"PiB", kKibi *kKibi *kKibi *kKibi *kKibi}}};
constexpr std::array<Suffix, 4> kTokenSuffixes{{{"", 1}, {"k", kKibi}, {"K", kKibi}, {"M", kKibi *kKibi}}};

std::uint64_t parse_size(std::string_view source, std::string_view text, std::span<const Suffix> suffixes,
                         std::string_view expected) {
    constexpr double kMax = 1ULL << 62;
    double number = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    for (const Suffix &suffix : suffixes) {
        if (error != std::errc() || suffix.name != unit) continue;
        const double size = number * suffix.factor;
        if (size >= 1.0 && size <= kMax && size == std::floor(size)) return static_cast<std::uint64_t>(size);
    }
    throw InputError(source, quote_name(text) + " is not a size, expected " + std::string(expected));
}

std::string print(const char *format, double value, const char *suffix) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return text.data() + std::string(suffix);
}

std::string three_digits(double value, const char *suffix) {
    // Whole numbers need no decimals that would only say zero.
    if (value == std::floor(value) && value < 1e4) return print("%.0f", value, suffix);
    const double size = std::abs(value);
    return print(size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f", value, suffix);
}

std::string scaled(double value, double base, std::span<const char *const> suffixes) {
    std::size_t step = 0;
    // 999.5 would be written as 1000 of the smaller unit.
    while (step + 1 < suffixes.size() && std::abs(value) >= base * (base == 1000.0 ? 0.9995 : 1.0)) {
        value /= base;
        ++step;
    }
    return three_digits(value, suffixes[step]);
}

std::string format_tokens(double value) {
    const auto tokens = static_cast<std::uint64_t>(value);
    constexpr std::uint64_t kKilo = 1024;
    if (tokens != 0 && tokens % (kKilo * kKilo) == 0) return std::to_string(tokens / (kKilo * kKilo)) + "M";
    if (tokens != 0 && tokens % kKilo == 0) return format_grouped(tokens / kKilo) + "k";
    return format_grouped(tokens);
}

} // namespace

std::uint64_t parse_bytes(std::string_view source, std::string_view text) {
    return parse_size(source, text, kByteSuffixes, "bytes, for instance 2GiB, 512MiB or 24GB");
}

std::uint64_t parse_tokens(std::string_view source, std::string_view text) {
    return parse_size(source, text, kTokenSuffixes, "a number of tokens, for instance 4096 or 32k");
}

std::string format_value(double value, Unit unit) {
    static constexpr std::array<const char *, 7> kCountSuffixes{"", " k", " M", " G", " T", " P", " E"};
    static constexpr std::array<const char *, 6> kBinarySuffixes{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
    switch (unit) {
    case Unit::kCount:
        return scaled(value, 1000.0, kCountSuffixes);
    case Unit::kBytes:
        return scaled(value, kKibi, kBinarySuffixes);
    case Unit::kTokens:
        return format_tokens(value);
    case Unit::kPlain:
        break;
    }
    if (value == std::floor(value)) return print("%.0f", value, "");
    return std::abs(value) < 1.0 ? print("%.3g", value, "") : three_digits(value, "");
}

std::string format_bytes(std::uint64_t bytes) { return format_value(static_cast<double>(bytes), Unit::kBytes); }

std::string format_grouped(std::uint64_t value) {
    std::string digits = std::to_string(value);
    for (std::size_t position = digits.size(); position > 3; position -= 3) digits.insert(position - 3, ",");
    return digits;
}

} // namespace vkattn::tools
