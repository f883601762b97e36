#include "runtime/problem/sequences.hpp"

#include "runtime/support/error.hpp"

#include <bit>

namespace vkattn {
namespace {

constexpr uint64_t kSmallestPage = 8;

} // namespace

vkattn_tensor checked_cu_seqlens(const vkattn_tensor &given, const char *cu_seqlens, const vkattn_tensor &rows,
                                 const char *name) {
    const vkattn_tensor tensor = normalised(given, cu_seqlens);
    if (!present(tensor)) return tensor;
    const bool fits = tensor.type == VKATTN_TYPE_I32 && tensor.rank == 1 && tensor.shape[0] >= 1;
    require(fits && is_contiguous(tensor), cu_seqlens, ": type ", type_name(tensor.type), ", shape ",
            shape_text(tensor), ", expected contiguous I32 [B+1]");
    require(rows.shape[0] == 1, name, ": shape ", shape_text(rows), ", expected [1,heads,total,size] with ",
            cu_seqlens);
    return tensor;
}

uint32_t sequences_of(const vkattn_tensor &cu_seqlens) { return static_cast<uint32_t>(cu_seqlens.shape[0] - 1); }

bool is_page(uint64_t positions) {
    return positions >= kSmallestPage && positions <= kLargestSize && std::has_single_bit(positions);
}

uint32_t longest_sequence(uint32_t given, const char *max_seqlen, const vkattn_tensor &rows) {
    require(given <= rows.shape[2], max_seqlen, ": ", given, ", expected at most the packed rows, ", rows.shape[2]);
    return given != 0 ? given : static_cast<uint32_t>(rows.shape[2]);
}

vkattn_tensor checked_block_table(const vkattn_tensor &given, uint64_t sequences, const vkattn_tensor &rows,
                                  const char *name) {
    const vkattn_tensor table = normalised(given, "block_table");
    if (!present(table)) return table;
    const bool fits = table.type == VKATTN_TYPE_I32 && table.rank == 2 && table.shape[0] == sequences;
    require(fits && is_contiguous(table), "block_table: type ", type_name(table.type), ", shape ", shape_text(table),
            ", expected contiguous I32 [", sequences, ", pages of a sequence]");
    const uint64_t page = rows.shape[2];
    require(is_page(page), name, ": shape ", shape_text(rows), ", pages of ", page,
            " positions, expected a power of two, at least ", kSmallestPage);
    require(table.shape[1] * page <= kLargestSize, "block_table: ", table.shape[1] * page,
            " positions a sequence, expected at most 2^29");
    return table;
}

uint32_t positions_of(const vkattn_tensor &block_table, const vkattn_tensor &rows) {
    return static_cast<uint32_t>(block_table.shape[1] * rows.shape[2]);
}

} // namespace vkattn
