#include "runtime/spirv/specialise.hpp"

#include "runtime/spirv/expansion.hpp"
#include "runtime/spirv/structure.hpp"
#include "runtime/spirv/writing.hpp"

namespace vkattn::spirv {

std::vector<uint32_t> specialise(std::span<const uint32_t> code, std::span<const ConstantValue> values,
                                 std::string_view name) try {
    Source source(code);
    Result result(source.bound());
    Expansion expansion(source, result, values);
    expansion.run();
    repair_structure(result);
    return written(source, expansion, result, name);
} catch (const std::out_of_range &) { // of an id, in a damaged module
    throw CannotSpecialise("an id that is not there");
}

} // namespace vkattn::spirv
