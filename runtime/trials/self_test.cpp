#include "runtime/trials/self_test.hpp"

#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/trial_values.hpp"
#include "runtime/vulkan/memory.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace vkattn {
namespace {

// NMSE, of all contracts of numbers for the type.
const std::string kTold = "self-test: "; // what verdicts begin with

double most_error(vkattn_type type) { return type == VKATTN_TYPE_BF16 ? 5e-5 : 1e-6; }

// A tensor of random numbers on the host, and as f16 or bf16 on the device.
struct Input {
    Input(Context &context, TrialNumbers &numbers, vkattn_type type, std::initializer_list<uint64_t> shape)
        : tensor(contiguous(type, shape)), values(extent_elements(tensor)),
          buffer(context, extent_bytes(tensor), "vkattn self-test") {
        std::vector<uint16_t> bits(extent_bytes(tensor) / sizeof(uint16_t));
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = numbers.next();
            bits[i] = type == VKATTN_TYPE_F16 ? f16_bits(values[i]) : bf16_bits(values[i]);
        }
        buffer.write(0, bits.data(), bits.size() * sizeof(uint16_t));
    }

    vkattn_tensor tensor;
    std::vector<float> values;
    Buffer buffer;
};

// An f32 tensor on the device, full of NaN until something is written.
struct Output {
    Output(Context &context, std::initializer_list<uint64_t> shape)
        : tensor(contiguous(VKATTN_TYPE_F32, shape)), buffer(context, extent_bytes(tensor), "vkattn self-test") {
        const std::vector<float> poison(extent_elements(tensor), NAN);
        buffer.write(0, poison.data(), buffer.bytes());
    }

    std::vector<float> read() {
        std::vector<float> values(extent_elements(tensor));
        buffer.read(0, values.data(), values.size() * sizeof(float));
        return values;
    }

    vkattn_tensor tensor;
    Buffer buffer;
};

vkattn_binding whole(vkattn_role role, const Buffer &buffer) {
    return {role, buffer.handle(), 0, buffer.bytes(), nullptr};
}

// "" if the numbers are near enough.
std::string compare(const std::vector<float> &actual, const std::vector<double> &expected, vkattn_type type) {
    const double error = nmse(actual, expected);
    if (error <= most_error(type)) return ""; // false for NaN
    return text("wrong numbers, NMSE ", error, ", expected at most ", most_error(type));
}

struct Sizes {
    uint64_t heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
    vkattn_type type = VKATTN_TYPE_F16;
};

// Causal attention, the last query at the last key. One row after the other. V: rows value_row elements apart.
std::vector<double> attend(const Sizes &s, const std::vector<float> &query, const std::vector<float> &key,
                           const std::vector<float> &value, uint64_t value_row) {
    std::vector<double> output(s.heads * s.q_len * s.v_head_dim);
    std::vector<double> weights(s.kv_len);
    for (uint64_t row = 0; row < s.heads * s.q_len; ++row) {
        const uint64_t first_key = row / s.q_len / (s.heads / s.kv_heads) * s.kv_len;
        const uint64_t visible = s.kv_len - s.q_len + row % s.q_len + 1;
        double sum = 0.0;
        for (uint64_t j = 0; j < visible; ++j) {
            double score = 0.0;
            for (uint64_t d = 0; d < s.head_dim; ++d)
                score += static_cast<double>(query[row * s.head_dim + d]) *
                         static_cast<double>(key[(first_key + j) * s.head_dim + d]);
            weights[j] = std::exp(score / std::sqrt(static_cast<double>(s.head_dim)));
            sum += weights[j];
        }
        for (uint64_t j = 0; j < visible; ++j)
            for (uint64_t d = 0; d < s.v_head_dim; ++d)
                output[row * s.v_head_dim + d] +=
                    weights[j] / sum * static_cast<double>(value[(first_key + j) * value_row + d]);
    }
    return output;
}

