// Dropout of weights: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), counted by
// batch entry, query head, query and key, so that every kernel drops the same weights.
#ifndef DROPOUT_GLSL
#define DROPOUT_GLSL

#include "attention/keys.glsl"

uvec4 philox_round(uvec4 counter, uvec2 key) {
    uint high0, low0, high2, low2;
    umulExtended(0xd2511f53u, counter.x, high0, low0);
    umulExtended(0xcd9e8d57u, counter.z, high2, low2);
    return uvec4(high2 ^ counter.y ^ key.x, low2, high0 ^ counter.w ^ key.y, low0);
}

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint i = 0; i < 10; ++i) counter = philox_round(counter, key + i * uvec2(0x9e3779b9u, 0xbb67ae85u));
    return counter;
}

// What the weight is multiplied with: 0, or 1 / (1 - probability). Four neighbouring keys share a counter.
float dropout_factor(Row row, Key key) {
    if (!has(FEATURE_DROPOUT)) return 1.0;
    uvec4 counter = uvec4(key.number / 4, row.position, parameters.first_query_head + row.query_head,
                          parameters.first_batch + row.batch);
    uint word = philox(counter, uvec2(parameters.dropout_seed_low, parameters.dropout_seed_high))[key.number % 4];
    return word < parameters.dropout_threshold ? 0.0 : parameters.dropout_scale;
}

#endif
