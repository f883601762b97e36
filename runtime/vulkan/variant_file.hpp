#pragma once

#include "runtime/vulkan/compiled_variant.hpp"
#include "vkattn_variant/identity.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vkattn {

// A variant compiled ahead, as one file: the header, the text padded to whole words, and of each module its name and words.
// What runtime/jit writes, and saved states hold.
struct VariantHeader {
    static constexpr char kMagic[] = "vkattnV";
    char magic[8];
    uint64_t texts; // kShaderTexts
    uint32_t defined;
    uint32_t function_bytes;
    uint32_t module_count;
    uint32_t words; // of all that follows
    uint64_t checksum;
};

struct VariantModuleHeader {
    char name[56];
    uint32_t words;
    uint32_t reserved;
};

// FNV-1a, 64 bits: it finds damage, not malice.
inline uint64_t variant_checksum(std::span<const uint32_t> words) {
    uint64_t value = 0xcbf29ce484222325u;
    for (const uint32_t word : words) value = (value ^ word) * 0x100000001b3u;
    return value;
}

inline std::vector<uint32_t> write_variant_file(const CompiledVariant &file) {
    std::vector<uint32_t> words;
    const auto append = [&](const void *data, size_t bytes) {
        const size_t at = words.size();
        words.resize(at + (bytes + 3) / 4);
        if (bytes != 0) std::memcpy(words.data() + at, data, bytes);
    };
    append(file.functions.data(), file.functions.size());
    for (const auto &[name, code] : file.modules) {
        VariantModuleHeader module{};
        std::memcpy(module.name, name.data(), name.size() < sizeof module.name ? name.size() : sizeof module.name - 1);
        module.words = static_cast<uint32_t>(code.size());
        append(&module, sizeof module);
        append(code.data(), code.size() * sizeof(uint32_t));
    }
    VariantHeader header{};
    std::memcpy(header.magic, VariantHeader::kMagic, sizeof header.magic);
    header.texts = kShaderTexts;
    header.defined = file.defined;
    header.function_bytes = static_cast<uint32_t>(file.functions.size());
    header.module_count = static_cast<uint32_t>(file.modules.size());
    header.words = static_cast<uint32_t>(words.size());
    header.checksum = variant_checksum(words);
    std::vector<uint32_t> result(sizeof header / sizeof(uint32_t));
    std::memcpy(result.data(), &header, sizeof header);
    result.insert(result.end(), words.begin(), words.end());
    return result;
}

enum class VariantDamage { kNone, kNotOne, kOtherShaders, kDamaged };

// Reads one from the beginning of bytes; taken: how many it has. Any bytes may be given.
inline std::pair<std::optional<CompiledVariant>, VariantDamage> read_variant_file(std::span<const std::byte> bytes,
                                                                                  size_t &taken) {
    VariantHeader header{};
    if (bytes.size() < sizeof header) return {std::nullopt, VariantDamage::kNotOne};
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, VariantHeader::kMagic, sizeof header.magic) != 0)
        return {std::nullopt, VariantDamage::kNotOne};
    if (header.texts != kShaderTexts) return {std::nullopt, VariantDamage::kOtherShaders};
    if ((bytes.size() - sizeof header) / sizeof(uint32_t) < header.words)
        return {std::nullopt, VariantDamage::kDamaged};
    std::vector<uint32_t> words(header.words);
    if (!words.empty()) std::memcpy(words.data(), bytes.data() + sizeof header, words.size() * sizeof(uint32_t));
    if (variant_checksum(words) != header.checksum) return {std::nullopt, VariantDamage::kDamaged};
    size_t at = (size_t{header.function_bytes} + 3) / 4;
    if (at > words.size()) return {std::nullopt, VariantDamage::kDamaged};
    CompiledVariant file;
    file.defined = header.defined;
    if (header.function_bytes != 0)
        file.functions.assign(reinterpret_cast<const char *>(words.data()), header.function_bytes);
    for (uint32_t i = 0; i < header.module_count; ++i) {
        VariantModuleHeader module{};
        constexpr size_t kHeaderWords = sizeof module / sizeof(uint32_t);
        if (words.size() - at < kHeaderWords) return {std::nullopt, VariantDamage::kDamaged};
        std::memcpy(&module, words.data() + at, sizeof module);
        at += kHeaderWords;
        if (words.size() - at < module.words || module.name[sizeof module.name - 1] != 0)
            return {std::nullopt, VariantDamage::kDamaged};
        const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
        file.modules[module.name].assign(first, first + static_cast<std::ptrdiff_t>(module.words));
        at += module.words;
    }
    if (at != words.size()) return {std::nullopt, VariantDamage::kDamaged};
    taken = sizeof header + words.size() * sizeof(uint32_t);
    return {std::move(file), VariantDamage::kNone};
}

} // namespace vkattn
