#include "runtime/trials/shader_trials.hpp"

#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};
constexpr Module kLinearModules[] = {Module::kLinear, Module::kLinearVector, Module::kLinearAddresses,
                                     Module::kLinearCoopmat, Module::kLinearCoopmatBf16};

bool has_module(const AttentionKernel &kernel, Module module) {
    return std::ranges::find(kernel.modules, module) != kernel.modules.end();
}

vkattn_type type_of_matrices(Module module) {
    const bool bf16 = module == Module::kCoopmatBf16 || module == Module::kLinearCoopmatBf16;
    return bf16 ? VKATTN_TYPE_BF16 : VKATTN_TYPE_F16;
}

// With every shape of a shader that multiplies matrices.
void add_shaders(std::vector<TestedShader> &shaders, Module module, const DeviceCaps &caps) {
    if (!module_is_built(module)) return;
    if (!multiplies_matrices(module)) return shaders.push_back({module});
    DeviceCaps unjudged = caps;
    unjudged.verdicts.clear();
    for (const uint32_t index : usable_shapes(unjudged, {module, type_of_matrices(module), 0}))
        shaders.push_back({module, 1 + index});
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
    if (floats.empty()) return std::nullopt;
    stored.insert(stored.begin(), floats.begin() + 1, floats.end());
    if (stored.size() > 2) return std::nullopt;
    if (stored.empty()) return Types{floats[0], floats[0], floats[0]};
    return Types{floats[0], stored.front(), stored.back()};
}

struct Sizes {
    uint64_t heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
};

bool has_blocks(CodePaths paths) {
    return std::ranges::any_of(stored_types(), [&](const StoredType &type) {
        return is_quantised(type.info.type) && (paths & path_of(type.info.type)) != 0;
    });
}

// Prefill in a few tiles with ends that fill none, or one query over keys in parts. Latents are longer than values.
Sizes sizes_of(bool one_query, CodePaths paths, uint64_t head_dim) {
    const bool latent = (paths & kPathLatent) != 0;
    const uint64_t more_dims = has_blocks(paths) ? QUANTISED_BLOCK : 8;
    const uint64_t key_dim = latent ? head_dim + more_dims : head_dim;
    if (one_query) return {4, 1, 1, 521, key_dim, head_dim};
    const bool parts = (paths & kPathParts) != 0, stretches = (paths & kPathStretches) != 0;
    return {4, 2, 19, parts ? 521u : stretches ? 301u : 75u, key_dim, head_dim};
}

AttentionProblem problem_of(const Types &types, const Sizes &s, CodePaths paths, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = contiguous(types.query, {1, s.heads, s.q_len, s.head_dim});
    desc.output = contiguous(types.query, {1, s.heads, s.q_len, s.v_head_dim});
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
    desc.kernel = kernel;
    if (kernel == VKATTN_KERNEL_UNFUSED) { // which of its shaders is wrong shows in what is between them
        desc.attn_weights = contiguous(VKATTN_TYPE_F32, {1, s.heads, s.q_len, s.kv_len});
        desc.qk_matmul_output = desc.attn_weights;
        desc.score_stage = VKATTN_SCORES_SCALED;
    }
    return check_attention(desc);
}

// The row whose plans take the shader for these paths. nullptr: none has the module.
const AttentionKernel *kernel_of(Module module, CodePaths paths) {
    const AttentionKernel *kernel = nullptr;
    for (const AttentionKernel *row : attention_kernels())
        if (kernel == nullptr && has_module(*row, module)) kernel = row;
    return kernel == &kFlash && (paths & kPathParts) != 0 ? &kDecode : kernel; // of many rows
}

bool is_of_decode_shader(Module module) {
    return has_module(kDecode, module) && !has_module(kFlash, module); // merge_parts too
}

// The device, where no other module may take its place; bounded: its loops end, so that keys take several dispatches.
DeviceCaps device_with(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps) {
    constexpr uint32_t kIterations = 1 << 16;
    DeviceCaps alone = caps;
    alone.verdicts.clear();
    for (const Module other : kFlash.modules) alone.verdicts[module_name(other)] = {0, ~CodePaths{0}, "another"};
    for (const Module other : kDecode.modules) alone.verdicts[module_name(other)] = {0, ~CodePaths{0}, "another"};
    alone.verdicts.erase(module_name(shader.module));
    alone.verdicts.erase(module_name(Module::kMergeParts));
    if (shader.module == Module::kMergeParts) alone.verdicts.clear();
    if ((paths & kPathStretches) != 0 && alone.max_loop_iterations == 0) alone.max_loop_iterations = kIterations;
    return alone;
}

std::optional<AttentionTrial> trial_of(const TestedShader &shader, CodePaths paths, uint64_t head_dim,
                                       const AttentionKernel &kernel, const DeviceCaps &caps) {
    const bool merges = shader.module == Module::kMergeParts;
    const std::optional<Types> types = types_of(merges ? kPathF32 : paths);
    if (merges) paths &= ~kPathTypes; // it knows none
    const bool unfused_pages = kernel.kernel == VKATTN_KERNEL_UNFUSED && (paths & kPathPages) != 0;
    if (!types.has_value() || unfused_pages || !std::string_view(kernel.missing(caps)).empty()) return std::nullopt;
    AttentionTrial trial{};
    const Sizes sizes = sizes_of(is_of_decode_shader(shader.module), paths, head_dim);
    try {
        trial.keys = sizes.kv_len;
        trial.problem = problem_of(*types, sizes, paths, kernel.kernel);
        trial.problem.tile = {.kernel = static_cast<uint32_t>(kernel.kernel), .matrix_shape = shader.matrix_shape};
        if ((paths & kPathParts) != 0) trial.problem.tile.parts = 2;
        trial.choice = choose_attention(trial.problem, device_with(shader, paths, caps));
    } catch (const Error &error) {
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return std::nullopt;
    }
    const std::string name = shader_name(shader, caps);
    for (const ShaderUse &use : shaders_of(trial.choice.shape, trial.problem))
        if (use.shader == name) trial.paths = use.paths;
    return paths != 0 && (trial.paths & paths) == paths ? std::optional(trial) : std::nullopt;
}

