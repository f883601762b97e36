// Which query row, and which rows of memory it reads. The only file that knows how query heads map to KV heads.
// After lib/attention_bindings.glsl.

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

// Index of a row in contiguous [B, Hq, Lq].
uint row_index(Row row) {
    return (row.batch * parameters.kv_heads * GROUP + row.query_head) * parameters.q_len + row.position;
}

uint query_element(Row row) {
    return row.batch * parameters.query_strides[0] + row.query_head * parameters.query_strides[1] +
           row.position * parameters.query_strides[2];
}

uint key_element(Row row, uint key) {
    return row.batch * parameters.key_strides[0] + row.kv_head * parameters.key_strides[1] +
           key * parameters.key_strides[2];
}

uint value_element(Row row, uint key) {
    return row.batch * parameters.value_strides[0] + row.kv_head * parameters.value_strides[1] +
           key * parameters.value_strides[2];
}

uint output_element(Row row) {
    return row.batch * parameters.output_strides[0] + row.query_head * parameters.output_strides[1] +
           row.position * parameters.output_strides[2];
}
