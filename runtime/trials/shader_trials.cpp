#include "runtime/trials/shader_trials.hpp"

#include "runtime/emit/judged.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/trials/operator_trials.hpp"

#include <algorithm>
#include <span>

namespace vkattn {
namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

// With every shape of a shader that multiplies matrices.
void add_shaders(std::vector<TestedShader> &all, const Shader *shader, const DeviceCaps &caps) {
    if (!is_built(*shader)) return;
    if (shader->matrices == VKATTN_TYPE_NONE) return all.push_back({shader});
    DeviceCaps unjudged = caps;
    unjudged.verdicts.clear();
    for (const uint32_t index : usable_shapes(unjudged, {shader, shader->matrices, 0}))
        all.push_back({shader, 1 + index});
}

// The types of Q, K and V that switch on the paths of types: one float type is everybody's, of two the second is that of K
// and V, as are quantised ones.
struct Types {
    vkattn_type query, key, value;
};

std::optional<Types> types_of(CodePaths paths) {
    std::vector<vkattn_type> floats, stored;
    for (const vkattn_type type : kFloats)
        if ((paths & path_of(type)) != 0) floats.push_back(type);
    for (const StoredType &type : stored_types())
        if (is_quantised(type.info.type) && (paths & path_of(type.info.type)) != 0) stored.push_back(type.info.type);
    if (floats.empty() || !std::ranges::all_of(stored, is_key_value)) return std::nullopt;
    stored.insert(stored.begin(), floats.begin() + 1, floats.end());
    if (stored.size() > 2) return std::nullopt;
    if (stored.empty()) return Types{floats[0], floats[0], floats[0]};
    return Types{floats[0], stored.front(), stored.back()};
}

// The type of K that is all a shader takes.
CodePaths type_of_key(const Shader &shader) {
    const bool bytes = &shader == &shaders::decode_bytes || &shader == &shaders::decode_bytes_subgroups;
    return bytes ? path_of(VKATTN_TYPE_Q8_0) : 0;
}

struct Sizes {
    uint64_t heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
};

bool has_blocks(CodePaths paths) {
    return std::ranges::any_of(stored_types(), [&](const StoredType &type) {
        return is_quantised(type.info.type) && (paths & path_of(type.info.type)) != 0;
    });
}

constexpr CodePaths kPathFloats = kPathF32 | kPathF16 | kPathBf16;

// Of types alone: causal prefill in several workgroups a core, of 1 to 33 tiles of 64 keys, which wrong drivers mix up. Half as
// many where that would keep the device for long. CPU drivers have no cores to share.
Sizes whole_device_sizes(uint64_t head_dim, const DeviceCaps &caps) {
    constexpr uint32_t kSlow = 10'000, kRowsOfWorkgroup = 16;
    const bool is_cpu = caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const uint64_t keys = is_cpu ? 131 : caps.traits.max_dispatch_megaflops <= kSlow ? 1027 : 2051;
    const uint64_t rows = uint64_t{caps.traits.parallel_workgroups} * kRowsOfWorkgroup;
    const uint64_t heads = is_cpu ? 2 : std::clamp<uint64_t>(divide_up(rows, keys), 1, 8);
    return {heads, 1, keys, keys, head_dim, head_dim};
}

// Prefill in a few tiles with ends that fill none, or one query over keys in parts. Latents are longer than values.
Sizes sizes_of(bool one_query, CodePaths paths, uint64_t head_dim) {
    const bool latent = (paths & kPathLatent) != 0;
    const uint64_t more_dims = has_blocks(paths) ? QUANTISED_BLOCK : 8;
    const uint64_t key_dim = latent ? head_dim + more_dims : head_dim;
    if (one_query) return {4, 1, 1, (paths & ~kPathFloats) == 0 ? 2057u : 521u, key_dim, head_dim};
    const bool parts = (paths & kPathParts) != 0, stretches = (paths & kPathStretches) != 0;
    return {4, 2, 19, parts ? 521u : stretches ? 301u : 75u, key_dim, head_dim};
}

AttentionProblem problem_of_sizes(const Types &types, const Sizes &s, CodePaths paths, const AttentionKernel &kernel) {
    vkattn_attention_desc desc{};
    desc.query = contiguous(types.query, {1, s.heads, s.q_len, s.head_dim});
    desc.output = contiguous(types.query, {1, s.heads, s.q_len, s.v_head_dim});
    desc.query_rounding = types.key == VKATTN_TYPE_BF16 ? VKATTN_TYPE_BF16 : VKATTN_TYPE_F16;
    const bool paged = (paths & kPathPages) != 0;
    const uint64_t pages = divide_up(s.kv_len, kTrialPage), entries = paged ? pages : 1;
    const uint64_t positions = paged ? kTrialPage : s.kv_len;
    desc.key = contiguous(types.key, {entries, s.kv_heads, positions, s.head_dim});
    if ((paths & kPathLatent) == 0)
        desc.value = contiguous(types.value, {entries, s.kv_heads, positions, s.v_head_dim});
    if (paged) {
        desc.block_table = contiguous(VKATTN_TYPE_I32, {1, pages});
        desc.key_lengths = contiguous(VKATTN_TYPE_I32, {1});
    }
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    desc.kernel = kernel.kernel;
    if (kernel.keeps_scores) { // which of its shaders is wrong shows in what is between them
        desc.attn_weights = contiguous(VKATTN_TYPE_F32, {1, s.heads, s.q_len, s.kv_len});
        desc.qk_matmul_output = desc.attn_weights;
        desc.score_stage = VKATTN_SCORES_SCALED;
    }
    AttentionProblem problem = check_attention(desc);
    problem.tile.kernel = static_cast<uint32_t>(kernel.kernel);
    if ((paths & kPathParts) != 0) problem.tile.parts = 8; // so many that invocations of merge_parts share them
    return problem;
}

const ShaderUse *use_of(std::string_view shader, const std::vector<ShaderUse> &uses) {
    const auto found = std::ranges::find(uses, shader, &ShaderUse::shader);
    return found == uses.end() ? nullptr : &*found;
}

// Rules out what takes the shader's place until the kernel's plan takes it; bounded: loops end, so that keys take several
// dispatches. Fails where no plan does.
void choose_with(const std::string &shader, DeviceCaps caps, AttentionTrial &trial) {
    caps.verdicts.clear();
    for (;;) {
        trial.choice = choose_attention(trial.problem, caps);
        const std::vector<ShaderUse> uses = shaders_of(trial.choice.shape, trial.problem);
        if (const ShaderUse *use = use_of(shader, uses)) {
            trial.paths = use->paths;
            return;
        }
        const AttentionShape::Dispatch &other = trial.choice.shape.dispatches[0];
        caps.verdicts[shader_name(*other.shader, other.constants)] = {0, ~CodePaths{0}, "another"};
    }
}

std::optional<AttentionTrial> trial_of(const TestedShader &shader, CodePaths paths, const Sizes &sizes,
                                       const AttentionKernel &kernel, DeviceCaps caps) {
    constexpr uint32_t kIterations = 1 << 16;
    const bool merges = shader.object == &shaders::merge_parts;
    const std::optional<Types> types = types_of(merges ? kPathF32 : paths);
    if (merges) paths &= ~kPathTypes; // it knows none
    const bool scores_in_pages = kernel.keeps_scores && (paths & kPathPages) != 0;
    if (!types.has_value() || scores_in_pages || *kernel.missing(caps) != '\0') return std::nullopt;
    if ((paths & kPathStretches) != 0 && caps.max_loop_iterations == 0) caps.max_loop_iterations = kIterations;
    AttentionTrial trial{};
    trial.keys = sizes.kv_len;
    try {
        trial.problem = problem_of_sizes(*types, sizes, paths, kernel);
        trial.problem.tile.matrix_shape = shader.matrix_shape;
        choose_with(shader_name(shader, caps), caps, trial);
    } catch (const Error &error) {
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return std::nullopt;
    }
    return paths != 0 && (trial.paths & paths) == paths ? std::optional(trial) : std::nullopt;
}

// By the first row, and of the first of its problems, whose plan takes the shader so.
std::optional<AttentionTrial> trial_of(const TestedShader &shader, CodePaths paths, uint64_t head_dim,
                                       const DeviceCaps &caps) {
    for (const AttentionKernel *kernel : attention_kernels()) {
        if (std::ranges::find(kernel->shaders, shader.object) == kernel->shaders.end()) continue;
        std::vector<Sizes> sizes{sizes_of(kernel->few_rows, paths, head_dim), sizes_of(false, paths, head_dim)};
        if ((paths & ~kPathFloats) == 0 && !kernel->few_rows && !kernel->keeps_scores)
            sizes.insert(sizes.begin(), whole_device_sizes(head_dim, caps));
        for (const Sizes &each : sizes)
            if (auto trial = trial_of(shader, paths, each, *kernel, caps)) return trial;
    }
    return std::nullopt;
}

} // namespace

