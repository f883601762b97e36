#include "runtime/vulkan/variant.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/failure.hpp"
#include "runtime/vulkan/variant_file.hpp"

#include <algorithm>
#include <charconv>

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

constexpr uint32_t kAllFunctions = VKATTN_VARIANT_SCORE_MOD | VKATTN_VARIANT_MASK_MOD | VKATTN_VARIANT_LSE_MOD |
                                   VKATTN_VARIANT_OUTPUT_MOD | VKATTN_VARIANT_SCORE_MOD_GRAD |
                                   VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED;

CompiledVariant checked_file(const vkattn_variant_info &info) {
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
    for (const auto &[name, code] : file->modules) {
        const std::string fault = module_fault(code);
        require(fault.empty(), "compiled: module ", name, ": ", fault);
    }
    return *std::move(file);
}

void require_compiler(const vkattn_variant_info &info) {
    require(info.functions != nullptr, "functions: NULL, expected GLSL text, or compiled");
    require(info.compile != nullptr, "compile: NULL, expected a compiler of the functions, or compiled");
    require(info.modules != nullptr || info.module_count == 0, "modules: NULL, expected ", info.module_count, " names");
    require(info.defined != 0 && (info.defined & ~kAllFunctions) == 0, "defined: ", info.defined,
            ", expected vkattn_variant_functions");
    if (info.shader_texts != kShaderTexts)
        fail(VKATTN_ERROR_UNSUPPORTED,
             "shader_texts: a compiler of the shaders of another version of vkattn, expected ", vkattn_version(),
             "'s: install vkattn_jit and vkattn of the same version");
}

} // namespace

void Variant::add(CompiledVariant &&file) {
    const std::lock_guard lock(mutex_);
    for (auto &[name, code] : file.modules)
        if (const auto [module, is_new] = modules_.try_emplace(name); is_new) module->second.code = std::move(code);
}

void Variant::add_compiler(const vkattn_variant_info &info) {
    const std::lock_guard lock(mutex_);
    if (compiler_.compile == nullptr)
        compiler_ = {info.compile, info.user, {info.modules, info.modules + info.module_count}};
}

bool Variant::serves(const Shader &shader) const {
    const std::lock_guard lock(mutex_);
    return !changes(shader) || modules_.contains(shader.name) ||
           std::ranges::find(compiler_.modules, shader.name) != compiler_.modules.end();
}

const Shader &Variant::shader_of(const Shader &shader) {
    if (!changes(shader)) return shader;
    Compiler compiler;
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = modules_.find(shader.name); known != modules_.end()) return made(shader, known->second);
        compiler = compiler_;
    }
    std::vector<uint32_t> code = compile(compiler, shader.name); // others may be compiled meanwhile, and this one twice
    const std::lock_guard lock(mutex_);
    const auto [module, is_new] = modules_.try_emplace(shader.name);
    if (is_new) module->second.code = std::move(code);
    return made(shader, module->second);
}

// The module as a shader. Where a plan has taken it already, that one.
const Shader &Variant::made(const Shader &base, Module &module) const {
    if (!module.name.empty()) return module.shader;
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char letter : functions_) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    module.name = text(base.name, " of variant ", hash);
    module.shader = base;
    module.shader.name = module.name.c_str();
    module.shader.code = ModuleCode(std::span<const uint32_t>(module.code));
    return module.shader;
}

std::vector<uint32_t> Variant::compile(const Compiler &compiler, const std::string &name) const {
    if (compiler.compile == nullptr)
        fail(VKATTN_ERROR_UNSUPPORTED, "variant: has no module ", name, ", expected one compiled with it");
    Answer answer;
    const vkattn_variant_request request{name.c_str(), functions_.c_str(), accept, refuse, &answer};
    compiler.compile(compiler.user, &request);
    const std::string fault = answer.code.empty() ? answer.refusal : module_fault(answer.code);
    if (!fault.empty()) {
        const auto [line, column] = place_in(fault);
        throw CompileError(text("variant: module ", name, ": ", fault), line, column);
    }
    return std::move(answer.code);
}

CompiledVariant Variant::compiled() const {
    const std::lock_guard lock(mutex_);
    CompiledVariant file{functions_, defined_, {}};
    for (const auto &[name, module] : modules_) file.modules[name] = module.code;
    return file;
}

void Variant::each_shader(const std::function<void(const Shader &)> &visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto &[name, module] : modules_)
        if (!module.name.empty()) visit(module.shader);
}

std::shared_ptr<Variant> Variants::named(const std::string &functions, uint32_t defined) {
    // Made before the lock, because the end of one takes it.
    std::shared_ptr<Variant> made(new Variant(functions, defined), [this](Variant *last) { release(last); });
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Variant> &known = variants_[functions];
    if (std::shared_ptr<Variant> variant = known.lock(); variant != nullptr) return variant;
    known = made;
    if (auto loaded = loaded_.extract(functions); !loaded.empty() && loaded.mapped().defined == defined)
        made->add(std::move(loaded.mapped()));
    return made;
}

// The text may have come back meanwhile, as another object.
void Variants::release(Variant *variant) noexcept {
    const std::unique_ptr<Variant> last(variant);
    {
        const std::lock_guard lock(mutex_);
        const auto known = variants_.find(variant->functions());
        if (known != variants_.end() && known->second.expired()) variants_.erase(known);
    }
    variant->each_shader(forget_);
}

std::shared_ptr<Variant> Variants::get(const vkattn_variant_info &info) {
    CompiledVariant file;
    if (info.compiled != nullptr) {
        file = checked_file(info);
    } else {
        require_compiler(info);
        file = {info.functions, info.defined, {}};
    }
    std::shared_ptr<Variant> variant = named(file.functions, file.defined);
    require(variant->defined() == file.defined, "defined: ", file.defined, ", expected ", variant->defined(),
            ", as another variant of the same text has it");
    if (info.compiled != nullptr)
        variant->add(std::move(file));
    else
        variant->add_compiler(info);
    return variant;
}

std::vector<std::byte> Variants::save() const {
    std::vector<std::shared_ptr<Variant>> all; // the last of one may go here, which takes the lock
    {
        const std::lock_guard lock(mutex_);
        for (const auto &[functions, known] : variants_)
            if (std::shared_ptr<Variant> variant = known.lock(); variant != nullptr) all.push_back(std::move(variant));
    }
    std::vector<std::byte> saved;
    for (const std::shared_ptr<Variant> &variant : all) {
        const std::vector<uint32_t> file = write_variant_file(variant->compiled());
        const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
        saved.insert(saved.end(), bytes.begin(), bytes.end());
    }
    return saved;
}

void Variants::load(std::span<const std::byte> saved) {
    const std::lock_guard lock(mutex_);
    while (!saved.empty()) {
        size_t taken = 0;
        auto [file, damage] = read_variant_file(saved, taken);
        if (!file.has_value()) return; // of other shaders
        std::erase_if(file->modules, [](const auto &module) { return !module_fault(module.second).empty(); });
        std::string functions = file->functions;
        loaded_[std::move(functions)] = *std::move(file);
        saved = saved.subspan(taken);
    }
}

} // namespace vkattn
