#include "runtime/ops/rope.hpp"

#include "runtime/ops/elementwise.hpp"

#include <cmath>

namespace vkattn {

std::vector<RopeFrequency> rope_frequencies(uint32_t dims, double theta) {
    constexpr double kTau = 6.28318530717958647693;
    constexpr double kWord = 4294967296.0;
    std::vector<RopeFrequency> frequencies(dims / 2);
    for (uint32_t i = 0; i < frequencies.size(); ++i) {
        const double radians = std::pow(theta, -2.0 * i / dims);
        const double turns = radians / kTau - std::floor(radians / kTau);
        const double high = std::floor(turns * kWord);
        frequencies[i] = {static_cast<uint32_t>((turns * kWord - high) * kWord), static_cast<uint32_t>(high), 1.0f};
    }
    return frequencies;
}

void add_rope(Plan &plan, const View &input, const View &output, const View &frequencies, bool interleaved, uint32_t offset,
              const View &past_lengths) {
    gpu::RopePush push{};
    for (uint32_t dim = 0; dim < 3; ++dim) {
        push.input_strides[dim] = static_cast<uint32_t>(input.tensor.strides[dim]);
        push.output_strides[dim] = static_cast<uint32_t>(output.tensor.strides[dim]);
    }
    push.positions = static_cast<uint32_t>(input.tensor.shape[2]);
    push.pairs = static_cast<uint32_t>(input.tensor.shape[3] / 2);
    push.offset = offset;
    gpu::RopeConstants constants;
    constants.INTERLEAVED = interleaved;
    constants.HAS_PAST_LENGTHS = present(past_lengths);
    Step &step = plan.add_step(plan.context().pipelines().get(Module::kRope, constants), push);
    set_elementwise_grid(plan, step, uint64_t{push.positions} * push.pairs, input.tensor, "rope");
    bind(plan, step, BINDING_ROPE_INPUT, input);
    bind(plan, step, BINDING_ROPE_OUTPUT, output);
    bind(plan, step, BINDING_ROPE_FREQUENCIES, frequencies);
    bind(plan, step, BINDING_ROPE_PAST_LENGTHS, past_lengths);
    step.written_binding = BINDING_ROPE_OUTPUT;
}

} // namespace vkattn
