#include "tools/cases/case_runner.hpp"

#include "tools/cases/case_problem.hpp"
#include "tools/cases/case_variant.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/progress.hpp"
#include "tools/tensors/stored_types.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

namespace vkattn::tools {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A plan and the layer that it may belong to, destroyed in the right order.
struct PlannedCase {
    std::optional<Layer> layer;
    std::optional<Plan> plan;
};

// Of attention, or of its gradients where some are given.
Plan plan_attention(const Context &context, const Problem &problem, vkattn_attention_desc desc,
                    const vkattn_attention_backward_desc *gradients = nullptr) {
    Variant variant;
    if (!problem.functions.empty()) variant = make_variant(context, problem.functions);
    desc.variant = variant.get();
    if (gradients == nullptr) return context.attention_plan(desc);
    vkattn_attention_backward_desc backward = *gradients;
    backward.attention = &desc;
    return context.attention_backward_plan(backward);
}

PlannedCase make_plan(const Context &context, const Problem &problem) {
    PlannedCase planned;
    if (const auto *attention = std::get_if<vkattn_attention_desc>(&problem.description)) {
        planned.plan = plan_attention(context, problem, *attention);
        return planned;
    }
    if (const auto *backward = std::get_if<BackwardProblem>(&problem.description)) {
        planned.plan = plan_attention(context, problem, backward->attention, &backward->gradients);
        return planned;
    }
    if (const auto *index = std::get_if<vkattn_index_desc>(&problem.description)) {
        planned.plan = context.index_plan(*index);
        return planned;
    }
    if (const auto *linear = std::get_if<vkattn_linear_desc>(&problem.description)) {
        planned.plan = context.linear_plan(*linear);
        return planned;
    }
    if (const auto *linear = std::get_if<vkattn_linear_attention_desc>(&problem.description)) {
        planned.plan = context.linear_attention_plan(*linear);
        return planned;
    }
    if (const auto *convolution = std::get_if<vkattn_causal_conv1d_desc>(&problem.description)) {
        planned.plan = context.causal_conv1d_plan(*convolution);
        return planned;
    }
    const auto &described = std::get<LayerProblem>(problem.description);
    planned.layer = context.layer(described.config, described.weights);
    planned.plan = planned.layer->plan(described.call);
    return planned;
}

using BufferMap = std::map<vkattn_role, Buffer>;

BufferMap make_buffers(const Context &context, const Problem &problem) {
    BufferMap buffers;
    for (const ProblemInput &input : problem.inputs) {
        Buffer &buffer = buffers.emplace(input.role, context.buffer(input.layout)).first->second;
        if ((!is_quantised(input.layout.type) && !input.rotated) || input.bytes.empty()) {
            buffer.write(input.bytes);
            continue;
        }
        Buffer values = context.buffer(input.bytes.size());
        values.write(input.bytes);
        store(context, input.layout, values, buffer, input.rotated);
    }
    for (const ProblemOutput &output : problem.outputs)
        if (!buffers.contains(output.role)) buffers.emplace(output.role, context.buffer(output.layout));
    return buffers;
}

HostTensor fetch(const BufferMap &buffers, const ProblemOutput &output) {
    const std::optional<std::uint64_t> bytes = tensor_bytes(output.dtype, output.shape);
    HostTensor tensor{output.dtype, output.shape, std::vector<std::byte>(bytes.value_or(0))};
    buffers.at(output.role).read(tensor.bytes);
    return tensor;
}

CaseResult run_problem(const Context &context, const Problem &problem, std::span<const std::string> wanted) {
    CaseResult result;
    const Clock::time_point plan_start = Clock::now();
    const PlannedCase planned = make_plan(context, problem);
    result.plan_ms = ms_since(plan_start);
    const vkattn_report report = planned.plan->report();
    result.kernel = report.kernel_name;
    result.reason = report.reason;
    result.workspace_bytes = planned.plan->requirements().workspace_bytes;

    const BufferMap buffers = make_buffers(context, problem);
    std::vector<vkattn_binding> bindings;
    for (const auto &[role, buffer] : buffers) bindings.push_back(bind(role, buffer));
    const Clock::time_point run_start = Clock::now();
    result.gpu_ms = planned.plan->run(bindings);
    result.run_ms = ms_since(run_start);
    for (const ProblemOutput &output : problem.outputs)
        if (std::ranges::find(wanted, output.name) != wanted.end())
            result.outputs[output.name] = fetch(buffers, output);
    return result;
}

} // namespace

CaseResult run_case(const Context &context, const CaseFile &input, std::span<const std::string> wanted,
                    vkattn_kernel kernel) {
    const Problem problem = make_problem(input, wanted, kernel);
    const Waiting waiting("running " + clean_line(input.name()));
    try {
        return run_problem(context, problem, wanted);
    } catch (const Error &error) {
        throw InputError(input.file, error.what());
    }
}

std::vector<std::string> expected_outputs(const CaseFile &input) {
    std::vector<std::string> names;
    for (const auto &[name, tensor] : input.expected) names.push_back(name);
    return names;
}

} // namespace vkattn::tools
