// The linear of linear.comp for CPU drivers and quantised weights. A subgroup owns ROWS rows and
// LINEAR_UNIFORM_OUTPUTS neighbouring output features, and its invocations lie along the input features, four each. So the
// addresses of weights are the same for all of them: a CPU driver makes of each load one scalar, where addresses that differ
// cost a gather. One output after the other, in the order of memory, which a CPU foresees.
//
// grid: (row tiles, output tiles, groups); a workgroup is a subgroup of at most QUANTISED_BLOCK / 4 invocations. BLOCKS times
// four features of each invocation are whole blocks of the weight's type. Input and weight as in linear_addresses.comp. With
// NORM_FORMAT the rows of the input are normalised, as in linear_vector.comp. No shared memory or barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 7) in; // WORKGROUP_SIZE

#include "cpu/address_loads.glsl"
#include "operators/linear_tensors.glsl"

#define TENSOR norm
#define TENSOR_BINDING BINDING_LINEAR_NORM
#include "common/tensor.glsl"

const uint OUTPUTS = LINEAR_UNIFORM_OUTPUTS;
const uint LANES = SUBGROUP_SIZE;
const uint MOST_LANES = QUANTISED_BLOCK / 4;
const uint OWN_OUTPUTS = OUTPUTS / LANES; // of an invocation, in the end

#define LANE gl_SubgroupInvocationID // whose values llvmpipe knows

layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer Halves {
    uint16_t values[BLOCKS_IN_REACH];
};

// A block so many bytes after an address that all invocations share, which is that of a whole word with ALIGNED_WEIGHT: each has the
// four numbers of its own lane.
struct UniformBlock {
    AddressedBlock block;
};

uint load_half(UniformBlock block, uint at) {
    return uint(Halves(block.block.address).values[(block.block.begin + at) / 2]);
}

float read_half(UniformBlock block, uint at) { return unpack_halves(load_half(block, at)).x; }

uint read_word(UniformBlock block, uint at) {
    uint begin = block.block.begin + at;
    if ((ALIGNED & ALIGNED_WEIGHT) != 0 && begin % 4 == 0) return Words(block.block.address).values[begin / 4];
    return load_half(block, at) | load_half(block, at + 2) << 16;
}

// Uses selects: llvmpipe spills registers across branches. Loads only whole words, which LLVM merges into one load of a vector; a
// load of 16 bits would break that.
uint read_bytes(UniformBlock block, uint begin, uint at, const uint size) {
    const uint words = min(size / 4, LANES);
    uint place = LANE % words, bytes = 0;
    [[unroll]] for (uint i = 0; i < MOST_LANES; ++i) if (i < words) {
        uint word = read_word(block, begin + at + 4 * i);
        bytes = place == i ? word : bytes;
    }
    return bytes;
}

#define BLOCK UniformBlock
#define BYTES uint
#define NUMBERS vec4
#define OWN_ELEMENT(i) ((i) + 4 * LANE)
#define SELECTS
#define SIGNED_BYTES(bytes) (SCALES_SUMS ? upper_bytes(bytes, 0.0) : signed_bytes(bytes))
#define UNSIGNED_BYTES(bytes, above) (SCALES_SUMS ? upper_bytes(bytes, above) : unsigned_bytes(bytes, above))

// Of few rows a sum of numbers is scaled; of more each number is, once for all of them.
const bool SCALES_SUMS = ROWS < 4;

// Returns 2^24 times each, which has a sign or is below 128, less what stands for 0. No shift brings them down again: CPUs have fewer
// units for shifts than for masks.
vec4 upper_bytes(uint bytes, const float zero) {
    const uvec4 upper = uvec4(bytes << 24, bytes << 16, bytes << 8, bytes) & 0xff000000u;
    return vec4(ivec4(upper) - (int(zero) << 24));
}

#include "formats/blocks.glsl"

vec4 x[BLOCKS * ROWS];            // the input's, of a turn of the loop
float x_sums[BLOCKS * ROWS];      // of each four, of weights with a minimum
float totals[OWN_OUTPUTS * ROWS]; // of the invocation's own outputs
float squares[ROWS];              // of the input, with NORM_FORMAT

// Whether numbers come from upper_bytes.
bool are_upper(const uint format) { return SCALES_SUMS && !is_float8(format) && kind_of_block(format) != LISTED; }

// What a block's scale is multiplied with, which takes the 2^24 from its sum, finite of inputs up to 2^94.
float scale_of_sums(const uint format) { return are_upper(format) ? 1.0 / 16777216.0 : 1.0; }

