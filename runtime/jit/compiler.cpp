#include "runtime/jit/compiler.hpp"

#include "runtime/jit/functions_text.hpp"

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

namespace vkattn::jit {
namespace {

constexpr std::string_view kFunctions = "variant_functions.glsl"; // what attention/functions.glsl includes

const ShaderText *find_text(std::string_view name) {
    const auto texts = shader_texts();
    const auto found = std::ranges::find(texts, name, &ShaderText::name);
    return found == texts.end() ? nullptr : &*found;
}

// #include by name in the folder shaders, or beside the file that includes. The functions are included once, and there is an
// end to includes: glslang has none for a text that includes itself.
class Includer final : public glslang::TShader::Includer {
  public:
    explicit Includer(const std::string &functions) : functions_(functions) {}

    IncludeResult *includeLocal(const char *header, const char *includer, size_t) override {
        if (++includes_ > kMostIncludes) return nullptr;
        if (header == kFunctions && std::exchange(has_functions_, true)) return nullptr;
        if (header == kFunctions) return new IncludeResult(header, functions_.data(), functions_.size(), nullptr);
        const std::string folder = std::string(includer).substr(0, std::string_view(includer).rfind('/') + 1);
        const ShaderText *text = find_text(header);
        if (text == nullptr) text = find_text(folder + header);
        if (text == nullptr) return nullptr;
        return new IncludeResult(std::string(text->name), text->text.data(), text->text.size(), nullptr);
    }
    IncludeResult *includeSystem(const char *, const char *, size_t) override { return nullptr; }
    void releaseInclude(IncludeResult *result) override { delete result; }

  private:
    static constexpr int kMostIncludes = 1000; // several times those of any shader

    const std::string &functions_;
    bool has_functions_ = false;
    int includes_ = 0;
};

void start_glslang() { [[maybe_unused]] static const bool started = glslang::InitializeProcess(); }

constexpr auto kMessages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);

void set_target(glslang::TShader &shader) {
    shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
    shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
    shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
}

} // namespace

bool can_compile(const VariantModule &module) {
    static std::mutex mutex;
    static std::map<std::string_view, bool> known; // by the extensions
    if (module.extensions.empty()) return true;
    start_glslang();
    const std::lock_guard lock(mutex);
    const auto [found, is_new] = known.try_emplace(module.extensions, false);
    if (!is_new) return found->second;
    std::istringstream extensions{std::string(module.extensions)};
    std::string text = "#version 460\n";
    for (std::string extension; extensions >> extension;) text += "#extension " + extension + " : require\n";
    text += "void main() {}\n";
    const char *strings[] = {text.c_str()};
    glslang::TShader shader(EShLangCompute);
    shader.setStrings(strings, 1);
    set_target(shader);
    return found->second = shader.parse(GetDefaultResources(), 460, false, kMessages);
}

std::vector<uint32_t> compile(const VariantModule &module, const std::string &functions) {
    start_glslang();
    const ShaderText *source = find_text(module.source);
    if (source == nullptr) throw CompileError(std::string(module.source) + ": is not among the shaders");
    const char *strings[] = {source->text.data()}, *names[] = {source->name.data()};
    const int lengths[] = {static_cast<int>(source->text.size())};
    const std::string preamble = module.defines + defines_of(functions);
    glslang::TShader shader(EShLangCompute);
    shader.setStringsWithLengthsAndNames(strings, lengths, names, 1);
    shader.setPreamble(preamble.c_str());
    set_target(shader);
    Includer includer(functions);
    if (!shader.parse(GetDefaultResources(), 460, false, kMessages, includer))
        throw CompileError(first_error(shader.getInfoLog(), functions));
    glslang::TProgram program;
    program.addShader(&shader);
    if (!program.link(kMessages)) throw CompileError(first_error(program.getInfoLog(), functions));
    std::vector<uint32_t> code;
    glslang::SpvOptions options;
    options.disableOptimizer = true; // the library specialises what drivers get
    options.stripDebugInfo = true;
    glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), code, &options);
    return code;
}

} // namespace vkattn::jit
