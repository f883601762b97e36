#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vkattn {

struct SpecialisationConstant {
    uint32_t id;
    uint32_t value;
    auto operator<=>(const SpecialisationConstant &) const = default; // NOLINT(modernize-use-nullptr): not written here
};

// Sizes of a module's arrays in shared memory that it computes of specialisation constants: Adreno's compiler gets them wrong
// where they choose between two (ncnn, pull request 6972). The host computes them, and gives each as a constant of its own.
class ArraySizes {
  public:
    ArraySizes() = default;
    // Rewrites the SPIR-V module so that each such size is a new specialisation constant.
    explicit ArraySizes(std::vector<uint32_t> &code);

    // The new constants, for values of the module's own.
    std::vector<SpecialisationConstant> values(std::span<const SpecialisationConstant> given) const;

  private:
    struct Constant {
        uint32_t value;
        std::optional<uint32_t> specialised_by; // the constant's id
    };
    struct Size {
        uint32_t computed; // the result that it was
        uint32_t id;       // of the new constant
    };

    void read(std::span<const uint32_t> code);
    std::optional<uint32_t> value_of(uint32_t result, std::span<const SpecialisationConstant> given) const;

    std::map<uint32_t, Constant> constants_;               // by results
    std::map<uint32_t, std::vector<uint32_t>> operations_; // opcode and operands, by results
    std::vector<Size> sizes_;
};

} // namespace vkattn