std::string check_attention_numbers(Context &context, const AttentionTile &tile, const Sizes &s) {
    const auto kernel = static_cast<vkattn_kernel>(tile.kernel);
    const bool value_in_key = kernel == VKATTN_KERNEL_LATENT_DECODE;
    TrialNumbers numbers;
    const Input query(context, numbers, s.type, {1, s.heads, s.q_len, s.head_dim});
    const Input key(context, numbers, s.type, {1, s.kv_heads, s.kv_len, s.head_dim});
    const Input value(context, numbers, s.type, {1, s.kv_heads, s.kv_len, s.v_head_dim});
    Output output(context, {1, s.heads, s.q_len, s.v_head_dim});
    vkattn_attention_desc desc{};
    desc.query = query.tensor;
    desc.key = key.tensor;
    if (!value_in_key) desc.value = value.tensor;
    desc.output = output.tensor;
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    desc.kernel = kernel;
    PlanBuilder builder(context);
    AttentionProblem problem = check_attention(desc);
    problem.tile = tile;
    add_attention(builder, problem, roles_of(problem));
    const vkattn_binding bindings[] = {whole(VKATTN_ROLE_QUERY, query.buffer), whole(VKATTN_ROLE_KEY, key.buffer),
                                       whole(VKATTN_ROLE_OUTPUT, output.buffer),
                                       whole(VKATTN_ROLE_VALUE, value.buffer)};
    builder.build()->run(std::span(bindings).first(value_in_key ? 3 : 4));
    const std::vector<double> expected = value_in_key ? attend(s, query.values, key.values, key.values, s.head_dim)
                                                      : attend(s, query.values, key.values, value.values, s.v_head_dim);
    return compare(output.read(), expected, s.type);
}

View owned(const vkattn_tensor &tensor, const Buffer &buffer) {
    return {tensor, {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer.handle(), 0}};
}

constexpr uint64_t kManyRows = 19; // of linear

// A product of linear, whose sums of multiples of 1/64 are exact.
std::string check_linear_numbers(Context &context, vkattn_type type, uint64_t rows) {
    constexpr uint64_t kIn = 72, kOut = 45;
    TrialNumbers numbers;
    const Input input(context, numbers, type, {1, rows, kIn}), weight(context, numbers, type, {kOut, kIn});
    Output output(context, {1, rows, kOut});
    PlanBuilder builder(context);
    add_linear(builder, owned(input.tensor, input.buffer), owned(weight.tensor, weight.buffer),
               owned(output.tensor, output.buffer));
    builder.build()->run({});
    std::vector<double> expected(rows * kOut);
    for (uint64_t i = 0; i < expected.size(); ++i)
        for (uint64_t k = 0; k < kIn; ++k)
            expected[i] += static_cast<double>(input.values[i / kOut * kIn + k]) *
                           static_cast<double>(weight.values[i % kOut * kIn + k]);
    return compare(output.read(), expected, type);
}

Check checked(const std::string &name, const std::function<std::string()> &check) {
    const auto start = std::chrono::steady_clock::now();
    std::string reason;
    try {
        reason = check();
    } catch (const Error &error) {
        if (!blames_kernel(error)) throw; // memory ran out, or the device was lost: no verdict
        reason = error.what();
    }
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    return {name, reason, taken.count()};
}

// Prefill in a few tiles with ends that fill none, and one query over keys in parts. Latents are longer than values.
std::vector<Check> check_tile(Context &context, const AttentionTile &tile, vkattn_type type, const std::string &where) {
    std::vector<Check> checks;
    const auto kernel = static_cast<vkattn_kernel>(tile.kernel);
    const uint64_t head_dim = kernel == VKATTN_KERNEL_LATENT_DECODE ? 72 : 64;
    for (const Sizes &sizes : {Sizes{4, 2, 19, 75, head_dim, 64, type}, Sizes{4, 1, 1, 521, head_dim, 64, type}})
        checks.push_back(
            checked(text(vkattn_kernel_name(kernel), sizes.q_len > 1 ? ", many queries" : ", one query", where),
                    [&] { return check_attention_numbers(context, tile, sizes); }));
    return checks;
}

// Types that it takes are all made into f32 in the same way.
std::vector<Check> check_kernel(Context &context, vkattn_kernel kernel) {
    return check_tile(context, {.kernel = static_cast<uint32_t>(kernel)}, VKATTN_TYPE_F16, "");
}

const Check *first_failure(const std::vector<Check> &checks) {
    const auto failed = std::find_if(checks.begin(), checks.end(), [](const Check &c) { return !c.reason.empty(); });
    return failed == checks.end() ? nullptr : &*failed;
}

void judge(Verdicts &verdicts, vkattn_kernel kernel, const std::vector<Check> &checks) {
    if (const Check *failure = first_failure(checks); failure != nullptr)
        verdicts.rule_out(kernel, kTold + failure->reason);
    else
        verdicts.pass(kernel);
}

std::vector<Check> check_linear(Context &context) {
    std::vector<Check> checks;
    for (const uint64_t rows : {uint64_t{1}, kManyRows})
        checks.push_back(checked(text("linear, ", rows == 1 ? "one row" : "many rows"),
                                 [&] { return check_linear_numbers(context, VKATTN_TYPE_F16, rows); }));
    return checks;
}

