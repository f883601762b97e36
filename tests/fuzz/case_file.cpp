// Safetensors files and case files, as far as the problem that the library would be given.
#include "input_file.hpp"

#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace vkattn::tools;
    try {
        const CaseFile read = read_case(input_file("case.safetensors", data, size));
        const std::vector<std::string> wanted = {"output", "attn_weights", "lse", "present_key"};
        make_problem(read, wanted, VKATTN_KERNEL_AUTO);
    } catch (const InputError &) {
    }
    return 0;
}
