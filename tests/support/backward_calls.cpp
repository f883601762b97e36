#include "backward_calls.hpp"

#include <algorithm>

namespace vkattn_test {
namespace {

// A tensor that is written, of rows with gaps between them.
HostTensor written(vkattn_type type, const Shape &shape, bool has_gaps) {
    if (!has_gaps || shape.size() != 4) return {type, shape};
    const std::uint64_t row = shape[3] + 3, head = shape[2] * row + 1;
    return {type, shape, {shape[1] * head, head, row, 1}, 1};
}

Gradients gradients_of(const AttentionProblem &p, const BackwardOptions &options) {
    Gradients made;
    made.query = written(options.gradients, p.query.shape(), options.has_gaps);
    made.key = written(options.gradients, p.key.shape(), options.has_gaps);
    made.value = written(options.gradients, p.value.shape(), options.has_gaps);
    if (p.attn_mask.present() && p.attn_mask.type() != VKATTN_TYPE_BOOL)
        made.attn_mask = written(options.gradients, p.attn_mask.shape(), options.has_gaps);
    if (p.sinks.present()) made.sinks = HostTensor(VKATTN_TYPE_F32, p.sinks.shape());
    return made;
}

double bound_of(const BackwardCall &call, vkattn_type gradient) {
    constexpr double kTimes = 10; // gradients are products of rounded numbers
    const AttentionProblem &p = call.problem;
    const vkattn_type output = call.options.computes_output ? VKATTN_TYPE_F32 : call.options.output;
    return kTimes *
           nmse_bound({p.query.type(), p.key.type(), p.value.type(), output, gradient}, call.reference.largest_score);
}

} // namespace

HostTensor filled(vkattn_type type, const Shape &shape, const std::vector<double> &values) {
    HostTensor tensor(type, shape);
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<float>(values[i]));
    return tensor;
}

BackwardCall::BackwardCall(const AttentionProblem &given, const BackwardOptions &asked)
    : problem(given), options(asked), made(gradients_of(given, asked)), reference(reference_attention(given)) {
    const AttentionSizes s = sizes_of(problem);
    const Shape shape{s.batch, s.query_heads, s.q_len, s.v_head_dim};
    std::mt19937 random(static_cast<unsigned>(7 + s.q_len + s.kv_len));
    d_output = normal_tensor(options.d_output, shape, random, options.d_output_scale);
    if (options.computes_output) return;
    forward.output = filled(options.output, shape, reference.output);
    forward.log_sum_exp = filled(VKATTN_TYPE_F32, {s.batch, s.query_heads, s.q_len}, reference.log_sum_exp);
}

vkattn_attention_backward_desc BackwardCall::describe() {
    attention = vkattn_test::describe(problem, forward, VKATTN_KERNEL_AUTO);
    vkattn_attention_backward_desc desc{};
    desc.attention = &attention;
    desc.d_output = d_output.view();
    desc.d_query = made.query.view();
    desc.d_key = made.key.view();
    desc.d_value = made.value.view();
    desc.d_attn_mask = made.attn_mask.view();
    desc.d_sinks = made.sinks.view();
    return desc;
}

std::vector<Region> BackwardCall::regions() {
    std::vector<Region> regions = regions_of(problem, forward);
    for (Region &region : regions) region.access = Access::kRead;
    regions.push_back({VKATTN_ROLE_D_OUTPUT, &d_output, Access::kRead});
    for (const auto &[role, tensor] : made.all())
        if (tensor->present()) regions.push_back({role, tensor, Access::kWrite});
    return regions;
}

std::string compare_gradient(const char *name, const BackwardCall &call, const HostTensor &made,
                             const Gradient &expected) {
    if (!made.present()) return "";
    constexpr double kLeast = 0.1; // of its terms: what cancels further is rounding
    std::vector<float> actual(made.elements());
    for (std::uint64_t i = 0; i < actual.size(); ++i) actual[i] = made.get(i);
    const Comparison comparison =
        compare(name, made.shape(), expected.values, actual, bound_of(call, made.type()), kLeast * expected.terms);
    return comparison.passed ? "" : comparison.report + "\n";
}

namespace {

std::string compare_gradients(BackwardCall &call) {
    const AttentionGradients expected = reference_gradients(call.problem, call.d_output.values());
    return compare_gradient("d_query", call, call.made.query, expected.query) +
           compare_gradient("d_key", call, call.made.key, expected.key) +
           compare_gradient("d_value", call, call.made.value, expected.value) +
           compare_gradient("d_attn_mask", call, call.made.attn_mask, expected.attn_mask) +
           compare_gradient("d_sinks", call, call.made.sinks, expected.sinks);
}

} // namespace

bool same_bits(Gradients &one, Gradients &other) {
    const auto of_one = one.all(), of_other = other.all();
    for (std::size_t i = 0; i < of_one.size(); ++i)
        if (!std::ranges::equal(of_one[i].second->bytes(), of_other[i].second->bytes())) return false;
    return true;
}

std::string try_backward(BackwardCall &call, TestDevice &device) {
    try {
        const vkattn::Plan plan = device.context().attention_backward_plan(call.describe());
        std::string complaints = device.try_run(plan, call.regions());
        Gradients first = call.made;
        complaints += device.try_run(plan, call.regions());
        if (!same_bits(first, call.made)) complaints += "other bits in the second run\n";
        return complaints + compare_gradients(call);
    } catch (const vkattn::Error &error) {
        return error.what();
    }
}

std::string try_backward(const AttentionProblem &problem, const BackwardOptions &options) {
    BackwardCall call(problem, options);
    return try_backward(call);
}

} // namespace vkattn_test
