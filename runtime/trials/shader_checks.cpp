#include "runtime/trials/shader_checks.hpp"

#include "runtime/emit/attention.hpp"
#include "runtime/emit/judged.hpp"
#include "runtime/emit/rows.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/operator_trials.hpp"
#include "runtime/trials/trial_values.hpp"
#include "runtime/vulkan/memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace vkattn {
namespace {

// NMSE, of all contracts of numbers for the type.
double most_error(vkattn_type type) { return type == VKATTN_TYPE_BF16 ? 5e-5 : 1e-6; }

// "" if the numbers are near enough.
std::string compare(const std::vector<float> &actual, const std::vector<double> &expected, double most) {
    const double error = nmse(actual, expected);
    if (error <= most) return ""; // false for NaN
    return text("wrong numbers, NMSE ", error, ", expected at most ", most);
}

// Rows of Q that differ, in each head: then they come again, at places that no tile has, so that the host need not compute each
// row from its first key.
constexpr uint64_t kDistinctQueries = 5;

// A contiguous tensor on the device.
class DeviceTensor {
  public:
    DeviceTensor(Context &context, const vkattn_tensor &tensor)
        : tensor_(tensor), buffer_(context, extent_bytes(tensor), "vkattn self-test") {}

    void write(std::span<const std::byte> bytes) { buffer_.write(0, bytes.data(), bytes.size()); }
    void poison() { write(std::vector<std::byte>(buffer_.bytes(), std::byte{0xff})); } // not a number, in every type
    std::vector<float> read() { return numbers_in(bytes(), tensor_); }
    // Writes random numbers, and returns them.
    std::vector<float> randomise(TrialNumbers &numbers) {
        const std::vector<std::byte> bytes = bytes_of_numbers(tensor_, numbers);
        write(bytes);
        return numbers_in(bytes, tensor_);
    }
    // The same of numbers of which, in each stretch, only the first `period` are random: then they come again.
    std::vector<float> randomise(TrialNumbers &numbers, uint64_t stretch, uint64_t period) {
        std::vector<std::byte> bytes = bytes_of_numbers(tensor_, numbers);
        const uint64_t size = bytes_of(tensor_.type, 1);
        for (uint64_t i = 0; i < bytes.size() / size; ++i)
            if (i % stretch >= period) std::memcpy(&bytes[i * size], &bytes[(i - period) * size], size);
        write(bytes);
        return numbers_in(bytes, tensor_);
    }
    std::vector<std::byte> bytes() {
        std::vector<std::byte> all(buffer_.bytes());
        buffer_.read(0, all.data(), all.size());
        return all;
    }
    View view() const { return {tensor_, {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer_.handle(), 0}}; }

  private:
    vkattn_tensor tensor_;
    Buffer buffer_;
};

// The tensors of a problem on the device, by binding; pages of a sequence lie in another order than its positions.
class AttentionBuffers {
  public:
    AttentionBuffers(Context &context, const AttentionTrial &trial) : problem_(trial.problem), keys_(trial.keys) {
        const AttentionProblem &problem = trial.problem;
        for (const AttentionTensor &tensor : kAttentionTensors)
            if (present(problem.*tensor.member) && !(tensor.binding == BINDING_VALUE && problem.value_in_key))
                add(context, tensor.binding, problem.*tensor.member);
        if (problem.value_in_key) {
            value = key;
            sources_[BINDING_VALUE] = sources_[BINDING_KEY];
        }
    }

    const AttentionSources &sources() const { return sources_; }
    DeviceTensor &tensor(uint32_t binding) { return *tensors_[binding]; }
    std::vector<float> read(uint32_t binding) { return tensors_[binding]->read(); }

    // Where a KV head's row of K or V lies, in rows.
    uint64_t row(uint64_t head, uint64_t position) const {
        if (!present(problem_.block_table)) return head * problem_.kv_len + position;
        return (page(position / kTrialPage) * problem_.kv_heads + head) * kTrialPage + position % kTrialPage;
    }

    std::vector<float> query, key, value;

  private:
    uint64_t page(uint64_t number) const { return problem_.block_table.shape[1] - 1 - number; }