// Rows and outputs behind the last repeat it, and are not stored.
void load_input(uint first_row, uint feature) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uvec2 row = advance_address(uvec2(push.input_address[0], push.input_address[1]),
                                    input_element(min(first_row + r, push.rows - 1), feature + 4 * LANE),
                                    bytes_of_block(INPUT_FORMAT));
        [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
            vec4 values = load_own_block(INPUT_FORMAT, row, b * LANES);
            if (NORM_FORMAT != FORMAT_NONE) {
                squares[r] += dot(values, values);
                values *= norm_load4(NORM_FORMAT, true, feature + 4 * (b * LANES + LANE), 1);
            }
            x[b * ROWS + r] = values;
            x_sums[b * ROWS + r] = values.x + values.y + values.z + values.w;
        }
    }
}

uvec2 weight_address(uint o, uint feature) {
    return advance_address(uvec2(push.weight_address[0], push.weight_address[1]),
                           weight_element(min(o, push.out_features - 1), feature) / elements_of_block(WEIGHT_FORMAT),
                           bytes_of_block(WEIGHT_FORMAT));
}

// Sums of an output that blocks are added to in turn. LLVM loads a block's scale into a part of a register that may hold a sum: with
// one sum each scale waits for the block before.
const uint CHAINS = SCALES_SUMS ? 2 : 1;
float sums[ROWS * CHAINS]; // of an output, over what the lane has of the input

void add_products(const uint b, vec4 numbers, vec2 affine) {
    if (!SCALES_SUMS) numbers = apply_affine(WEIGHT_FORMAT, affine, numbers);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint own = r * CHAINS + b % CHAINS;
        float sum = SCALES_SUMS ? 0.0 : sums[own];
        [[unroll]] for (uint c = 0; c < 4; ++c) sum = fma(x[b * ROWS + r][c], numbers[c], sum);
        if (SCALES_SUMS) {
            sum = fma(affine.x * scale_of_sums(WEIGHT_FORMAT), sum, sums[own]);
            if (has_minimum(WEIGHT_FORMAT)) sum = fma(affine.y, x_sums[b * ROWS + r], sum);
        }
        sums[own] = sum;
    }
}

float sum_of_lanes(float value) {
    [[unroll]] for (uint other = 1; other < MOST_LANES; other *= 2) if (other < LANES) value +=
        subgroupShuffleXor(value, other);
    return value;
}

// The products of an output and a turn's part of the input, to the totals of whose it is.
void add_output(uint first_output, uint o, uint feature) {
    uvec2 address = weight_address(first_output + o, feature);
    [[unroll]] for (uint i = 0; i < ROWS * CHAINS; ++i) sums[i] = 0.0;
    [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
        const uint own = b * 4 * LANES;
        UniformBlock block = UniformBlock(AddressedBlock(address, block_of_element(WEIGHT_FORMAT, own)));
        const uint element = element_of_block(WEIGHT_FORMAT, own);
        vec4 numbers = numbers_of(WEIGHT_FORMAT, block, element);
        add_products(b, numbers, affine_of(WEIGHT_FORMAT, block, element));
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float own = sums[r * CHAINS];
        [[unroll]] for (uint i = 1; i < CHAINS; ++i) own += sums[r * CHAINS + i];
        float sum = sum_of_lanes(own);
        [[unroll]] for (uint i = 0; i < OWN_OUTPUTS; ++i) totals[i * ROWS + r] +=
            o == OWN_OUTPUTS * LANE + i ? sum : 0.0;
    }
}

void main() {
    uint first_row = workgroup().x * ROWS, first_output = workgroup().y * OUTPUTS;
    [[unroll]] for (uint i = 0; i < OWN_OUTPUTS * ROWS; ++i) totals[i] = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) squares[r] = 0.0;
    uint feature = 0;
    do { // see addresses.comp
        load_input(first_row, feature);
        uint o = 0;
        do { // two in a row: what a turn costs beside its loads is half as much for each
            [[unroll]] for (uint i = 0; i < 2; ++i) add_output(first_output, o + i, feature);
            o += 2;
        } while (o < OUTPUTS);
        feature += BLOCKS * 4 * LANES;
    } while (feature < push.in_features);
    if (NORM_FORMAT != FORMAT_NONE) [[unroll]]
        for (uint r = 0; r < ROWS; ++r) {
            float mean = sum_of_lanes(squares[r]) / float(push.in_features);
            float scale = inversesqrt(mean + uintBitsToFloat(NORM_EPSILON));
            [[unroll]] for (uint i = 0; i < OWN_OUTPUTS; ++i) totals[i * ROWS + r] *= scale;
        }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint i = 0; i < OWN_OUTPUTS; i += SUMS_OF_PAIR) {
        vec4 own = vec4(0);
        [[unroll]] for (uint k = 0; k < SUMS_OF_PAIR; ++k) own[k] = totals[(i + k) * ROWS + r];
        store_pair(first_row + r, first_output + OWN_OUTPUTS * LANE + i, own);
    }
}
