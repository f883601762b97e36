// Chunks of all sequences, numbered one behind the other, and what one kernel leaves of each for the next: its factors.
//
// With the decays G summed from a chunk's beginning, token t of a chunk that begins with the state S gives (Yang et al., 2024)
//
//     u_t = W_t - K_t S            K, W: what solves (I + diag(beta) A) X = diag(beta) (k e^G | v),  A_ts = sum_i k_ti k_si e^(G_ti - G_si), s < t
//     output_t = Q_t S + sum_s P_ts u_s    Q = scale q e^G,  P_ts = scale sum_i q_ti k_si e^(G_ti - G_si), s <= t
//     S' = e^(G_last) S + sum_s e^(G_last - G_s) k_s u_s
//
// With rule decay A is 0. Chunks go in stretches, so that the workspace does not grow with the tokens; the one sequence that two
// stretches share is carried in the workspace.
#ifndef LINEAR_ATTENTION_CHUNKS_GLSL
#define LINEAR_ATTENTION_CHUNKS_GLSL

#include "operators/linear_attention/parameters.glsl"
#include "operators/packed_chunks.glsl"

const uint CHUNK = LINEAR_ATTENTION_CHUNK;
const uint CHUNK_VECTORS = CHUNK / 4;
const uint CHANNEL_VECTORS = (HEAD_DIM + 31) / 32 * 8, COLUMN_FOURS = (V_HEAD_DIM + 3) / 4; // zeros beyond HEAD_DIM
const uint CHANNELS = 4 * CHANNEL_VECTORS, ALL_COLUMNS = 4 * COLUMN_FOURS;

// Factors of a chunk and a value head, in fours: rows (K_t, K_t+1, Q_t, Q_t+1) of each channel and pair of tokens; k_s e^(G_last - G_s) of each
// token; W of each token; P; e^(G_last)
const uint PAIRS_BEGIN = 0;
const uint KEYS_BEGIN = PAIRS_BEGIN + CHANNELS * CHUNK / 2;
const uint VALUES_BEGIN = KEYS_BEGIN + CHUNK * CHANNEL_VECTORS;
const uint WEIGHTS_BEGIN = VALUES_BEGIN + CHUNK * COLUMN_FOURS;
const uint DECAYS_BEGIN = WEIGHTS_BEGIN + CHUNK * CHUNK_VECTORS;
const uint FACTORS = DECAYS_BEGIN + CHANNEL_VECTORS;

uint factors_begin(uint chunk, uint head) {
    return base_bytes(BINDING_LINEAR_ATTENTION_FACTORS) / 16 +
           ((chunk - push.first_chunk) * push.heads + head) * FACTORS;
}

uint chunks_of(uint tokens) { return (tokens + CHUNK - 1) / CHUNK; }

// The number of a sequence's first chunk. A sequence without tokens has one of nothing.
uint first_chunk_of(uint sequence) {
    if (HAS_CU_SEQLENS != 0) return first_packed_chunk(sequence, parameters.total, CHUNK);
    return sequence * max(chunks_of(parameters.len), 1);
}

uint sequence_of_chunk(uint chunk) {
    if (HAS_CU_SEQLENS != 0) return sequence_of_packed_chunk(chunk, parameters.sequences, parameters.total, CHUNK);
    return min(chunk / max(chunks_of(parameters.len), 1), parameters.sequences - 1);
}

#endif