    void add(Context &context, uint32_t binding, const vkattn_tensor &tensor) {
        DeviceTensor &made = *(tensors_[binding] = std::make_unique<DeviceTensor>(context, tensor));
        sources_[binding] = made.view().source;
        if (binding == BINDING_QUERY) {
            query = made.randomise(numbers_, problem_.q_len * uint64_t{problem_.head_dim},
                                   kDistinctQueries * uint64_t{problem_.head_dim});
        } else if (binding == BINDING_KEY) {
            key = made.randomise(numbers_);
        } else if (binding == BINDING_VALUE) {
            value = made.randomise(numbers_);
        } else if (tensor.type == VKATTN_TYPE_I32) {
            const std::vector<int32_t> values = integers(binding);
            made.write(std::as_bytes(std::span(values)));
        } else {
            made.poison();
        }
    }

    std::vector<int32_t> integers(uint32_t binding) const {
        if (binding == BINDING_KEY_LENGTHS) return {static_cast<int32_t>(keys_)};
        std::vector<int32_t> table(problem_.block_table.shape[1]);
        for (uint64_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(page(i));
        return table;
    }

    const AttentionProblem &problem_;
    uint64_t keys_;
    TrialNumbers numbers_;
    std::array<std::unique_ptr<DeviceTensor>, ATTENTION_BINDINGS> tensors_;
    AttentionSources sources_{};
};

// What causal attention, the last query at the last key, gives: one row after the other.
struct Reference {
    std::vector<double> scores, weights, output; // scores: of all keys
};

double product(const float *a, const float *b, uint64_t size) {
    double sum = 0.0;
    for (uint64_t i = 0; i < size; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

double score_of(const AttentionTrial &trial, const AttentionBuffers &buffers, uint64_t row, uint64_t head,
                uint64_t key) {
    const uint32_t dims = trial.problem.head_dim;
    return static_cast<double>(trial.problem.scale) *
           product(&buffers.query[row * dims], &buffers.key[buffers.row(head, key) * dims], dims);
}

// Scores and weights, of kernels that keep them.
void keep_weights(const AttentionTrial &trial, const AttentionBuffers &buffers, Reference &reference) {
    const AttentionProblem &p = trial.problem;
    const uint64_t rows = uint64_t{p.query_heads} * p.q_len;
    reference.scores.resize(rows * p.kv_len);
    reference.weights.resize(rows * p.kv_len);
    for (uint64_t row = 0; row < rows; ++row) {
        const uint64_t head = row / p.q_len / (p.query_heads / p.kv_heads);
        const uint64_t visible = trial.keys - p.q_len + row % p.q_len + 1;
        double *weights = &reference.weights[row * p.kv_len], sum = 0.0;
        for (uint64_t j = 0; j < trial.keys; ++j) {
            const double score = reference.scores[row * p.kv_len + j] = score_of(trial, buffers, row, head, j);
            if (j < visible) sum += weights[j] = std::exp(score);
        }
        for (uint64_t j = 0; j < visible; ++j) weights[j] /= sum;
    }
}

// Sums over the keys that a row has seen so far.
struct RowState {
    uint64_t seen = 0;
    double sum = 0.0;
    std::vector<double> values;
};

// A row goes on where the row before it with the same query ended: it sees the same keys and some more.
Reference attend(const AttentionTrial &trial, const AttentionBuffers &buffers) {
    const AttentionProblem &p = trial.problem;
    const uint64_t rows = uint64_t{p.query_heads} * p.q_len, value_row = p.value_in_key ? p.head_dim : p.v_head_dim;
    Reference reference{{}, {}, std::vector<double>(rows * p.v_head_dim)};
    std::array<RowState, kDistinctQueries> states;
    for (uint64_t row = 0; row < rows; ++row) {
        const uint64_t query = row % p.q_len, head = row / p.q_len / (p.query_heads / p.kv_heads);
        RowState &state = states[query % kDistinctQueries];
        if (query < kDistinctQueries) state = {0, 0.0, std::vector<double>(p.v_head_dim)};
        for (const uint64_t visible = trial.keys - p.q_len + query + 1; state.seen < visible; ++state.seen) {
            const double weight = std::exp(score_of(trial, buffers, row, head, state.seen));
            state.sum += weight;
            const float *value = &buffers.value[buffers.row(head, state.seen) * value_row];
            for (uint64_t d = 0; d < p.v_head_dim; ++d) state.values[d] += weight * static_cast<double>(value[d]);
        }
        for (uint64_t d = 0; d < p.v_head_dim; ++d)
            reference.output[row * p.v_head_dim + d] = state.values[d] / state.sum;
    }
    if (present(p.attn_weights)) keep_weights(trial, buffers, reference);
    return reference;
}

// What the dispatches of a plan leave, in their order, up to the shader that is asked for: where an earlier one is wrong, nothing
// is known of it.
Findings compare_stages(const TestedShader &shader, const AttentionTrial &trial, AttentionBuffers &buffers,
                        const Reference &reference) {
    const vkattn_type factors = trial.choice.shape.dispatches[0].shader->matrices; // NONE: of no matrix units
    const vkattn_type rounded = factors != VKATTN_TYPE_NONE ? factors : trial.problem.query.type;
    for (const AttentionShape::Dispatch &dispatch : trial.choice.shape.dispatches) {
        const std::vector<double> &expected = dispatch.written == BINDING_QK_MATMUL_OUTPUT ? reference.scores
                                              : dispatch.written == BINDING_ATTN_WEIGHTS   ? reference.weights
                                                                                           : reference.output;
        const std::string reason = compare(buffers.read(dispatch.written), expected, most_error(rounded));
        if (dispatch.shader == shader.object) return {true, reason, trial.paths};
        if (!reason.empty()) break;
    }
    return {};
}

// Runs a plan once more: "" if it leaves the same bits, as every kernel does.
std::string run_again(const Plan &plan, DeviceTensor &output) {
    const std::vector<std::byte> first = output.bytes();
    output.poison();
    plan.run({});
    return output.bytes() == first ? "" : "other bits in a second run";
}

uint32_t written_by(const TestedShader &shader, const AttentionTrial &trial) {
    for (const AttentionShape::Dispatch &dispatch : trial.choice.shape.dispatches)
        if (dispatch.shader == shader.object) return dispatch.written;
    return BINDING_OUTPUT;
}

Findings check_attention_numbers(Context &context, const TestedShader &shader, const AttentionTrial &trial) {
    AttentionBuffers buffers(context, trial);
    PlanBuilder builder(context);
    emit_attention({builder, trial.problem, buffers.sources(), trial.choice.shape});
    const std::unique_ptr<const Plan> plan = builder.build();
    plan->run({});
    Findings findings = compare_stages(shader, trial, buffers, attend(trial, buffers));
    if (findings.is_known && findings.reason.empty())
        findings.reason = run_again(*plan, buffers.tensor(written_by(shader, trial)));
    return findings;
}

// merge_parts alone, on states of the host's: see shaders/attention/states.glsl.
Findings check_merge(Context &context, const AttentionTrial &trial) {
    constexpr uint64_t kHeader = 4;
    const AttentionProblem &p = trial.problem;
    const AttentionShape &shape = trial.choice.shape;
    const uint64_t rows = uint64_t{p.query_heads} * p.q_len, size = shape.scores.shape[3];
    AttentionBuffers buffers(context, trial);
    DeviceTensor states(context, shape.scores);
    TrialNumbers numbers;
    std::vector<float> values(rows * shape.parts * size);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % size == 1 ? 2.0f + numbers.next() : numbers.next();
    states.write(std::as_bytes(std::span(values)));

    PlanBuilder builder(context);
    const UniformSlot parameters = builder.keep_uniforms(shape.parameters);
    add_dispatch({builder, p, buffers.sources(), shape}, shape.dispatches[1], {}, parameters, states.view());
    builder.build()->run({});

    std::vector<double> expected(rows * p.v_head_dim);
    for (uint64_t row = 0; row < rows; ++row) {
        double sum = 0.0;
        double *output = &expected[row * p.v_head_dim];
        for (uint64_t part = 0; part < shape.parts; ++part) {
            const float *state = &values[(row * shape.parts + part) * size];
            const double weight = std::exp2(static_cast<double>(state[0]));
            sum += weight * static_cast<double>(state[1]);
            for (uint64_t d = 0; d < p.v_head_dim; ++d) output[d] += weight * static_cast<double>(state[kHeader + d]);
        }
        for (uint64_t d = 0; d < p.v_head_dim; ++d) output[d] /= sum;
    }
    return {true, compare(buffers.read(BINDING_OUTPUT), expected, most_error(VKATTN_TYPE_F32)), trial.paths};
}

// What rounding to a type may cost: half a step, of which there are 127 or 7 to either side of a block's largest, or a part
// of each number by itself.
double most_error_of_storage(vkattn_type type) {
    const uint32_t fraction_bits = stored_type(type).fraction_bits;
    if (fraction_bits != 0) return std::ldexp(1.0, -2 * static_cast<int>(fraction_bits + 1));
    return is_quantised(type) ? std::ldexp(6.0, -2 * static_cast<int>(stored_type(type).info.number_bits))
                              : most_error(type);
}

std::string check_copy(Context &context, vkattn_type from, vkattn_type to) {
    const auto shape_of = [](vkattn_type type) { return contiguous(type, {1, 2, 19, 64}); };
    TrialNumbers numbers;
    DeviceTensor source(context, shape_of(from)), cache(context, shape_of(to));
    const std::vector<float> values = source.randomise(numbers);
    cache.poison();
    PlanBuilder builder(context);
    add_rows(builder, {.source = source.view(), .target = cache.view()});
    builder.build()->run({});
    return compare(cache.read(), {values.begin(), values.end()}, most_error_of_storage(to));
}

// The types of a copy: what is read, and what is written; nothing where the paths are none.
std::optional<std::pair<vkattn_type, vkattn_type>> copy_of(CodePaths paths) {
    if ((paths & ~kPathTypes) != 0 || paths == 0 || std::popcount(paths) > 2) return std::nullopt;
    const auto from = static_cast<vkattn_type>(std::countr_zero(paths));
    const auto to = static_cast<vkattn_type>(static_cast<int>(std::bit_width(paths)) - 1);
    return is_cached(from) && is_cached(to) ? std::optional(std::pair(from, to)) : std::nullopt;
}

// There and back.
std::string check_copies(Context &context, const std::pair<vkattn_type, vkattn_type> &types) {
    const std::string there = check_copy(context, types.first, types.second);
    return there.empty() && types.first != types.second ? check_copy(context, types.second, types.first) : there;
}

bool is_linear(const TestedShader &shader) { return row_of(linear_kernels(), *shader.object) != nullptr; }

// Of the types of a linear layer's input and weight; nothing where the paths are not theirs.
std::optional<LinearTrial> linear_trial_of(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps,
                                           bool gated = false) {
    if ((paths & ~kPathTypes) != 0 || paths == 0) return std::nullopt;
    const auto input = static_cast<vkattn_type>(std::countr_zero(paths));
    const auto weight = static_cast<vkattn_type>(static_cast<int>(std::bit_width(paths)) - 1);
    const bool are_types = paths == (path_of(input) | path_of(weight)) && is_float(input) && is_weight(weight);
    if (!are_types || (input != weight && !is_quantised(weight))) return std::nullopt;
    return linear_trial(shader, input, weight, caps, gated);
}

// Numbers of rows of so many, one column after the other.
std::vector<float> transposed(const std::vector<float> &numbers, uint64_t columns) {
    std::vector<float> result;
    for (uint64_t column = 0; column < columns; ++column)
        for (uint64_t i = column; i < numbers.size(); i += columns) result.push_back(numbers[i]);
    return result;
}

// A product whose sums of multiples of 1/64 are exact.
std::string check_linear_numbers(Context &context, const LinearTrial &trial) {
    const LinearProblem &problem = trial.problem;
    const uint64_t rows = problem.push.rows, in = problem.push.in_features, out = problem.push.head_dim;
    TrialNumbers numbers;
    DeviceTensor input(context, problem.input), weight(context, problem.weight), output(context, problem.output);
    std::vector<float> x = input.randomise(numbers), w = weight.randomise(numbers);
    if ((problem.transposed & TRANSPOSED_INPUT) != 0) x = transposed(x, rows);
    if (problem.transposed != 0) w = transposed(w, out);
    output.poison();
    PlanBuilder builder(context);
    LinearOperands operands;
    operands.input = input.view();
    operands.weight = weight.view();
    operands.output = output.view();
    add_product(builder, problem, operands, trial.choice);
    const std::unique_ptr<const Plan> plan = builder.build();
    plan->run({});
    std::vector<double> expected(rows * out);
    for (uint64_t i = 0; i < expected.size(); ++i) {
        const float *own = &x[i / out * in];
        expected[i] = product(own, &w[i % out * in], in);
        if (problem.gated) expected[i] *= product(own, &w[(out + i % out) * in], in);
    }
    const std::string reason = compare(output.read(), expected, most_error(problem.input.type));
    return reason.empty() ? run_again(*plan, output) : reason;
}

// Whether plans of that problem take the shader by the rule.
bool are_taken(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps) {
    if (operator_trial(*shader.object) != nullptr) return paths == kWholeShader;
    if (shader.object == &shaders::rows) return copy_of(paths).has_value();
    if (is_linear(shader)) {
        const std::optional<LinearTrial> trial = linear_trial_of(shader, paths, caps);
        return trial.has_value() && is_taken(shader, *trial, caps);
    }
    const std::optional<AttentionTrial> trial = attention_trial(shader, paths, caps);
    return trial.has_value() && is_taken(shader, *trial, caps);
}

// Whether the whole test has a check of it: the largest matrix shape has all, for plans take it; the others one.
bool is_wanted(const ShaderCheck &check, bool is_first_shape, const DeviceCaps &caps) {
    if (check.shader.matrix_shape == 0) return are_taken(check.shader, check.paths, caps);
    return (is_first_shape || check.path == check.paths) && can_check(check.shader, check.paths, caps);
}

} // namespace

std::vector<ShaderCheck> wanted_checks(const DeviceCaps &caps) {
    constexpr CodePaths kTypes[] = {kPathF16, kPathF32, kPathBf16}; // of Q
    std::vector<ShaderCheck> checks;
    const Shader *previous = nullptr;
    for (const TestedShader &shader : tested_shaders(caps)) {
        for (uint32_t bit = 0; bit < kCodePathCount; ++bit) {
            const CodePaths path = CodePaths{1} << bit;
            if ((path & kPathTypes) != 0 && path_of(static_cast<vkattn_type>(bit)) == 0) continue; // no numbers
            const bool is_type = std::ranges::find(kTypes, path) != std::end(kTypes);
            const auto check_with = [&](CodePaths type) {
                return ShaderCheck{shader, path, is_type ? path : path | type};
            };
            const auto *type = std::ranges::find_if(
                kTypes, [&](CodePaths each) { return is_wanted(check_with(each), shader.object != previous, caps); });
            if (type != std::end(kTypes)) checks.push_back(check_with(*type));
        }
        previous = shader.object;
    }
    return checks;
}

bool can_check(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps) {
    if (operator_trial(*shader.object) != nullptr) return paths == kWholeShader;
    if (is_linear(shader)) return linear_trial_of(shader, paths, caps).has_value();
    return shader.object == &shaders::rows ? copy_of(paths).has_value()
                                           : attention_trial(shader, paths, caps).has_value();
}

Findings check_shader(Context &context, const TestedShader &shader, CodePaths paths) {
    const DeviceCaps &caps = context.caps();
    if (const OperatorTrial *own = operator_trial(*shader.object)) return {true, own->check(context), kWholeShader};
    if (is_linear(shader)) {
        Findings findings{};
        for (const bool gated : {false, true}) {
            const std::optional<LinearTrial> trial = linear_trial_of(shader, paths, caps, gated);
            if (!trial.has_value() || !findings.reason.empty()) continue;
            findings = {true, check_linear_numbers(context, *trial), paths};
            if (gated && !findings.reason.empty()) findings.reason += ", gated";
        }
        return findings;
    }
    if (shader.object == &shaders::rows) {
        const auto types = copy_of(paths);
        return types.has_value() ? Findings{true, check_copies(context, *types), paths} : Findings{};
    }
    const std::optional<AttentionTrial> trial = attention_trial(shader, paths, caps);
    if (!trial.has_value()) return {};
    return shader.object == &shaders::merge_parts ? check_merge(context, *trial)
                                                  : check_attention_numbers(context, shader, *trial);
}

} // namespace vkattn
