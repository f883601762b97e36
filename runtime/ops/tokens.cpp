#include "runtime/ops/tokens.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <string_view>

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

vkattn_tensor checked_token_ids(const vkattn_tensor &given) {
    const vkattn_tensor tokens = normalised(given, "tokens");
    require(tokens.type == VKATTN_TYPE_I32 && tokens.rank == 2, "tokens: type ", type_name(tokens.type), ", shape ",
            shape_text(tokens), ", expected I32 [B,L]");
    return tokens;
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

vkattn_tensor checked_elements(const vkattn_tensor &given, const char *name, const vkattn_tensor &like) {
    require(present(given), name, ": absent, expected a contiguous tensor");
    const vkattn_tensor tensor = normalised(given, name);
    require_float(tensor, name);
    if (present(like)) require_shape(tensor, name, like);
    require(is_contiguous(tensor), name, ": strides are not those of a contiguous tensor, expected them to be");
    uint64_t elements = 1;
    for (uint32_t dim = 0; dim < tensor.rank; ++dim) elements *= tensor.shape[dim];
    vkattn_tensor flat = contiguous(tensor.type, {elements});
    flat.offset = tensor.offset;
    return flat;
}

namespace {

// Of the type, of the row's dims. Sizes that were not known are those of what is given.
vkattn_tensor expected_of(const TensorRow &row, vkattn_type type, const vkattn_tensor &given, Sizes &sizes) {
    vkattn_tensor expected{};
    expected.type = type;
    for (const char letter : std::string_view(row.dims)) {
        uint64_t &size = sizes[letter];
        if (size == kAnySize) size = given.shape[expected.rank];
        expected.shape[expected.rank++] = size;
    }
    return expected;
}

vkattn_tensor checked_tokens_by(const TensorRow &row, const vkattn_tensor &given, Sizes &sizes) {
    uint64_t &batch = sizes[row.dims[0]], &len = sizes[row.dims[1]], &width = sizes[row.dims[2]];
    if (width == kAnySize) width = checked_rank(given, row.name, 3).shape[2];
    const vkattn_tensor tokens = checked_tokens(given, row.name, batch, len, width);
    batch = tokens.shape[0];
    len = tokens.shape[1];
    return tokens;
}

vkattn_tensor checked_rows_by(const TensorRow &row, const vkattn_tensor &given, Sizes &sizes) {
    const vkattn_tensor rows = checked_rank(given, row.name, 4);
    require_float(rows, row.name);
    require_shape(rows, row.name, expected_of(row, rows.type, rows, sizes));
    return rows;
}

vkattn_tensor checked_form(const TensorRow &row, const vkattn_tensor &given, Sizes &sizes) {
    const auto expected = [&](vkattn_type type) { return expected_of(row, type, given, sizes); };
    switch (row.form) {
    case TensorForm::kOwn:
        return given;
    case TensorForm::kOptionalTokens:
        if (!present(given)) return given;
        [[fallthrough]];
    case TensorForm::kTokens:
        return checked_tokens_by(row, given, sizes);
    case TensorForm::kVector:
        return checked_vector(given, row.name, sizes[row.dims[0]]);
    case TensorForm::kRows:
        return checked_rows_by(row, given, sizes);
    case TensorForm::kI32:
        return checked_optional(given, row.name, expected(VKATTN_TYPE_I32));
    case TensorForm::kF32:
        return checked_optional(given, row.name, expected(VKATTN_TYPE_F32));
    case TensorForm::kContiguousI32:
        return checked_contiguous(given, row.name, expected(VKATTN_TYPE_I32));
    case TensorForm::kContiguousF32:
        return checked_contiguous(given, row.name, expected(VKATTN_TYPE_F32));
    }
    return given;
}

} // namespace

vkattn_tensor checked_by(const TensorRow &row, const vkattn_tensor &given, Sizes &sizes) {
    const vkattn_tensor tensor = checked_form(row, given, sizes);
    if (row.form != TensorForm::kOwn && row.access == TensorAccess::kWritten && present(tensor))
        require_no_overlap(tensor, row.name);
    return tensor;
}

void set_token_grid(Step &step, const vkattn_tensor &tokens) {
    step.groups = {tiles(tokens.shape[1], 1), tiles(tokens.shape[0], 1), 1};
    step.flops = kFlopsOfElement * static_cast<double>(tokens.shape[0] * tokens.shape[1] * tokens.shape[2]);
}

} // namespace vkattn
