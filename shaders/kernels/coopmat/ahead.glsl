// A tile's V is on its way while its keys are scored, and the next tile's K while its values are summed. Part of coopmat.comp, for
// K and V of the query's type that each pass whole, are loaded sixteen bytes at a time and lie beside each other.
//
// Some compilers keep every matrix in memory across calls of functions: where the driver specialises modules, this one is slow there.

const uint NEXT_KEY_TURNS = (KEY_ITEMS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
uvec4 next_keys[NEXT_KEY_TURNS];
TwoKeys next_values[VALUE_TURNS];

// Of the last turn, perhaps not all invocations have an item.
bool has_key_item(uint turn) {
    return (turn + 1) * WORKGROUP_SIZE <= KEY_ITEMS || turn * WORKGROUP_SIZE + invocation() < KEY_ITEMS;
}

void load_next_keys(KeyTile tile) {
    [[unroll]] for (uint turn = 0; turn < NEXT_KEY_TURNS; ++turn) if (has_key_item(turn)) {
        KeyItem item = key_item_of_turn(turn);
        next_keys[turn] = load_key_whole(row_of_tile(rows, 0), slot_of_item(tile, item), dim_of_item(0, item));
    }
}

void store_next_keys() {
    [[unroll]] for (uint turn = 0; turn < NEXT_KEY_TURNS; ++turn) if (has_key_item(turn))
        store_key_item(key_item_of_turn(turn), next_keys[turn]);
}

void load_next_values(KeyTile tile, ValueStaging staging) {
    [[unroll]] for (uint turn = 0; turn < VALUE_TURNS; ++turn) if (has_value_item(turn)) next_values[turn] =
        load_whole_item(tile, staging, value_item_of_turn(turn));
}

void store_next_values(KeyTile tile, ValueStaging staging) {
    if (!tile.all_visible) [[unroll]]
        for (uint turn = 0; turn < VALUE_TURNS; ++turn)
            if (has_value_item(turn))
                next_values[turn] = restrict_item(tile, staging, value_item_of_turn(turn), next_values[turn]);
    [[unroll]] for (uint turn = 0; turn < VALUE_TURNS; ++turn) if (has_value_item(turn))
        store_value_item(value_item_of_turn(turn), next_values[turn]);
}

void attend_tiles_ahead(KeyWalk walk) {
    bool more = next_tile(walk, KEYS_OF_TILE);
    KeyTile next = tile_of_walk(walk, KEYS_OF_TILE);
    if (more) load_next_keys(next);
    uint number = 1; // of stagings of values, so far, and one
    for (; more; ++number) {
        hidden_zero = number >> 31;
        KeyTile tile = next;
        ValueStaging staging = ValueStaging(0, VALUES_ALL, number);
        barrier(); // the tiles' last readers are done
        store_next_keys();
        load_next_values(tile, staging);
        barrier();
        FOR_MATRICES(t, ROW_MATRICES * KEY_TILES) scores_of_tile[t] = ZEROS;
        score_chunk(0);
        pass_tile(walk, KEYS_OF_TILE);
        more = next_tile(walk, KEYS_OF_TILE);
        if (more) {
            next = tile_of_walk(walk, KEYS_OF_TILE);
            load_next_keys(next);
        }
        apply_softmax(tile, number);
        store_next_values(tile, staging);
        barrier();
        if (HIDES_KEYS == 0 || tile.all_visible || last_special != number)
            sum_chunk(0);
        else
            sum_parts(tile, staging);
    }
    hidden_zero = number >> 31;
}
