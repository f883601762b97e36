// Where a sequence of packed rows begins, how long it is, and where the rows of paged K and V lie. What stands in
// device buffers is not trusted: whatever it says, rows stay inside the tensors. After lib/attention_bindings.glsl.

// A sequence's rows of packed ones: begin and length.
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

uvec2 packed_keys(uint batch) {
    uint element = base_bytes(BINDING_CU_SEQLENS_K) / 4 + batch;
    uvec2 rows = packed_rows(cu_seqlens_k[element], cu_seqlens_k[element + 1], parameters.kv_total);
    return uvec2(rows.x, min(rows.y, parameters.kv_len));
}

uint query_length(uint batch) { return has(FEATURE_CU_SEQLENS_Q) ? packed_queries(batch).y : parameters.q_len; }

// Rows of memory. What is asked for behind the end of packed rows is the last of them.
uint query_row(uint batch, uint position) {
    return has(FEATURE_CU_SEQLENS_Q) ? min(packed_queries(batch).x + position, parameters.q_total - 1) : position;
}

// Where the block table says that a key's page lies.
int page_of_key(uint batch, uint key) {
    uint entry = batch * parameters.table_pages + min(key / max(PAGE_SIZE, 1), parameters.table_pages - 1);
    return block_table[base_bytes(BINDING_BLOCK_TABLE) / 4 + entry];
}

// (outermost index, row) of K and V: a batch entry, or a page. Of a key that does not exist, some row of the pool.
uvec2 key_row(uint batch, uint key) {
    if (has(FEATURE_CU_SEQLENS_K)) return uvec2(0, min(packed_keys(batch).x + key, parameters.kv_total - 1));
    if (PAGE_SIZE == 0) return uvec2(batch, key);
    return uvec2(clamp(page_of_key(batch, key), 0, int(parameters.pool_pages) - 1), key % max(PAGE_SIZE, 1));
}

// A page outside the pool has no keys.
bool key_exists(uint batch, uint key) {
    return PAGE_SIZE == 0 || uint(page_of_key(batch, key)) < parameters.pool_pages;
}

// Of keys first .. end - 1, all of them.
bool keys_exist(uint batch, uint first, uint end) {
    if (PAGE_SIZE == 0) return true;
    bool exist = true;
    for (uint key = first; key < end; key = (key / max(PAGE_SIZE, 1) + 1) * PAGE_SIZE)
        exist = exist && key_exists(batch, key);
    return exist;
}
