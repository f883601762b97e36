#pragma once

#include "runtime/emit/operator_tensors.hpp"

#include <algorithm>
#include <array>

namespace vkattn {

// Tensors that callers give to layers and operators: tokens [B,L,width] and vectors.

constexpr uint64_t kAnySize = UINT64_MAX;

// The tensor, normalised; fails, naming it, unless it is [B,L,width] of floats with last stride 1,
// of at most 2^29 tokens. batch, len: those sizes, or kAnySize.
vkattn_tensor checked_tokens(const vkattn_tensor &given, const char *name, uint64_t batch, uint64_t len,
                             uint64_t width);

// The same of "output", and no two elements share a place.
vkattn_tensor checked_output_tokens(const vkattn_tensor &given, uint64_t batch, uint64_t len, uint64_t width);

// The tensor, normalised; fails, naming it, unless it is absent or floats [size], contiguous.
vkattn_tensor checked_vector(const vkattn_tensor &given, const char *name, uint64_t size);

// The tensor as [elements]; fails, naming it, unless it is contiguous floats of `like`'s shape, where that is present.
vkattn_tensor checked_elements(const vkattn_tensor &given, const char *name, const vkattn_tensor &like = {});

// The ids [B,L] of tokens, I32. Fails with VKATTN_ERROR_INVALID_ARGUMENT where they are none.
vkattn_tensor checked_token_ids(const vkattn_tensor &given);

// Whether rows of 16 bits begin at whole words in each of the tensors that are there, so that fours are loaded at once.
template <class Tensors>
bool are_in_fours(const Tensors &tensors) {
    return std::ranges::all_of(Tensors::table(), [&](const auto &row) {
        const View &view = tensors.*row.member;
        return !present(view) || rows_start_even(view.tensor);
    });
}

// Sizes of an operator by the letters of its tensors' dims.
class Sizes {
  public:
    Sizes(std::initializer_list<std::pair<char, uint64_t>> known = {}) {
        sizes_.fill(kAnySize);
        for (const auto &[letter, size] : known) (*this)[letter] = size;
    }
    uint64_t &operator[](char letter) { return sizes_[static_cast<size_t>(letter - 'A')]; }

  private:
    std::array<uint64_t, 26> sizes_;
};

// What the row says of the tensor; sizes that were not known are the tensor's. Fails as the functions above do.
vkattn_tensor checked_by(const TensorRow &row, const vkattn_tensor &given, Sizes &sizes);

// Checks an operator's tensors in the order of its table, all but those that it checks itself.
template <class Tensors>
Sizes check_tensors(Tensors &tensors, Sizes sizes = {}) {
    for (const auto &row : Tensors::table())
        (tensors.*row.member).tensor = checked_by(row, (tensors.*row.member).tensor, sizes);
    return sizes;
}

// The grid of a kernel that gives each token of [B,L,N] a workgroup.
void set_token_grid(Step &step, const vkattn_tensor &tokens);

} // namespace vkattn
