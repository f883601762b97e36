// Query rows: which query heads share a KV head, where packed queries begin, and the tile of rows of a workgroup. The
// only file that knows how query heads map to KV heads. Device buffers are not trusted: whatever they say, rows stay
// inside the tensors.
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "attention/parameters.glsl"

layout(set = 0, binding = BINDING_CU_SEQLENS_Q, std430) readonly buffer CuSeqlensQBuffer { int cu_seqlens_q[]; };

// A sequence's rows among packed ones: begin and length.
uvec2 packed_rows(int begin, int end, uint total) {
    uint first = uint(clamp(begin, 0, int(total)));
    return uvec2(first, uint(clamp(end, int(first), int(total))) - first);
}

// A sequence that another dispatch attends has none.
uvec2 packed_queries(uint batch) {
    uint element = base_bytes(BINDING_CU_SEQLENS_Q) / 4 + batch;
    uvec2 rows = packed_rows(cu_seqlens_q[element], cu_seqlens_q[element + 1], parameters.q_total);
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

// Neighbouring rows of a KV head: rows first .. end - 1.
struct RowTile {
    uint batch;
    uint kv_head;
    uint first;
    uint end;
};

// Rows of a position go through the same keys: no tile has rows of two.
RowTile row_tile_of_list(uint index, const uint size) {
    const uint tiles = (GROUP + size - 1) / size;
    uint position = index / tiles, first = index % tiles * size;
    uint end = position < query_length(workgroup().z) ? min(first + size, GROUP) : first;
    return RowTile(workgroup().z, workgroup().y, position * GROUP + first, position * GROUP + end);
}

// The workgroup's tile `index` of `size` rows. Empty past the end of a sequence that is shorter than the longest. The
// causal line leaves the last rows the most keys: they come first, so that the longest work does not start last.
RowTile row_tile(uint index, const uint size) {
    if (LISTS_KEYS) return row_tile_of_list(index, size);
    uint end = rows_of_kv_head(workgroup().z), tiles = (end + size - 1) / size;
    if (has(FEATURE_CAUSAL) && index < tiles) index = tiles - 1 - index;
    uint first = index * size;
    return RowTile(workgroup().z, workgroup().y, first, min(first + size, end));
}

// The same of a grid whose neighbouring workgroups take the same rows of all KV heads, where the causal line makes rows differ in
// length: workgroups that run at the same time then share the long rows and the short ones evenly.
RowTile row_tile_of_grid(uint index, const uint size) {
    uint kv_head = workgroup().y;
    if (has(FEATURE_CAUSAL) && !LISTS_KEYS) {
        uint number = index + (GROUP * parameters.q_len + size - 1) / size * kv_head;
        index = number / parameters.kv_heads;
        kv_head = number % parameters.kv_heads;
    }
    RowTile tile = row_tile(index, size);
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
