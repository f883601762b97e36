// Texts of functions, as case files carry them: what is said of them without a compiler, and one module with them in it.
#include "runtime/jit/compiler.hpp"
#include "runtime/jit/functions_text.hpp"
#include "runtime/vulkan/shader.hpp"

#include "expect.hpp"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace vkattn::jit;
    const std::string given(reinterpret_cast<const char *>(data), size);
    // once as a log of the compiler's, of a text that has the same lines
    expect(!first_error(given, given).empty() || given.empty() || given[0] == '\n', "an error has a text");
    const std::string text = "#line 1 \"fuzz\"\n" + given.substr(0, given.find('\0')) + "\n";
    const std::string fault = fault_of_text(text);
    expect(fault.find('\n') == std::string::npos || text.find("#line") != text.rfind("#line"), "a fault is one line");
    if (!fault.empty() || defined_functions(text) == 0) return 0;
    const auto modules = variant_modules();
    static const VariantModule &module = *std::ranges::find_if(
        modules, [](const VariantModule &each) { return std::string_view(each.name) == "block_mask"; });
    try {
        const std::vector<std::uint32_t> code = compile(module, text);
        const std::string module_fault = vkattn::module_fault(code);
        expect(module_fault.empty() || module_fault.starts_with("an array of "), module_fault.c_str());
    } catch (const CompileError &) {
    }
    return 0;
}
