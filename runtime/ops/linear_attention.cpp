#include "runtime/ops/linear_attention.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/emit/judged.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/recurrent_states.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"
#include "shaders/interface/linear_attention.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

namespace vkattn {
namespace {

static_assert(LINEAR_ATTENTION_MOST_DRAFTS == VKATTN_MAX_DRAFT_TOKENS);

constexpr uint64_t kMostRecurrentTokens = 16;         // of a sequence: more are faster in chunks
constexpr uint64_t kFactorBytes = uint64_t{64} << 20; // of a stretch of chunks, about

struct LinearAttentionTensors : RecurrentTensors {
    LINEAR_ATTENTION_OWN_TENSORS(VKATTN_TENSOR_MEMBER)
    VKATTN_OPERATOR_TABLE(LinearAttentionTensors, LinearAttention, LINEAR_ATTENTION_TENSORS)
};

constexpr BindingSet kOfTokens =
    binding_set({BINDING_LINEAR_ATTENTION_QUERY, BINDING_LINEAR_ATTENTION_KEY, BINDING_LINEAR_ATTENTION_VALUE,
                 BINDING_LINEAR_ATTENTION_DECAY, BINDING_LINEAR_ATTENTION_BETA, BINDING_LINEAR_ATTENTION_CU_SEQLENS,
                 BINDING_LINEAR_ATTENTION_FACTORS});
constexpr BindingSet kOfStates =
    ~kOfTokens | binding_set({BINDING_LINEAR_ATTENTION_CU_SEQLENS, BINDING_LINEAR_ATTENTION_FACTORS});

struct LinearAttention {
    LinearAttentionTensors tensors;
    RecurrentSequences sequences;
    uint32_t head_dim, v_head_dim, heads;
    uint64_t tokens; // of all sequences, at most
    bool is_delta, l2_norm;
    float scale;
};

// [B,Hv,L], or with a size of channels.
vkattn_tensor checked_numbers(const vkattn_tensor &given, const char *name, const vkattn_tensor &value,
                              uint64_t channels) {
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return tensor;
    const bool of_channels = channels != 0 && tensor.rank == 4 && tensor.shape[3] == channels;
    require(tensor.type == VKATTN_TYPE_F32 && (tensor.rank == 3 || of_channels) &&
                std::equal(tensor.shape, tensor.shape + 3, value.shape),
            name, ": type ", type_name(tensor.type), ", shape ", shape_text(tensor), ", expected F32 [", value.shape[0],
            ",", value.shape[1], ",", value.shape[2], "]",
            channels != 0 ? text(" or [...,", channels, "]") : std::string());
    return tensor;
}

void check_rows(LinearAttention &problem) {
    LinearAttentionTensors &tensors = problem.tensors;
    check_tensors(tensors);
    const vkattn_tensor &query = tensors.query.tensor, &value = tensors.value.tensor;
    const uint64_t size = query.shape[3];
    require(size >= 1 && size <= LINEAR_ATTENTION_MOST_HEAD_DIM, "query: shape ", shape_text(query), ", heads of ",
            size, ", expected 1 to ", LINEAR_ATTENTION_MOST_HEAD_DIM);
    require(value.shape[1] == 0 || (query.shape[1] != 0 && value.shape[1] % query.shape[1] == 0),
            "value: ", value.shape[1], " heads, expected a multiple of query's ", query.shape[1]);
    tensors.decay.tensor = checked_numbers(tensors.decay.tensor, "decay", value, size);
    tensors.beta.tensor = checked_numbers(tensors.beta.tensor, "beta", value, 0);
    problem.head_dim = static_cast<uint32_t>(size);
    problem.v_head_dim = static_cast<uint32_t>(value.shape[3]);
    problem.heads = static_cast<uint32_t>(value.shape[1]);
}

void check_sequences(const vkattn_linear_attention_desc &desc, LinearAttention &problem) {
    const vkattn_tensor &query = problem.tensors.query.tensor;
    const uint64_t shape[] = {problem.heads, problem.head_dim, problem.v_head_dim};
    problem.sequences = check_recurrent(problem.tensors, query, "query", desc.max_seqlen_q, desc.states, shape);
    problem.tokens = query.shape[0] * query.shape[2];
    require(problem.tokens <= kLargestSize, "query: shape ", shape_text(query), ", ", problem.tokens,
            " tokens, expected at most 2^29");
}

LinearAttention check_linear_attention(const vkattn_linear_attention_desc &desc) {
    require(desc.rule == VKATTN_RULE_DELTA || desc.rule == VKATTN_RULE_DECAY, "rule: ", static_cast<int>(desc.rule),
            ", expected a vkattn_linear_attention_rule");
    require(desc.form >= VKATTN_FORM_AUTO && desc.form <= VKATTN_FORM_CHUNKED, "form: ", static_cast<int>(desc.form),
            ", expected a vkattn_linear_attention_form");
    require(desc.qk_l2norm <= 1, "qk_l2norm: ", desc.qk_l2norm, ", expected 0 or 1");
    LinearAttention problem{};
    problem.tensors = LinearAttentionTensors::of(desc);
    check_rows(problem);
    check_sequences(desc, problem);
    problem.is_delta = desc.rule == VKATTN_RULE_DELTA;
    problem.l2_norm = desc.qk_l2norm != 0;
    problem.scale = finite_or(desc.scale, 1.0f / std::sqrt(static_cast<float>(problem.head_dim)), "scale");
    return problem;
}

gpu::LinearAttentionParameters parameters_of(const LinearAttention &problem) {
    gpu::LinearAttentionParameters parameters{};
    problem.tensors.describe(parameters);
    parameters.sequences = problem.sequences.sequences;
    parameters.len = parameters.total = static_cast<uint32_t>(problem.tensors.query.tensor.shape[2]);
    parameters.longest = static_cast<uint32_t>(problem.sequences.longest);
    parameters.states = problem.sequences.states;
    parameters.drafts = problem.sequences.drafts;
    parameters.scale = problem.scale;
    parameters.epsilon = 1e-6f;
    return parameters;
}

gpu::LinearAttentionPush push_of(const LinearAttention &problem) {
    gpu::LinearAttentionPush push{};
    push.group = static_cast<uint32_t>(problem.heads / problem.tensors.query.tensor.shape[1]);
    push.heads = problem.heads;
    return push;
}

gpu::LinearAttentionConstants constants_of(const LinearAttention &problem) {
    const View &decay = problem.tensors.decay;
    gpu::LinearAttentionConstants constants;
    constants.HEAD_DIM = problem.head_dim;
    constants.V_HEAD_DIM = problem.v_head_dim;
    constants.DECAY = !present(decay) ? DECAY_NONE : decay.tensor.rank == 3 ? DECAY_OF_HEAD : DECAY_OF_CHANNEL;
    constants.IS_DELTA = problem.is_delta;
    constants.L2_NORM = problem.l2_norm;
    constants.KEEPS_TOKEN_STATES = problem.sequences.keeps_tokens;
    constants.STATE_VECTORS = problem.v_head_dim % 4 == 0 && are_aligned(problem.tensors);
    return constants;
}

// Fours of columns, as many as the state has, up to so many.
uint32_t column_vectors(const LinearAttention &problem, uint32_t most) {
    return std::min(std::bit_ceil(tiles(problem.v_head_dim, 4)), most);
}

// Operations of the recurrence.
double flops_of_tokens(const LinearAttention &problem) {
    constexpr double kOfNumber = 7; // of the state
    return kOfNumber * static_cast<double>(problem.tokens) * problem.heads * problem.head_dim * problem.v_head_dim;
}

// Of a pass over tokens, as operators/linear_attention_recurrent.comp has it.
uint64_t shared_bytes(const gpu::LinearAttentionConstants &constants) {
    constexpr uint64_t kBytes = 16; // of four numbers
    const uint64_t groups = constants.WORKGROUP_SIZE / constants.COLUMN_VECTORS, pitch = groups * constants.ROWS / 4;
    const uint64_t decays = constants.DECAY == DECAY_OF_CHANNEL ? pitch : 1;
    return kBytes * (constants.STAGED_TOKENS * (2 * pitch + decays) + 6 * constants.WORKGROUP_SIZE + 2 * groups);
}

// Of one token the state alone counts: smaller workgroups, more of whose loads are under way.
gpu::LinearAttentionConstants recurrent_constants(const LinearAttention &problem, const DeviceCaps &caps) {
    constexpr uint32_t kMostInvocations = 128, kFewRows = 16;
    const bool is_one = problem.sequences.longest == 1;
    gpu::LinearAttentionConstants constants = constants_of(problem);
    constants.COLUMN_VECTORS = column_vectors(problem, is_one ? 4 : 8);
    uint32_t groups = 8;
    const auto rows_of = [&] { return round_up(tiles(problem.head_dim, groups), 4u); };
    while (rows_of() > kFewRows && constants.COLUMN_VECTORS * groups < kMostInvocations) groups *= 2;
    constants.ROWS = rows_of();
    constants.WORKGROUP_SIZE = constants.COLUMN_VECTORS * groups;
    constants.STAGED_TOKENS = is_one ? 1 : 4;
    while (shared_bytes(constants) > caps.max_shared_memory_bytes && constants.COLUMN_VECTORS > 1) {
        if (constants.STAGED_TOKENS > 2) {
            constants.STAGED_TOKENS /= 2;
            continue;
        }
        constants.COLUMN_VECTORS /= 2;
        constants.WORKGROUP_SIZE /= 2;
    }
    return constants;
}

gpu::LinearAttentionConstants uniform_constants(const LinearAttention &problem, const DeviceCaps &caps) {
    gpu::LinearAttentionConstants constants = constants_of(problem);
    constants.WORKGROUP_SIZE = constants.COLUMN_VECTORS = constants.SUBGROUP_SIZE = caps.subgroup_size;
    constants.ROWS = round_up(problem.head_dim, caps.subgroup_size);
    return constants;
}

void add_tokens(PlanBuilder &builder, const LinearAttention &problem, const UniformSlot &parameters, bool uniform) {
    const DeviceCaps &caps = builder.context().caps();
    const gpu::LinearAttentionConstants constants =
        uniform ? uniform_constants(problem, caps) : recurrent_constants(problem, caps);
    const Shader &shader = uniform ? shaders::linear_attention_uniform : shaders::linear_attention_recurrent;
    Step &step = add_step(builder, shader, problem.tensors, constants, push_of(problem));
    step.uniforms = parameters;
    step.groups = {tiles(problem.v_head_dim, 4 * constants.COLUMN_VECTORS), problem.heads, problem.sequences.sequences};
    step.flops = flops_of_tokens(problem) + kFlopsOfElement * problem.sequences.sequences * problem.heads *
                                                static_cast<double>(problem.head_dim) * problem.v_head_dim;
}

// How the pass over chunks divides a head, and how many chunks a stretch has.
struct ChunkTiles {
    uint32_t column_vectors, parts, chunks_of_stretch;
    uint64_t factors; // of a chunk and a head: numbers

