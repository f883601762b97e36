#include "runtime/ops/tokens.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

std::string size_or(uint64_t size, const char *letter) { return size == kAnySize ? letter : std::to_string(size); }

} // namespace

vkattn_tensor checked_tokens(const vkattn_tensor &given, const char *name, uint64_t batch, uint64_t len,
                             uint64_t width) {
    require(present(given), name, ": absent, expected [", size_or(batch, "B"), ",", size_or(len, "L"), ",", width, "]");
    const vkattn_tensor tensor = normalised(given, name);
    require_float(tensor, name);
    require(tensor.rank == 3 && tensor.shape[2] == width && (batch == kAnySize || tensor.shape[0] == batch) &&
                (len == kAnySize || tensor.shape[1] == len),
            name, ": shape ", shape_text(tensor), ", expected [", size_or(batch, "B"), ",", size_or(len, "L"), ",",
            width, "]");
    const uint64_t tokens = tensor.shape[0] * tensor.shape[1];
    require(tokens <= kLargestSize, name, ": shape ", shape_text(tensor), ", ", tokens,
            " tokens, expected at most 2^29");
    require(width == 1 || tensor.strides[2] == 1, name, ": last stride ", tensor.strides[2], ", expected 1");
    return tensor;
}

vkattn_tensor checked_output_tokens(const vkattn_tensor &given, uint64_t batch, uint64_t len, uint64_t width) {
    const vkattn_tensor output = checked_tokens(given, "output", batch, len, width);
    require_no_overlap(output, "output");
    return output;
}

vkattn_tensor checked_vector(const vkattn_tensor &given, const char *name, uint64_t size) {
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return tensor;
    require_float(tensor, name);
    require(tensor.rank == 1 && tensor.shape[0] == size && is_contiguous(tensor), name, ": shape ", shape_text(tensor),
            ", expected [", size, "] contiguous");
    return tensor;
}

void set_token_grid(Step &step, const vkattn_tensor &tokens) {
    step.groups = {tiles(tokens.shape[1], 1), tiles(tokens.shape[0], 1), 1};
    step.flops = kFlopsOfElement * static_cast<double>(tokens.shape[0] * tokens.shape[1] * tokens.shape[2]);
}

} // namespace vkattn
