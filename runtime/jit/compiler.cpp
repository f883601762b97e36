#include "runtime/jit/compiler.hpp"

#include <vkattn/variants.h>

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>

namespace vkattn::jit {
namespace {

constexpr std::string_view kFunctions = "variant_functions.glsl"; // what attention/functions.glsl includes

const ShaderText *find_text(std::string_view name) {
    const auto texts = shader_texts();
    const auto found = std::ranges::find(texts, name, &ShaderText::name);
    return found == texts.end() ? nullptr : &*found;
}

// #include by name in the folder shaders, or beside the file that includes.
class Includer final : public glslang::TShader::Includer {
  public:
    explicit Includer(const std::string &functions) : functions_(functions) {}

    IncludeResult *includeLocal(const char *header, const char *includer, size_t) override {
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
    const std::string &functions_;
};

void start_glslang() { [[maybe_unused]] static const bool started = glslang::InitializeProcess(); }

constexpr auto kMessages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);

void set_target(glslang::TShader &shader) {
    shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
    shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
    shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
}

std::string without_comments(std::string_view text) {
    static const std::regex comments(R"(//[^\n]*|/\*[^*]*\*+([^/*][^*]*\*+)*/)");
    return std::regex_replace(std::string(text), comments, " ");
}

// Line `wanted` of the part of the text that a #line directive names so; "" where there is none.
std::string line_of(const std::string &functions, const std::string &name, int wanted) {
    static const std::regex directive(R"re(\s*#\s*line\s+(\d+)(?:\s+"([^"]*)")?.*)re");
    std::istringstream lines(functions);
    std::string line, current;
    for (int number = 1; std::getline(lines, line); ++number) {
        std::smatch found;
        if (std::regex_match(line, found, directive)) {
            number = std::stoi(found[1]) - 1;
            if (found[2].matched) current = found[2];
        } else if (current == name && number == wanted) {
            return line;
        }
    }
    return "";
}

// "NAME:LINE:COLUMN: what" of the first error of a log. The column is that of the token which the error quotes.
std::string first_error(const std::string &log, const std::string &functions) {
    static const std::regex error(R"(ERROR: ([^\n]*?):(\d+): ([^\n]*))"), quoted(R"('([^']+)'.*)");
    std::smatch found;
    if (!std::regex_search(log, found, error)) return log.substr(0, log.find('\n'));
    const std::string name = found[1], what = found[3];
    const std::string line = line_of(functions, name, std::stoi(found[2]));
    std::smatch token;
    const size_t column = std::regex_match(what, token, quoted) ? line.find(token[1]) : std::string::npos;
    const size_t first = line.find_first_not_of(" \t");
    const size_t place = column != std::string::npos ? column : first != std::string::npos ? first : 0;
    std::string text = name + ":" + found[2].str() + ":" + std::to_string(place + 1) + ": " + what;
    if (line.empty()) text += ", expected functions with the parameters of vkattn/variants.h";
    return text;
}

// A function that a text may define.
struct Function {
    vkattn_variant_functions bit;
    const char *define;
    std::regex declaration;
};

const std::vector<Function> &known_functions() {
    static const std::vector<Function> functions{
        {VKATTN_VARIANT_SCORE_MOD, "#define SCORE_MOD\n", std::regex(R"(\bfloat\s+score_mod\s*\()")},
        {VKATTN_VARIANT_MASK_MOD, "#define MASK_MOD\n", std::regex(R"(\bbool\s+mask_mod\s*\()")},
        {VKATTN_VARIANT_LSE_MOD, "#define LSE_MOD\n", std::regex(R"(\bfloat\s+lse_mod\s*\()")},
        {VKATTN_VARIANT_OUTPUT_MOD, "#define OUTPUT_MOD\n", std::regex(R"(\bfloat\s+output_mod\s*\()")}};
    return functions;
}

std::string defines_of(const std::string &functions) {
    const uint32_t defined = defined_functions(functions);
    std::string defines = "#define VARIANT_FUNCTIONS\n";
    for (const Function &function : known_functions())
        if ((defined & function.bit) != 0) defines += function.define;
    return defines;
}

} // namespace

uint32_t defined_functions(std::string_view text) {
    const std::string code = without_comments(text);
    uint32_t defined = 0;
    for (const Function &function : known_functions())
        if (std::regex_search(code, function.declaration)) defined |= function.bit;
    return defined;
}

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
    options.disableOptimizer = true;
    glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), code, &options);
    return code;
}

} // namespace vkattn::jit