LinearShader linear_shader_of(Module module) {
    if (module == Module::kLinear) return LinearShader::kTiles;
    if (module == Module::kLinearVector) return LinearShader::kVector;
    return module == Module::kLinearAddresses ? LinearShader::kAddresses : LinearShader::kMatrices;
}

} // namespace

std::string shader_name(const TestedShader &shader, const DeviceCaps &caps) {
    return shader.matrix_shape == 0 ? module_name(shader.module)
                                    : shader_name(shader.module, caps.matrix_shapes[shader.matrix_shape - 1]);
}

std::vector<TestedShader> tested_shaders(const DeviceCaps &caps) {
    std::vector<TestedShader> shaders = {{Module::kMergeParts}, {Module::kKvAppend}}; // what others need comes first
    for (const AttentionKernel *kernel : attention_kernels())
        for (const Module module : kernel->modules) {
            const bool is_new = std::ranges::find(shaders, module, &TestedShader::module) == shaders.end();
            if (is_new && std::string_view(kernel->missing(caps)).empty()) add_shaders(shaders, module, caps);
        }
    const bool has_matrices = can_run(VKATTN_KERNEL_COOPMAT, caps);
    for (const Module module : kLinearModules)
        if (has_matrices || !multiplies_matrices(module)) add_shaders(shaders, module, caps);
    return shaders;
}

std::optional<AttentionTrial> attention_trial(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps) {
    const AttentionKernel *kernel = kernel_of(shader.module, paths);
    if (kernel == nullptr) return std::nullopt;
    if ((paths & kPathLargeHeads) == 0) return trial_of(shader, paths, 64, *kernel, caps);
    for (const uint64_t head_dim : {256, 192, 160, 136}) { // the largest that finds room in shared memory
        if (has_blocks(paths) && head_dim % QUANTISED_BLOCK != 0) continue;
        if (auto trial = trial_of(shader, paths, head_dim, *kernel, caps)) return trial;
    }
    return std::nullopt;
}

bool is_taken(const TestedShader &shader, const AttentionTrial &trial, const DeviceCaps &caps) {
    AttentionProblem problem = trial.problem;
    problem.tile.matrix_shape = 0;
    try {
        const std::vector<ShaderUse> uses = shaders_of(choose_attention(problem, caps).shape, problem);
        const std::string name = shader_name(shader, caps);
        return std::ranges::any_of(
            uses, [&](const ShaderUse &use) { return use.shader == name && (use.paths & trial.paths) == trial.paths; });
    } catch (const Error &error) { // what would take it has failed
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return false;
    }
}

std::vector<std::pair<TestedShader, CodePaths>> company_of(const TestedShader &shader, CodePaths paths,
                                                           const DeviceCaps &caps) {
    std::vector<std::pair<TestedShader, CodePaths>> company;
    const std::optional<AttentionTrial> trial = attention_trial(shader, paths, caps);
    if (!trial.has_value()) return company;
    for (const ShaderUse &use : shaders_of(trial->choice.shape, trial->problem))
        for (const Module module : {Module::kKvAppend, Module::kMergeParts})
            if (module != shader.module && use.shader == module_name(module)) company.push_back({{module}, use.paths});
    return company;
}

std::optional<LinearTrial> linear_trial(const TestedShader &shader, vkattn_type type, const DeviceCaps &caps) {
    constexpr uint64_t kIn = 72, kOut = 45, kManyRows = 19;
    const uint64_t rows = shader.module == Module::kLinearVector ? 1 : kManyRows;
    DeviceCaps unjudged = caps;
    unjudged.verdicts.clear();
    LinearOperands operands;
    operands.input.tensor = contiguous(type, {1, rows, kIn});
    operands.weight.tensor = contiguous(type, {kOut, kIn});
    operands.output.tensor = contiguous(type, {1, rows, kOut});
    LinearTrial trial{problem_of(operands), {}};
    trial.problem.tile.shader = static_cast<uint32_t>(linear_shader_of(shader.module));
    trial.problem.tile.matrix_shape = shader.matrix_shape;
    trial.choice = choose_linear(trial.problem, unjudged);
    const bool takes_it = shader_name(trial.choice.module, trial.choice.constants) == shader_name(shader, caps);
    return takes_it ? std::optional(trial) : std::nullopt;
}

bool is_taken(const TestedShader &shader, const LinearTrial &trial, const DeviceCaps &caps) {
    if (shader.module == Module::kLinear || shader.module == Module::kLinearVector) return true;
    LinearProblem problem = trial.problem;
    problem.tile = {};
    try {
        const LinearChoice choice = choose_linear(problem, caps);
        return shader_name(choice.module, choice.constants) == shader_name(shader, caps);
    } catch (const Error &error) { // the same
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        return false;
    }
}

double flops_of(const AttentionProblem &problem) {
    return 2.0 * problem.batch * problem.query_heads * problem.q_len * problem.kv_len *
           (problem.head_dim + problem.v_head_dim);
}

} // namespace vkattn
