// A variant with every function that there is, each with a captured tensor: what the lab's compilers see of them.
float score_mod(float score, uint batch, uint head, uint query, uint key) {
    return score - captured_f32(0, head) * float(query - key); // ALiBi's slopes
}

bool mask_mod(uint batch, uint head, uint query, uint key) {
    return key <= query && captured_i32(1, key) == captured_i32(1, query); // documents, causal
}

float lse_mod(float lse, uint batch, uint head, uint query) {
    return max(lse, captured_f32(2, head)); // a sink's logit
}

float output_mod(float value, uint batch, uint head, uint query, uint element) {
    return value * captured_f32(3, head); // gates
}
