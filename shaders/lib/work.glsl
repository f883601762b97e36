// Which query row, and which rows of memory it reads. The only file that knows how query heads map to KV heads.
// After lib/attention_bindings.glsl and lib/sequence.glsl.

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

// Index of a row in log_sum_exp: the same, or in contiguous [Hq, total] of packed queries.
uint log_sum_exp_index(Row row) {
    if (!has(FEATURE_CU_SEQLENS_Q)) return row_index(row);
    return row.query_head * parameters.q_total + query_row(row.batch, row.position);
}

uint query_element(Row row) {
    return row.batch * parameters.query_strides[0] + row.query_head * parameters.query_strides[1] +
           query_row(row.batch, row.position) * parameters.query_strides[2];
}

uint key_element(Row row, uint key) {
    uvec2 place = key_row(row.batch, key);
    return place.x * parameters.key_strides[0] + row.kv_head * parameters.key_strides[1] +
           place.y * parameters.key_strides[2];
}

uint value_element(Row row, uint key) {
    uvec2 place = key_row(row.batch, key);
    return place.x * parameters.value_strides[0] + row.kv_head * parameters.value_strides[1] +
           place.y * parameters.value_strides[2];
}

uint output_element(Row row) {
    return row.batch * parameters.output_strides[0] + row.query_head * parameters.output_strides[1] +
           query_row(row.batch, row.position) * parameters.output_strides[2];
}

// Tiles from both ends in turn: under a causal mask neighbouring workgroups then have equal work.
uint from_both_ends(uint index, uint tiles) { return index % 2 == 0 ? tiles - 1 - index / 2 : index / 2; }
