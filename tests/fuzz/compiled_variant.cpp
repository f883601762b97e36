// Variants compiled ahead, as anybody may have changed them: as the file comes, after a header that says it is whole, and the
// input as the code of a module.
#include "runtime/support/error.hpp"
#include "runtime/vulkan/shader.hpp"
#include "runtime/vulkan/variant.hpp"
#include "runtime/vulkan/variant_file.hpp"

#include "expect.hpp"

namespace {

using namespace vkattn;

void walk(std::span<const std::uint32_t> code) {
    if (!module_fault(code).empty()) return;
    const ModuleFacts facts = module_facts(code);
    expect(renumber_bindings(code, facts.bindings & 0x15555).size() == code.size(), "a module keeps its size");
    expect((facts.written & ~facts.bindings) == 0, "what is written is used");
    expect(!facts.uniforms || (facts.bindings >> *facts.uniforms & 1) != 0, "uniforms are used");
}

void read(std::span<const std::byte> bytes) {
    std::size_t taken = 0;
    const auto [file, damage] = read_variant_file(bytes, taken);
    if (file.has_value()) {
        expect(taken <= bytes.size(), "a file is inside what was given");
        for (const auto &[name, code] : file->modules) walk(code);
    }
    Variants variants([](const Shader &) {});
    variants.load(bytes);
    vkattn_variant_info info{};
    info.compiled = bytes.data();
    info.compiled_bytes = bytes.size();
    try {
        const std::shared_ptr<Variant> variant = variants.get(info);
        expect(file.has_value() && variant->compiled().modules == file->modules, "a variant has the file's modules");
        expect(!variants.save().empty(), "it is saved");
    } catch (const Error &error) {
        expect(error.result() == VKATTN_ERROR_INVALID_ARGUMENT || error.result() == VKATTN_ERROR_UNSUPPORTED,
               error.what());
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const std::byte nothing{};
    read(size == 0 ? std::span(&nothing, 0) : std::as_bytes(std::span(data, size)));
    std::vector<std::uint32_t> words(size / sizeof(std::uint32_t));
    if (words.empty()) return 0;
    std::memcpy(words.data(), data, words.size() * sizeof words[0]);
    walk(words);
    if (words.size() < 3) return 0;
    VariantHeader header{};
    std::memcpy(header.magic, VariantHeader::kMagic, sizeof header.magic);
    header.texts = kShaderTexts;
    header.defined = words[0];
    header.function_bytes = words[1];
    header.module_count = words[2];
    const std::span<const std::uint32_t> content = std::span(words).subspan(3);
    header.words = static_cast<std::uint32_t>(content.size());
    header.checksum = variant_checksum(content);
    std::vector<std::byte> whole(sizeof header + content.size_bytes());
    std::memcpy(whole.data(), &header, sizeof header);
    if (!content.empty()) std::memcpy(whole.data() + sizeof header, content.data(), content.size_bytes());
    read(whole);
    return 0;
}