std::string shader_name(const TestedShader &shader, const DeviceCaps &caps) {
    return shader.matrix_shape == 0 ? shader.object->name
                                    : shader_name(*shader.object, caps.matrix_shapes[shader.matrix_shape - 1]);
}

std::vector<TestedShader> tested_shaders(const DeviceCaps &caps) {
    std::vector<TestedShader> all = {{&shaders::merge_parts}, {&shaders::rows}}; // what others need comes first
    const auto add = [&](const auto &kernel) {
        for (const Shader *shader : kernel.shaders) {
            const bool is_new = std::ranges::find(all, shader, &TestedShader::object) == all.end();
            if (is_new && *kernel.missing(caps) == '\0') add_shaders(all, shader, caps);
        }
    };
    for (const AttentionKernel *kernel : attention_kernels()) add(*kernel);
    const std::span kernels = linear_kernels();
    for (auto kernel = kernels.rbegin(); kernel != kernels.rend(); ++kernel) add(**kernel); // the plainest first
    for (const OperatorTrial &trial : operator_trials())
        if (trial.serves == nullptr || trial.serves(caps)) all.push_back({trial.shader});
    return all;
}

std::optional<AttentionTrial> attention_trial(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps) {
    paths |= type_of_key(*shader.object);
    if ((paths & kPathLargeHeads) == 0) return trial_of(shader, paths, 64, caps);
    for (const uint64_t head_dim : {256u, 192u, 160u, 136u}) { // the largest that finds room in shared memory
        if (has_blocks(paths) && head_dim % QUANTISED_BLOCK != 0) continue;
        if (auto trial = trial_of(shader, paths, head_dim, caps)) return trial;
    }
    return std::nullopt;
}

