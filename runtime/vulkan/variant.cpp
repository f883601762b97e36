#include "runtime/vulkan/variant.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/extensions.hpp"
#include "runtime/vulkan/variant_file.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// What a compiler answers.
struct Answer {
    std::vector<uint32_t> code;
    std::string refusal = "its compiler gave none";
};

void accept(void *result, const uint32_t *code, size_t words) {
    static_cast<Answer *>(result)->code.assign(code, code + words);
}

void refuse(void *result, const char *message) { static_cast<Answer *>(result)->refusal = message; }

constexpr uint32_t kAllFunctions =
    VKATTN_VARIANT_SCORE_MOD | VKATTN_VARIANT_MASK_MOD | VKATTN_VARIANT_LSE_MOD | VKATTN_VARIANT_OUTPUT_MOD;

VariantFile checked_file(const vkattn_variant_info &info) {
    size_t taken = 0;
    auto [file, damage] =
        read_variant_file({static_cast<const std::byte *>(info.compiled), info.compiled_bytes}, taken);
    if (damage == VariantDamage::kOtherShaders)
        fail(VKATTN_ERROR_UNSUPPORTED, "compiled: made of the shaders of another version of vkattn, expected ",
             vkattn_version(), "'s: compile it again");
    require(file.has_value(), "compiled: ", info.compiled_bytes, " bytes that are ",
            damage == VariantDamage::kDamaged ? "damaged" : "no variant",
            ", expected a whole file of vkattn compile-variant");
    require(file->defined != 0 && (file->defined & ~kAllFunctions) == 0, "compiled: defines functions ", file->defined,
            ", expected vkattn_variant_functions");
    return *std::move(file);
}

} // namespace

void Variant::add(const VariantFile &file) {
    const std::lock_guard lock(mutex_);
    for (const auto &[name, code] : file.modules) compiled_.try_emplace(name, code);
}

void Variant::add_compiler(const vkattn_variant_info &info) {
    const std::lock_guard lock(mutex_);
    compile_ = info.compile;
    user_ = info.user;
    compilable_.assign(info.modules, info.modules + info.module_count);
}

bool Variant::serves(const Shader &shader) const {
    const std::lock_guard lock(mutex_);
    return !changes(shader) || compiled_.contains(shader.name) ||
           std::ranges::find(compilable_, shader.name) != compilable_.end();
}

const Shader &Variant::shader_of(const Shader &shader) {
    if (!changes(shader)) return shader;
    {
        const std::lock_guard lock(mutex_);
        if (const auto made = modules_.find(shader.name); made != modules_.end()) return made->second.shader;
        if (const auto known = compiled_.find(shader.name); known != compiled_.end())
            return make(shader, known->second);
    }
    std::vector<uint32_t> code = compile(shader.name); // others may be compiled meanwhile, and this one twice
    const std::lock_guard lock(mutex_);
    compiled_.try_emplace(shader.name, code);
    if (const auto made = modules_.find(shader.name); made != modules_.end()) return made->second.shader;
    return make(shader, std::move(code));
}

const Shader &Variant::make(const Shader &base, std::vector<uint32_t> code) {
    Module &module = modules_[base.name];
    const std::span<const char> text(functions_);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    module.code = std::move(code);
    module.name = vkattn::text(base.name, " of variant ", hash);
    module.shader = base;
    module.shader.name = module.name.c_str();
    module.shader.code = module.code;
    return module.shader;
}

std::vector<uint32_t> Variant::compile(const std::string &name) const {
    if (compile_ == nullptr)
        fail(VKATTN_ERROR_UNSUPPORTED, "variant: has no module ", name, ", expected one compiled with it");
    Answer answer;
    const vkattn_variant_request request{name.c_str(), functions_.c_str(), accept, refuse, &answer, nullptr};
    compile_(user_, &request);
    constexpr uint32_t kSpirvMagic = 0x07230203;
    if (answer.code.size() < 5 || answer.code[0] != kSpirvMagic)
        fail(VKATTN_ERROR_INVALID_ARGUMENT, "variant: module ", name, ": ", answer.refusal);
    return std::move(answer.code);
}

VariantFile Variant::compiled() const {
    const std::lock_guard lock(mutex_);
    return {functions_, defined_, compiled_};
}

Variant &Variants::named(const std::string &functions, uint32_t defined) {
    const std::lock_guard lock(mutex_);
    return variants_.try_emplace(functions, functions, defined).first->second;
}

Variant &Variants::get(const vkattn_variant_info &info) {
    require_no_extensions(info.next, "info");
    if (info.compiled != nullptr) {
        const VariantFile file = checked_file(info);
        Variant &variant = named(file.functions, file.defined);
        variant.add(file);
        return variant;
    }
    require(info.functions != nullptr, "functions: NULL, expected GLSL text, or compiled");
    require(info.compile != nullptr, "compile: NULL, expected a compiler of the functions, or compiled");
    require(info.modules != nullptr || info.module_count == 0, "modules: NULL, expected ", info.module_count, " names");
    require(info.defined != 0 && (info.defined & ~kAllFunctions) == 0, "defined: ", info.defined,
            ", expected vkattn_variant_functions");
    Variant &variant = named(info.functions, info.defined);
    variant.add_compiler(info);
    return variant;
}

std::vector<std::byte> Variants::save() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte> saved;
    for (const auto &[functions, variant] : variants_) {
        const std::vector<uint32_t> file = write_variant_file(variant.compiled());
        const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
        saved.insert(saved.end(), bytes.begin(), bytes.end());
    }
    return saved;
}

void Variants::load(std::span<const std::byte> saved) {
    while (!saved.empty()) {
        size_t taken = 0;
        const auto [file, damage] = read_variant_file(saved, taken);
        if (!file.has_value()) return; // of other shaders
        named(file->functions, file->defined).add(*file);
        saved = saved.subspan(taken);
    }
}

} // namespace vkattn
