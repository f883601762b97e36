// The matrices of common/matrices.glsl, dealt out to SUBGROUP_SIZE invocations, 16 or more, two neighbours of a row at a time,
// so that no two write to one word of shared memory. A and B hold two elements of 16 bits a word. Each kind is an array of
// a type of its own, by which functions tell them apart; what an invocation does not need of it is not used.
#ifndef EMULATED_MATRICES_GLSL
#define EMULATED_MATRICES_GLSL

#define MATRIX_A uint[8]
#define MATRIX_B int[8]
#define SUMS float[16]
#define ROUNDED_SUMS uint[16]
#define ZEROS SUMS(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#define ONES_OF_B MATRIX_B(ONES, ONES, ONES, ONES, ONES, ONES, ONES, ONES)
#define ROUND_MATRIX(rounded, matrix) FOR_ELEMENTS(element_, matrix) rounded[element_] = rounded_bits(matrix[element_])
#define FOR_ELEMENTS(i, matrix) for (uint i = 0; i < count_of(matrix); ++i)
#define ADD_TO_MATRIX(matrix, other) FOR_ELEMENTS(element_, matrix) matrix[element_] += other[element_]
#define SUBTRACT_FROM_MATRIX(matrix, other) FOR_ELEMENTS(element_, matrix) matrix[element_] -= other[element_]
#define MULTIPLY_MATRIX(matrix, other) FOR_ELEMENTS(element_, matrix) matrix[element_] *= other[element_]
const int ONES = int(ONE_BITS * 0x10001u);
const int ROWS_IN_MEMORY = 0;
const int COLUMNS_IN_MEMORY = 1;

const uint WORDS_OF_A = MATRIX_M * MATRIX_K / 2;
const uint WORDS_OF_B = MATRIX_K * MATRIX_N / 2;
shared uint factors[WORKGROUP_SIZE / SUBGROUP_SIZE * (WORDS_OF_A + WORDS_OF_B)]; // of each subgroup's product

// Elements of this invocation.
uint count_of(MATRIX_A matrix) { return MATRIX_M * MATRIX_K / SUBGROUP_SIZE; }
uint count_of(MATRIX_B matrix) { return MATRIX_K * MATRIX_N / SUBGROUP_SIZE; }
uint count_of(SUMS matrix) { return MATRIX_M * MATRIX_N / SUBGROUP_SIZE; }
uint count_of(ROUNDED_SUMS matrix) { return MATRIX_M * MATRIX_N / SUBGROUP_SIZE; }

uint columns_of(MATRIX_A matrix) { return MATRIX_K; }
uint columns_of(MATRIX_B matrix) { return MATRIX_N; }
uint columns_of(SUMS matrix) { return MATRIX_N; }
uint columns_of(ROUNDED_SUMS matrix) { return MATRIX_N; }

// Element i of this invocation, counted row after row.
uint place_of(uint i) { return (i / 2 * SUBGROUP_SIZE + subgroup_lane()) * 2 + i % 2; }

// Elements that a unit of memory holds, as which a matrix lies there.
uint elements_of(MATRIX_A matrix, uvec4 unit) { return 8; }
uint elements_of(MATRIX_B matrix, uvec4 unit) { return 8; }
uint elements_of(ROUNDED_SUMS matrix, uvec4 unit) { return 8; }
uint elements_of(SUMS matrix, uvec4 unit) { return 4; }
uint elements_of(SUMS matrix, vec4 unit) { return 4; }

// Where in memory an element lies, in elements. pitch: units from a row to the next, or from a column.
uint offset_of(uint place, uint columns, uint pitch, uint elements, int layout_) {
    uint row = place / columns, column = place % columns;
    return layout_ == ROWS_IN_MEMORY ? row * pitch * elements + column : column * pitch * elements + row;
}