bool is_taken(const TestedShader &shader, const AttentionTrial &trial, const DeviceCaps &caps) {
    AttentionProblem problem = trial.problem;
    problem.tile.matrix_shape = 0;
    try {
        const std::vector<ShaderUse> uses = shaders_of(choose_attention(problem, caps).shape, problem);
        const ShaderUse *use = use_of(shader_name(shader, caps), uses);
        return use != nullptr && (use->paths & trial.paths) == trial.paths;
    } catch (const Error &error) { // what would take it has failed
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return false;
    }
}

std::vector<std::pair<TestedShader, CodePaths>> company_of(const TestedShader &shader, CodePaths paths,
                                                           const DeviceCaps &caps) {
    std::vector<std::pair<TestedShader, CodePaths>> company;
    if (const OperatorTrial *own = operator_trial(*shader.object); own != nullptr && own->beside != nullptr)
        company.push_back({{own->beside}, kWholeShader});
    const std::optional<AttentionTrial> trial = attention_trial(shader, paths, caps);
    if (!trial.has_value()) return company;
    for (const ShaderUse &use : shaders_of(trial->choice.shape, trial->problem))
        for (const Shader *other : {&shaders::rows, &shaders::merge_parts})
            if (other != shader.object && use.shader == other->name) company.push_back({{other}, use.paths});
    return company;
}

