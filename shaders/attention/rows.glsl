// Query rows: which query heads share a KV head, where packed queries begin, and the tile of rows of a workgroup. The
// only file that knows how query heads map to KV heads. Device buffers are not trusted: whatever they say, rows stay
// inside the tensors.
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "attention/parameters.glsl"

layout(set = 0, binding = BINDING_CU_SEQLENS_Q, std430) readonly buffer CuSeqlensQBuffer { int cu_seqlens_q[]; };

int cu_seqlen_q(uint batch) { return cu_seqlens_q[base_bytes(BINDING_CU_SEQLENS_Q) / 4 + batch]; }

// A sequence's rows among packed ones: begin and length.
uvec2 packed_rows(int begin, int end, uint total) {
    uint first = uint(clamp(begin, 0, int(total)));
    return uvec2(first, uint(clamp(end, int(first), int(total))) - first);
}

// Where a sequence of packed queries begins.
uint packed_begin(uint batch) { return uint(clamp(cu_seqlen_q(batch), 0, int(parameters.q_total))); }

// A sequence that another dispatch attends has none.
uvec2 packed_queries(uint batch) {
    uvec2 rows = packed_rows(cu_seqlen_q(batch), cu_seqlen_q(batch + 1), parameters.q_total);
    bool attended = rows.y >= parameters.fewest_queries && rows.y <= parameters.most_queries;
    return uvec2(rows.x, attended ? min(rows.y, parameters.q_len) : 0);
}

uint query_length(uint batch) { return has(FEATURE_CU_SEQLENS_Q) ? packed_queries(batch).y : parameters.q_len; }

// The row of memory of a query position. Past the end of packed rows it is the last of them.
uint query_row(uint batch, uint position) {
    return has(FEATURE_CU_SEQLENS_Q) ? min(packed_queries(batch).x + position, parameters.q_total - 1) : position;
}

struct Row {
    uint batch;
    uint query_head;
    uint kv_head;
    uint position; // query position, 0 .. q_len - 1
};

// Row `index` of a KV head's rows: the query heads of its group are neighbours, so that they share each read of K and V
// and a tile of rows spans few positions.
Row row_of_group(uint batch, uint kv_head, uint index) {
    uint member = index % GROUP;
    uint query_head =
        KV_HEAD_MAPPING == KV_HEADS_GROUPED ? kv_head * GROUP + member : member * parameters.kv_heads + kv_head;
    return Row(batch, query_head, kv_head, index / GROUP);
}

Row row_of_head(uint batch, uint query_head, uint position) {
    uint kv_head = KV_HEAD_MAPPING == KV_HEADS_GROUPED ? query_head / GROUP : query_head % parameters.kv_heads;
    return Row(batch, query_head, kv_head, position);
}

// Rows of a KV head in a sequence: those of all the query heads of its group.
uint rows_of_kv_head(uint batch) { return GROUP * query_length(batch); }

// Index of a row in contiguous [B, Hq, Lq].
uint row_index(Row row) {
    return (row.batch * parameters.kv_heads * GROUP + row.query_head) * parameters.q_len + row.position;
}

// Index of a row in contiguous [B, Hq, Lq], or in [Hq, total] of packed queries.
uint log_sum_exp_index(Row row) {
    if (!has(FEATURE_CU_SEQLENS_Q)) return row_index(row);
    return row.query_head * parameters.q_total + query_row(row.batch, row.position);
}

// A tile of a sequence's rows, counted from its own first one.
struct SequenceTile {
    uint batch;
    uint index; // past the sequence's last tile there are no rows
};

// Packed sequences share the first axis of a grid. The tiles of sequence s begin at
//
//     min(floor(rows before s / size) + s, s * tiles of the longest sequence)
//
// That leaves each sequence the tiles it needs, whatever its length, and takes no more than `total` rows and one tile a
// sequence. rows_of_position: neighbouring rows of a query position.
uint first_packed_tile(uint batch, const uint rows_of_position, const uint size) {
    return rows_of_position * packed_begin(batch) / size + batch;
}

