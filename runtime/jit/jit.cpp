// The C entry points of vkattn_jit.
#include "runtime/jit/compiler.hpp"
#include "runtime/jit/functions_text.hpp"
#include "runtime/jit/last_failure.hpp"
#include "runtime/vulkan/variant_file.hpp"

#include <vkattn/jit.h>

#include <exception>
#include <new>

namespace {

using namespace vkattn::jit;

vkattn_result refuse(const std::string &message) {
    return last_failure().keep(VKATTN_ERROR_INVALID_ARGUMENT, message.c_str());
}

vkattn_result refuse_text(const char *message) {
    const auto [line, column] = vkattn::place_in(message);
    return last_failure().keep(VKATTN_ERROR_COMPILE, message, line, column);
}

// The text as compilers and the context get it: with its name.
std::string named_text(const vkattn_jit_info &info) {
    const std::string name = info.name != nullptr ? info.name : "functions";
    return "#line 1 \"" + name + "\"\n" + info.functions + "\n";
}

// "" where it is well.
std::string fault_of(const vkattn_jit_info *info) {
    if (info == nullptr) return "info: NULL, expected a pointer";
    if (info->struct_size < sizeof(vkattn_jit_info))
        return "info.struct_size: " + std::to_string(info->struct_size) + ", expected the size of the structure, " +
               std::to_string(sizeof(vkattn_jit_info)) + " here";
    if (info->functions == nullptr) return "functions: NULL, expected GLSL text";
    if (info->name != nullptr && std::string_view(info->name).find_first_of("\"\n\\") != std::string_view::npos)
        return "name: has a quote, a backslash or a newline, expected none";
    const uint32_t defined = defined_functions(info->functions);
    const auto defines = [&](uint32_t function) { return (defined & function) != 0; };
    if ((defined & ~(VKATTN_VARIANT_SCORE_MOD_GRAD | VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED)) == 0)
        return "functions: none of score_mod, mask_mod, lse_mod and output_mod, expected one of them, as "
               "vkattn/variants.h has it";
    if (defines(VKATTN_VARIANT_SCORE_MOD_GRAD) && !defines(VKATTN_VARIANT_SCORE_MOD))
        return "functions: score_mod_grad without score_mod, expected the function that it is the derivative of";
    if (defines(VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED) && !defines(VKATTN_VARIANT_SCORE_MOD_GRAD))
        return "functions: score_mod_grad_captured without score_mod_grad, expected both";
    return "";
}

// Throws a CompileError where the text declares what it may not.
std::string checked_text(const vkattn_jit_info &info) {
    std::string functions = named_text(info);
    if (const std::string fault = fault_of_text(functions); !fault.empty()) throw CompileError(fault);
    return functions;
}

void compile_module(void *, const vkattn_variant_request *request) {
    try {
        for (const VariantModule &module : variant_modules()) {
            if (std::string_view(module.name) != request->module) continue;
            const std::vector<uint32_t> code = compile(module, request->functions);
            return request->accept(request->result, code.data(), code.size());
        }
        request->refuse(request->result, "is none that this vkattn_jit knows");
    } catch (const std::exception &error) {
        request->refuse(request->result, error.what());
    }
}

vkattn_result create(vkattn_context context, const vkattn_jit_info &info, vkattn_variant *variant) {
    const std::string functions = checked_text(info);
    std::vector<const char *> names;
    for (const VariantModule &module : variant_modules())
        if (can_compile(module)) names.push_back(module.name);
    vkattn_variant_info made{};
    made.functions = functions.c_str();
    made.defined = defined_functions(functions);
    made.modules = names.data();
    made.module_count = static_cast<uint32_t>(names.size());
    made.compile = compile_module;
    made.shader_texts = vkattn::kShaderTexts;
    const vkattn_result result = vkattn_variant_create(context, &made, variant);
    if (result == VKATTN_SUCCESS) return result;
    const vkattn_failure &failure = *vkattn_last_failure();
    return last_failure().keep(result, failure.message, failure.line, failure.column);
}

// Whether a module may be asked of a file that has such functions: of gradients, which call score_mod_grad, where those have some.
bool has_use(const VariantModule &module, uint32_t defined) {
    const auto defines = [&](uint32_t functions) { return (defined & functions) != 0; };
    const bool has_gradients = !defines(VKATTN_VARIANT_LSE_MOD | VKATTN_VARIANT_OUTPUT_MOD) &&
                               defines(VKATTN_VARIANT_SCORE_MOD) == defines(VKATTN_VARIANT_SCORE_MOD_GRAD);
    if ((module.calls & VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED) != 0)
        return has_gradients && defines(VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED);
    return defines(module.calls) && (has_gradients || (module.calls & VKATTN_VARIANT_SCORE_MOD_GRAD) == 0);
}

template <class Call>
vkattn_result guard(Call &&call) {
    try {
        return call();
    } catch (const CompileError &error) {
        return refuse_text(error.what());
    } catch (const std::bad_alloc &) {
        return last_failure().keep(VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
        return last_failure().keep(VKATTN_ERROR_INTERNAL, error.what());
    }
}

} // namespace

vkattn_result vkattn_jit_variant_create(vkattn_context context, const vkattn_jit_info *info, vkattn_variant *variant) {
    if (variant != nullptr) *variant = nullptr;
    return guard([&] {
        if (const std::string fault = fault_of(info); !fault.empty()) return refuse(fault);
        return create(context, *info, variant);
    });
}

vkattn_result vkattn_jit_compile(const vkattn_jit_info *info,
                                 void (*write)(void *user, const void *data, uint64_t bytes), void *user) {
    return guard([&] {
        if (const std::string fault = fault_of(info); !fault.empty()) return refuse(fault);
        if (write == nullptr) return refuse("write: NULL, expected a function");
        vkattn::CompiledVariant file;
        file.functions = checked_text(*info);
        file.defined = defined_functions(file.functions);
        for (const VariantModule &module : variant_modules())
            if (has_use(module, file.defined) && can_compile(module))
                file.modules[module.name] = compile(module, file.functions);
        const std::vector<uint32_t> words = write_variant_file(file);
        write(user, words.data(), words.size() * sizeof(uint32_t));
        return VKATTN_SUCCESS;
    });
}

const vkattn_failure *vkattn_jit_last_failure(void) { return &last_failure().shown(); }

const char *vkattn_jit_last_error(void) { return last_failure().shown().message; }