uint half_of(uvec4 unit, uint at) { return unit[at / 2] >> (at % 2 * 16) & 0xffffu; }
uint with_half(uint word, uint i, uint bits) {
    return i % 2 == 0 ? (word & 0xffff0000u) | bits : (word & 0xffffu) | (bits << 16);
}
void take(inout MATRIX_A matrix, uint i, uvec4 unit, uint at) {
    matrix[i / 2] = with_half(matrix[i / 2], i, half_of(unit, at));
}
void take(inout MATRIX_B matrix, uint i, uvec4 unit, uint at) {
    matrix[i / 2] = int(with_half(uint(matrix[i / 2]), i, half_of(unit, at)));
}
void take(inout SUMS matrix, uint i, uvec4 unit, uint at) { matrix[i] = uintBitsToFloat(unit[at]); }
void take(inout SUMS matrix, uint i, vec4 unit, uint at) { matrix[i] = unit[at]; }

// As the poorest device: below f16's smallest normal number, 2^-14, there is 0.
uint rounded_bits(float number) {
    uint bits = pack_elements(vec2(number, 0.0)) & 0xffffu;
    return (bits & EXPONENT_BITS) == 0 ? bits & 0x8000u : bits;
}

#define coopMatLoad(matrix, memory, at, pitch, layout_)                                                                \
    FOR_ELEMENTS(element_, matrix) {                                                                                   \
        uint elements_ = elements_of(matrix, memory[0]);                                                               \
        uint offset_ = offset_of(place_of(element_), columns_of(matrix), pitch, elements_, layout_);                   \
        take(matrix, element_, memory[(at) + offset_ / elements_], offset_ % elements_);                               \
    }

// Elements that make a word of memory, and the word from element i on.
uint elements_of_word(SUMS matrix) { return 1; }
uint elements_of_word(ROUNDED_SUMS matrix) { return 2; }
uint word_of(SUMS matrix, uint i) { return floatBitsToUint(matrix[i]); }
uint word_of(ROUNDED_SUMS matrix, uint i) { return matrix[i] | (matrix[i + 1] << 16); }

// Rounded sums: by rows alone.
#define coopMatStore(matrix, memory, at, pitch, layout_)                                                               \
    for (uint element_ = 0; element_ < count_of(matrix); element_ += elements_of_word(matrix)) {                       \
        uint elements_ = elements_of(matrix, memory[0]);                                                               \
        uint offset_ = offset_of(place_of(element_), columns_of(matrix), pitch, elements_, layout_);                   \
        uint word_ = offset_ % elements_ / elements_of_word(matrix);                                                   \
        memory[(at) + offset_ / elements_][word_] = word_of(matrix, element_);                                         \
    }

// Element i of A, or of B behind it.
float factor(uint i) {
    uint bits = factors[subgroup_index() * (WORDS_OF_A + WORDS_OF_B) + i / 2] >> (i % 2 * 16);
#ifdef BFLOAT16
    return uintBitsToFloat(bits << 16);
#else
    return unpackHalf2x16(bits & 0xffffu).x;
#endif
}

SUMS coopMatMulAdd(MATRIX_A a, MATRIX_B b, SUMS sums) {
    barrier(); // the last product's readers are done
    uint first = subgroup_index() * (WORDS_OF_A + WORDS_OF_B);
    for (uint i = 0; i < count_of(a); i += 2) factors[first + place_of(i) / 2] = a[i / 2];
    for (uint i = 0; i < count_of(b); i += 2) factors[first + WORDS_OF_A + place_of(i) / 2] = uint(b[i / 2]);
    barrier();
    FOR_ELEMENTS(i, sums) {
        uint row = place_of(i) / MATRIX_N, column = place_of(i) % MATRIX_N;
        for (uint k = 0; k < MATRIX_K; ++k)
            sums[i] = fma(factor(row * MATRIX_K + k), factor(2 * WORDS_OF_A + k * MATRIX_N + column), sums[i]);
    }
    return sums;
}

#endif