// The last sequence whose tiles begin at or before tile `number` of the grid. Where all are as long as the longest, it is
// found without a search.
SequenceTile packed_tile(uint number, const uint rows_of_position, const uint size) {
    uint longest = max((rows_of_position * parameters.q_len + size - 1) / size, 1);
    uint earliest = min(number / longest, parameters.sequences - 1), batch = earliest;
    for (uint end = min(number, parameters.sequences - 1) + 1; batch + 1 < end;) {
        uint middle = (batch + end) / 2;
        if (first_packed_tile(middle, rows_of_position, size) <= number)
            batch = middle;
        else
            end = middle;
    }
    uint first = first_packed_tile(batch, rows_of_position, size);
    if (batch == earliest) first = min(first, batch * longest);
    return SequenceTile(batch, min(number - first, longest)); // within 32 bits, whatever cu_seqlens_q says
}

// Each of n dispatches that share a grid takes every n-th tile: their work is about equal, wherever the long sequences lie.
uint tile_of_dispatches(uint number) {
    if (!has(FEATURE_CU_SEQLENS_Q)) return number;
    uint each = parameters.tiles_of_dispatch;
    return number % each * (parameters.row_tiles / each) + number / each;
}

SequenceTile sequence_tile(uint number, const uint rows_of_position, const uint size) {
    if (has(FEATURE_CU_SEQLENS_Q)) return packed_tile(number, rows_of_position, size);
    return SequenceTile(workgroup().z, number);
}

// Neighbouring rows of a KV head: rows first .. end - 1.
struct RowTile {
    uint batch;
    uint kv_head;
    uint first;
    uint end;
};

// Rows of a position go through the same keys: no tile has rows of two.
RowTile row_tile_of_list(uint number, const uint size) {
    const uint tiles = (GROUP + size - 1) / size;
    SequenceTile position = sequence_tile(number / tiles, 1, 1);
    uint first = number % tiles * size;
    uint end = position.index < query_length(position.batch) ? min(first + size, GROUP) : first;
    return RowTile(position.batch, workgroup().y, position.index * GROUP + first, position.index * GROUP + end);
}

// The grid's tile `number` of `size` rows. Empty past the end of a sequence that has fewer. The causal line leaves the last
// rows the most keys: they come first, so that the longest work does not start last.
RowTile row_tile(uint number, const uint size) {
    number = tile_of_dispatches(number);
    if (LISTS_KEYS) return row_tile_of_list(number, size);
    SequenceTile tile = sequence_tile(number, GROUP, size);
    uint end = rows_of_kv_head(tile.batch), tiles = (end + size - 1) / size;
    if (has(FEATURE_CAUSAL) && tile.index < tiles) tile.index = tiles - 1 - tile.index;
    uint first = tile.index * size;
    return RowTile(tile.batch, workgroup().y, first, min(first + size, end));
}

// The same of a grid whose neighbouring workgroups take the same rows of all KV heads, where the causal line makes rows differ in
// length: workgroups that run at the same time then share the long rows and the short ones evenly.
RowTile row_tile_of_grid(uint number, const uint size) {
    uint kv_head = workgroup().y;
    if (has(FEATURE_CAUSAL) && !LISTS_KEYS) {
        uint of_all_heads = number + parameters.row_tiles * kv_head;
        number = of_all_heads / parameters.kv_heads;
        kv_head = of_all_heads % parameters.kv_heads;
    }
    RowTile tile = row_tile(number, size);
    tile.kv_head = kv_head;
    return tile;
}

bool is_empty(RowTile tile) { return tile.first >= tile.end; }

uint last_row(RowTile tile) { return max(tile.end, 1) - 1; }

// Row `index` of the tile; past its end the last one.
Row row_of_tile(RowTile tile, uint index) {
    return row_of_group(tile.batch, tile.kv_head, min(tile.first + index, last_row(tile)));
}

#endif