namespace {

LinearOperands trial_operands(vkattn_type type, vkattn_type weight_type, uint64_t rows, bool gated) {
    constexpr uint64_t kOut = 45;
    const uint64_t in = is_quantised(weight_type) ? 3 * storage_block(weight_type).elements : 2056;
    LinearOperands operands;
    operands.input.tensor = contiguous(type, {1, rows, in});
    operands.weight.tensor = gated ? contiguous(weight_type, {2, kOut, in}) : contiguous(weight_type, {kOut, in});
    // gated sums of super-blocks are beyond f16
    operands.output.tensor = contiguous(gated ? VKATTN_TYPE_F32 : type, {1, rows, kOut});
    return operands;
}

// Both factors, or of quantised weights that alone, as a gradient of the input takes it. Of whole eights, as most are: drivers that emulate
// matrix units compile what else there is for a minute.
LinearOperands transposed_operands(vkattn_type type, vkattn_type weight_type, uint64_t rows) {
    constexpr uint64_t kIn = 296, kOut = 40;
    LinearOperands operands;
    operands.transposed = TRANSPOSED_WEIGHT;
    if (is_quantised(weight_type)) {
        const uint64_t out = storage_block(weight_type).elements;
        operands.input.tensor = contiguous(type, {1, rows, kIn});
        operands.weight.tensor = contiguous(weight_type, {kIn, out});
        operands.output.tensor = contiguous(type, {1, rows, out});
        return operands;
    }
    operands.transposed |= TRANSPOSED_INPUT;
    operands.input.tensor = contiguous(type, {1, kIn, rows});
    operands.weight.tensor = contiguous(weight_type, {1, kIn, kOut});
    operands.output.tensor = contiguous(type, {1, rows, kOut});
    return operands;
}

} // namespace

std::optional<LinearTrial> linear_trial(const TestedShader &shader, vkattn_type type, vkattn_type weight_type,
                                        const DeviceCaps &caps, bool gated) {
    const LinearKernel &kernel = *row_of(linear_kernels(), *shader.object);
    if (gated && kernel.transposes) return std::nullopt;
    const uint64_t rows = kernel.trial_rows;
    DeviceCaps unjudged = caps;
    unjudged.verdicts.clear();
    LinearTrial trial{problem_of(kernel.transposes ? transposed_operands(type, weight_type, rows)
                                                   : trial_operands(type, weight_type, rows, gated)),
                      {}};
    trial.problem.tile = {.kernel = number_of(kernel), .matrix_shape = shader.matrix_shape};
    if (gated) trial.problem.tile.knobs = kernel.gated_trial_knobs;
    trial.choice = choose_linear(trial.problem, unjudged);
    const bool takes_it = shader_name(*trial.choice.shader, trial.choice.constants) == shader_name(shader, caps);
    return takes_it ? std::optional(trial) : std::nullopt;
}

bool is_taken(const TestedShader &shader, const LinearTrial &trial, const DeviceCaps &caps) {
    if (row_of(linear_kernels(), *shader.object)->missing == nothing_missing) return true;
    LinearProblem problem = trial.problem;
    problem.tile = {};
    try {
        const LinearChoice choice = choose_linear(problem, caps);
        return shader_name(*choice.shader, choice.constants) == shader_name(shader, caps);
    } catch (const Error &error) { // the same
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return false;
    }
}

double flops_of(const AttentionProblem &problem) {
    return 2.0 * problem.batch * problem.query_heads * problem.q_len * slots_of(problem) *
           (problem.head_dim + problem.v_head_dim);
}

} // namespace vkattn