// Where something fails and buffers have addresses, once more without: the shader that needs none may be right.
std::vector<Check> check_linear_with_and_without_addresses(Context &context) {
    std::vector<Check> checks = check_linear(context);
    if (first_failure(checks) == nullptr || context.judged_caps()->buffers_have_addresses == 0) return checks;
    context.verdicts().rule_out_addresses();
    for (Check &check : checks) check.name += ", through addresses";
    const std::vector<Check> without = check_linear(context);
    checks.insert(checks.end(), without.begin(), without.end());
    return checks;
}

std::string name_of(const vkattn_matrix_shape &shape) {
    return text(shape.m, "x", shape.n, "x", shape.k, shape.type == VKATTN_TYPE_BF16 ? " bf16" : " f16");
}

// Attention with matrices of one shape, and linear layers where they take that one.
std::vector<Check> check_shape(Context &context, vkattn_kernel kernel, uint32_t index) {
    const vkattn_matrix_shape shape = context.caps().matrix_shapes[index];
    const std::string name = name_of(shape);
    const AttentionTile tile{.kernel = static_cast<uint32_t>(kernel), .matrix_shape = 1 + index};
    std::vector<Check> checks = check_tile(context, tile, shape.type, ", " + name);
    const DeviceCaps caps = *context.judged_caps();
    if (kernel == VKATTN_KERNEL_COOPMAT && caps.traits.matrix_units != 0 &&
        largest_matrix_shape(caps, kernel, shape.type) == &caps.matrix_shapes[index])
        checks.push_back(checked(text("linear on matrix units, ", name),
                                 [&] { return check_linear_numbers(context, shape.type, kManyRows); }));
    return checks;
}

// Of one type the shapes that plans may take until one passes, or every shape. What has failed before stays off.
std::vector<Check> check_shapes(Context &context, vkattn_kernel kernel, vkattn_type type, bool every_shape) {
    std::vector<Check> all;
    for (const uint32_t index : usable_shapes(context.caps(), kernel, type)) {
        if (!is_usable_shape(*context.judged_caps(), kernel, type, index)) {
            const std::string name = name_of(context.caps().matrix_shapes[index]);
            all.push_back({text(vkattn_kernel_name(kernel), ", ", name), "has failed before", 0.0});
            continue;
        }
        const std::vector<Check> checks = check_shape(context, kernel, index);
        all.insert(all.end(), checks.begin(), checks.end());
        const Check *failure = first_failure(checks);
        if (failure != nullptr)
            context.verdicts().rule_out_matrix_shape(kernel, index, kTold + failure->name + ": " + failure->reason);
        else if (!every_shape)
            break;
    }
    return all;
}

// The kernel is off where no shape passes.
std::vector<Check> check_matrices(Context &context, vkattn_kernel kernel, bool every_shape) {
    std::vector<Check> all;
    for (vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        if (!matrix_obstacle(context.caps(), kernel, type).empty()) continue;
        const std::vector<Check> checks = check_shapes(context, kernel, type, every_shape);
        all.insert(all.end(), checks.begin(), checks.end());
    }
    const DeviceCaps judged = *context.judged_caps();
    const auto is_off = [&](vkattn_type type) { return !matrix_obstacle(judged, kernel, type).empty(); };
    if (!is_off(VKATTN_TYPE_F16) || !is_off(VKATTN_TYPE_BF16))
        context.verdicts().pass(kernel);
    else if (can_run(kernel, judged))
        judge(context.verdicts(), kernel, all);
    return all;
}

std::vector<Check> test_kernel(Context &context, vkattn_kernel kernel, bool every_shape) {
    if (kernel == VKATTN_KERNEL_COOPMAT) return check_matrices(context, kernel, every_shape);
    std::vector<Check> checks = check_kernel(context, kernel);
    judge(context.verdicts(), kernel, checks);
    return checks;
}

} // namespace

void self_test_kernel(Context &context, vkattn_kernel kernel) { test_kernel(context, kernel, false); }

void self_test(Context &context, const std::function<void(const Check &)> &tell) {
    for (const AttentionKernel *kernel : attention_kernels())
        if (std::string_view(kernel->missing(context.caps())).empty())
            std::ranges::for_each(test_kernel(context, kernel->kernel, true), tell);
    // no other kernel takes over from linear layers
    std::ranges::for_each(check_linear_with_and_without_addresses(context), tell);
}

} // namespace vkattn