    uint32_t invocations() const { return LINEAR_ATTENTION_CHUNK / 2 * column_vectors * parts; }
};

// Of a chunk's factors, and of the state in shared memory.
uint64_t channels_of(const LinearAttention &problem) { return round_up(problem.head_dim, 32u); }

uint64_t shared_bytes(const LinearAttention &problem, const ChunkTiles &chunk) {
    constexpr uint64_t kBytes = 16; // of four numbers
    return kBytes * (channels_of(problem) * chunk.column_vectors + 4 * chunk.invocations() +
                     LINEAR_ATTENTION_CHUNK * chunk.column_vectors);
}

// Iterations of an invocation for a chunk, at most.
uint64_t iterations_of(const LinearAttention &problem, const ChunkTiles &chunk) {
    const uint64_t channels = channels_of(problem), tile = LINEAR_ATTENTION_CHUNK / 2 * chunk.column_vectors;
    const uint64_t fours = divide_up(4 * tile, uint64_t{chunk.invocations()});
    return channels + fours * (chunk.parts + LINEAR_ATTENTION_CHUNK) +
           divide_up(channels / 4 * chunk.column_vectors, uint64_t{chunk.invocations()}) * LINEAR_ATTENTION_CHUNK;
}

ChunkTiles chunk_tiles_of(const LinearAttention &problem, const DeviceCaps &caps) {
    constexpr uint64_t kChunk = LINEAR_ATTENTION_CHUNK;
    ChunkTiles chunk{column_vectors(problem, 4), 4, 0, 0};
    const auto fits = [&] {
        return shared_bytes(problem, chunk) <= caps.max_shared_memory_bytes &&
               chunk.invocations() <= caps.max_workgroup_invocations;
    };
    while (!fits() && chunk.parts > 1) chunk.parts /= 2;
    while (!fits() && chunk.column_vectors > 1) chunk.column_vectors /= 2;
    const uint64_t channels = channels_of(problem), columns = round_up(problem.v_head_dim, 4u);
    chunk.factors = 2 * channels * kChunk + kChunk * channels + kChunk * columns + kChunk * kChunk + channels;
    uint64_t chunks = std::max<uint64_t>(kFactorBytes / (chunk.factors * sizeof(float) * problem.heads), 1);
    if (caps.max_loop_iterations != 0)
        chunks = std::min(chunks, std::max<uint64_t>(caps.max_loop_iterations / iterations_of(problem, chunk), 1));
    chunk.chunks_of_stretch = static_cast<uint32_t>(chunks);
    return chunk;
}

// Numbers of chunks that sequences take at most, as operators/linear_attention/chunks.glsl counts them.
uint64_t chunks_of(const LinearAttention &problem) {
    constexpr uint64_t kChunk = LINEAR_ATTENTION_CHUNK;
    const auto &[sequences, longest, packed, states, drafts, keeps_tokens] = problem.sequences;
    return packed ? problem.tokens / kChunk + sequences : sequences * std::max<uint64_t>(divide_up(longest, kChunk), 1);
}

View reserved(PlanBuilder &builder, uint64_t numbers) {
    const vkattn_tensor tensor = contiguous(VKATTN_TYPE_F32, {numbers});
    return {tensor, builder.reserve_workspace(extent_bytes(tensor))};
}

void add_chunked(PlanBuilder &builder, const LinearAttention &problem, const UniformSlot &parameters) {
    const ChunkTiles chunk = chunk_tiles_of(problem, builder.context().caps());
    const uint64_t all = chunks_of(problem), each = std::min<uint64_t>(chunk.chunks_of_stretch, all);
    const uint64_t carried = uint64_t{problem.heads} * channels_of(problem) * round_up(problem.v_head_dim, 4u);
    LinearAttentionTensors tensors = problem.tensors;
    tensors.factors = reserved(builder, each * problem.heads * chunk.factors);
    std::array<View, 2> carries;
    if (each < all)
        for (View &carry : carries) carry = reserved(builder, carried);
    gpu::LinearAttentionConstants constants = constants_of(problem);
    constants.COLUMN_VECTORS = chunk.column_vectors;
    constants.WORKGROUP_SIZE = chunk.invocations();
    const double flops = flops_of_tokens(problem) * static_cast<double>(each) / static_cast<double>(all);
    for (uint64_t first = 0; first < all; first += each) {
        gpu::LinearAttentionPush push = push_of(problem);
        push.first_chunk = static_cast<uint32_t>(first);
        push.end_chunk = static_cast<uint32_t>(std::min(first + each, all));
        const uint32_t chunks = push.end_chunk - push.first_chunk;
        builder.barrier();
        Step &within = add_step(builder, shaders::linear_attention_chunks, tensors, constants, push, kOfTokens);
        within.uniforms = parameters;
        within.groups = {chunks, problem.heads, 1};
        within.flops = flops;
        builder.barrier();
        tensors.carry_from = first != 0 ? carries[first / each % 2] : View{};
        tensors.carry_to = push.end_chunk != all ? carries[first / each % 2 ^ 1] : View{};
        Step &pass = add_step(builder, shaders::linear_attention_states, tensors, constants, push, kOfStates);
        pass.uniforms = parameters;
        pass.groups = {tiles(problem.v_head_dim, 4 * chunk.column_vectors), problem.heads,
                       static_cast<uint32_t>(std::min<uint64_t>(problem.sequences.sequences, uint64_t{chunks} + 1))};
        pass.flops = flops;
    }
}

// How it is computed, each with the shaders that it takes.
struct Way {
    const char *name;
    std::span<const Shader *const> shaders;
    vkattn_linear_attention_form form;
};

constexpr const Shader *kUniformShaders[] = {&shaders::linear_attention_uniform};
constexpr const Shader *kRecurrentShaders[] = {&shaders::linear_attention_recurrent};
constexpr const Shader *kChunkedShaders[] = {&shaders::linear_attention_chunks, &shaders::linear_attention_states};
constexpr Way kUniform{"recurrent", kUniformShaders, VKATTN_FORM_RECURRENT};
constexpr Way kRecurrent{"recurrent", kRecurrentShaders, VKATTN_FORM_RECURRENT};
constexpr Way kChunked{"chunked", kChunkedShaders, VKATTN_FORM_CHUNKED};

// Whether the loops of an invocation end where the driver ends them.
bool may_loop(const LinearAttention &problem, const DeviceCaps &caps, uint64_t iterations_of_token) {
    const uint32_t most = caps.traits.max_loop_iterations;
    return most == 0 || problem.sequences.longest * iterations_of_token <= most;
}

// CPU drivers keep the state in a core's cache: token by token in registers alone they are faster than in chunks at any length, with shared
// memory up to some. Compilers take too long for larger heads in registers.
std::vector<const Way *> ways_of(const LinearAttention &problem, const DeviceCaps &caps) {
    constexpr uint64_t kMostOfCpu = 1024, kIterationsOfToken = 8, kIterationsOfUniform = 2;
    constexpr uint32_t kMostUniformHeadDim = 256;
    const uint64_t longest = problem.sequences.longest;
    const bool is_cpu = caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const bool few =
        longest <= (is_cpu && may_loop(problem, caps, kIterationsOfToken) ? kMostOfCpu : kMostRecurrentTokens);
    std::vector<const Way *> ways;
    if (has_linear_attention_uniform(caps) && may_loop(problem, caps, kIterationsOfUniform) &&
        problem.head_dim <= kMostUniformHeadDim)
        ways.push_back(&kUniform);
    if (few)
        ways.insert(ways.end(), {&kRecurrent, &kChunked});
    else
        ways.insert(ways.end(), {&kChunked, &kRecurrent});
    if (!may_loop(problem, caps, kIterationsOfToken)) std::erase(ways, &kRecurrent);
    if (longest == 0 || problem.sequences.keeps_tokens) std::erase(ways, &kChunked); // states alone; states of tokens
    return ways;
}

// Another way takes the place of one that the self-test has found wrong, as far as the caller's form leaves the choice.
const Way &chosen_way(const PlanBuilder &builder, const LinearAttention &problem, vkattn_linear_attention_form form) {
    require(form != VKATTN_FORM_CHUNKED || problem.sequences.longest == 0 || !problem.sequences.keeps_tokens,
            "form: VKATTN_FORM_CHUNKED with token_states to write, expected another");
    std::vector<const Way *> ways = ways_of(problem, builder.context().caps());
    if (form != VKATTN_FORM_AUTO && problem.sequences.longest != 0)
        std::erase_if(ways, [&](const Way *way) { return way->form != form; });
    if (ways.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, "form: ", static_cast<int>(form), " of ", problem.sequences.longest, " tokens ",
             on_bounded_loops(builder.context().caps()));
    const auto right = std::ranges::find_if(ways, [&](const Way *way) {
        return std::ranges::all_of(way->shaders, [&](const Shader *each) { return is_right(builder, *each); });
    });
    if (right != ways.end()) return **right;
    for (const Shader *each : ways.front()->shaders) require_right(builder, *each); // one of them is not, and says why
    return *ways.front();
}

} // namespace

bool has_linear_attention_uniform(const DeviceCaps &caps) {
    constexpr uint32_t kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    const uint32_t lanes = caps.subgroup_size;
    return is_built(shaders::linear_attention_uniform) && caps.traits.scalar_address_loads != 0 &&
           has_subgroup_operations(caps, kNeeded) && std::has_single_bit(lanes) && lanes <= 16 &&
           has_subgroups_of(caps, lanes);
}

void plan_linear_attention(PlanBuilder &builder, const vkattn_linear_attention_desc &desc) {
    const LinearAttention problem = check_linear_attention(desc);
    const RecurrentSequences &sequences = problem.sequences;
    allow_roles(builder, problem.tensors);
    const Way &way = chosen_way(builder, problem, desc.form);
    builder.set_choice(VKATTN_KERNEL_AUTO, text(way.name, ": sequences of at most ", sequences.longest, " tokens"));
    if (sequences.sequences == 0 || problem.heads == 0 || problem.v_head_dim == 0) return;
    if (sequences.longest == 0 && !present(problem.tensors.final_state)) return;
    const UniformSlot parameters = builder.keep_uniforms(parameters_of(problem));
    if (&way == &kChunked)
        add_chunked(builder, problem, parameters);
    else
        add_tokens(builder, problem, parameters, &way == &kUniform);
}

} // namespace vkattn
