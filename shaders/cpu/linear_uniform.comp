// The linear of linear_vector.comp for CPU drivers, of few rows and quantised weights. A subgroup owns ROWS rows and
// LINEAR_UNIFORM_OUTPUTS neighbouring output features, and its invocations lie along the input features, four each. So the
// addresses of weights are the same for all of them: a CPU driver makes of each load one scalar, where addresses that differ
// cost a gather.
//
// grid: (output tiles, row tiles, groups); a workgroup is a subgroup of at most QUANTISED_BLOCK / 4 invocations. BLOCKS times
// four features of each invocation are one or two blocks of QUANTISED_BLOCK. Input and weight as in linear_addresses.comp. No
// shared memory or barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 7) in; // WORKGROUP_SIZE

#include "cpu/address_loads.glsl"
#include "layers/linear_tensors.glsl"

const uint OUTPUTS = LINEAR_UNIFORM_OUTPUTS;
const uint LANES = SUBGROUP_SIZE;
const uint MOST_LANES = QUANTISED_BLOCK / 4;
const uint STEP = 4 * LANES; // features that the subgroup takes at a time

// The invocation's number in its subgroup, which is the workgroup. By gl_SubgroupInvocationID, whose values llvmpipe knows,
// q6_K takes 1.8 times as long (Mesa 26).
#define LANE gl_LocalInvocationID.x

// A block at an address that all invocations share: each has the four numbers of its own lane.
struct UniformBlock {
    AddressedBlock block;
};

float read_half(UniformBlock block, uint at) { return read_half(block.block, at); }
uint read_word(UniformBlock block, uint at) { return read_word(block.block, at); }

// Selects, not branches, since code after a branch has its registers in memory. Where the bytes do not begin at a word, the
// neighbour has the upper half; the last lane's is loaded, if there is one.
uint read_bytes(UniformBlock block, uint begin, uint at, const uint size) {
    const uint words = min(size / 4, LANES);
    at += begin + block.block.begin;
    Words source = Words(block.block.address);
    uint place = LANE % words, low = source.values[at / 4];
    [[unroll]] for (uint i = 1; i < MOST_LANES; ++i) if (i < words) {
        uint word = source.values[at / 4 + i];
        low = place == i ? word : low;
    }
    uint last = source.values[at / 4 + words - 1 + (at & 2) / 2];
    uint high = subgroupShuffle(low, (LANE + 1) % LANES);
    if (place == words - 1) high = last;
    return (at & 2) != 0 ? low >> 16 | high << 16 : low;
}

#define BLOCK UniformBlock
#define BYTES uint
#define NUMBERS vec4
#define OWN_ELEMENT(i) ((i) + 4 * LANE)
#define SELECTS
#include "formats/blocks.glsl"

uvec2 rows[ROWS], weights[OUTPUTS]; // addresses: an invocation's first features; the first block
float sums[ROWS * OUTPUTS];
vec4 x[ROWS]; // of a step
float x_sums[ROWS];

// Those behind the last repeat it, and are not stored.
void find_rows(uint first_row, uint first_output) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) rows[r] =
        advance_address(uvec2(push.input_address[0], push.input_address[1]),
                        input_element(min(first_row + r, push.rows - 1), 4 * LANE), bytes_of_block(INPUT_FORMAT));
    [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) weights[i] = advance_address(
        uvec2(push.weight_address[0], push.weight_address[1]),
        weight_element(min(first_output + i, push.out_features - 1), 0) / elements_of_block(WEIGHT_FORMAT),
        bytes_of_block(WEIGHT_FORMAT));
}

// Of `feature` + `further`, the latter known to the compiler. Several turns of the loop take a super-block.
UniformBlock find_block(uvec2 weight, uint feature, const uint further) {
    const uint elements = elements_of_block(WEIGHT_FORMAT), bytes = bytes_of_block(WEIGHT_FORMAT);
    const bool is_super = is_super_block(WEIGHT_FORMAT);
    uvec2 address = advance_address(weight, (is_super ? feature + further : feature) / elements, bytes);
    uint begin = ALIGNED != 0 ? 0 : address.x & 2;
    address.x -= begin;
    return UniformBlock(AddressedBlock(address, is_super ? begin : begin + further / elements * bytes));
}

// Of few rows a sum of numbers is scaled; of more each number is, once for all of them.
void add_products(const uint o, vec4 numbers, vec2 affine) {
    const bool scales_sums = ROWS < 4;
    if (!scales_sums) numbers = apply_affine(WEIGHT_FORMAT, affine, numbers);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float sum = scales_sums ? 0.0 : sums[r * OUTPUTS + o];
        [[unroll]] for (uint c = 0; c < 4; ++c) sum = fma(x[r][c], numbers[c], sum);
        if (scales_sums) {
            sum = fma(affine.x, sum, sums[r * OUTPUTS + o]);
            if (has_minimum(WEIGHT_FORMAT)) sum = fma(affine.y, x_sums[r], sum);
        }
        sums[r * OUTPUTS + o] = sum;
    }
}

void add_step(uint feature, const uint further) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        x[r] =
            load_own_block(INPUT_FORMAT, advance_address(rows[r], feature + further, bytes_of_block(INPUT_FORMAT)), 0);
        x_sums[r] = x[r].x + x[r].y + x[r].z + x[r].w;
    }
    uint element = (is_super_block(WEIGHT_FORMAT) ? feature + further : further) % elements_of_block(WEIGHT_FORMAT);
    [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) {
        UniformBlock block = find_block(weights[i], feature, further);
        vec4 numbers = numbers_of(WEIGHT_FORMAT, block, element);
        add_products(i, numbers, affine_of(WEIGHT_FORMAT, block, element));
    }
}

// The sum over all lanes of LANES sums: each lane gets the one of its number. Halves of the lanes give each other half of what
// they have, until one is left.
float sum_of_lanes(float parts[MOST_LANES]) {
    [[unroll]] for (uint other = MOST_LANES / 2; other > 0; other /= 2) if (other < LANES) {
        bool upper = (LANE & other) != 0;
        [[unroll]] for (uint i = 0; i < MOST_LANES / 2; ++i) if (i < other) {
            float given = upper ? parts[i] : parts[i + other];
            parts[i] = (upper ? parts[i + other] : parts[i]) + subgroupShuffleXor(given, other);
        }
    }
    return parts[0];
}

void main() {
    uint first_output = workgroup().x * OUTPUTS, first_row = workgroup().y * ROWS;
    find_rows(first_row, first_output);
    [[unroll]] for (uint i = 0; i < ROWS * OUTPUTS; ++i) sums[i] = 0.0;
    uint feature = 0;
    do { // see addresses.comp
        [[unroll]] for (uint b = 0; b < BLOCKS; ++b) add_step(feature, b * STEP);
        feature += BLOCKS * STEP;
    } while (feature < push.in_features);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint o = 0; o < OUTPUTS; o += 2 * LANES) {
        float even[MOST_LANES], odd[MOST_LANES];
        [[unroll]] for (uint i = 0; i < MOST_LANES; ++i) {
            even[i] = i < LANES ? sums[r * OUTPUTS + o + 2 * i] : 0.0;
            odd[i] = i < LANES ? sums[r * OUTPUTS + o + 2 * i + 1] : 0.0;
        }
        vec2 pair = vec2(sum_of_lanes(even), sum_of_lanes(odd));
        store_pair(first_row + r, first_output + o + 2 * LANE, pair);
    }
}
