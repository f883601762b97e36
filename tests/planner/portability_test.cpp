// What any driver can be asked, that of a GPU which is not there too: contexts, plans and pipelines of what the sweeps
// draw, with every kernel, and no run. Nothing is submitted but the weights of layers, where the host cannot write them
// to the device's memory itself.
#include "attention_draws.hpp"
#include "device.hpp"
#include "layer_draws.hpp"
#include "sequence_draws.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <sstream>

using namespace vkattn_test;

namespace {

// A device whose kernels are not tested before their first use, and what was planned on it.
class Portability : public DeviceTest {
  protected:
    const vkattn::Context &context() { return device().context(); }

    // What is wrong with problems of one kind, and a line of what was planned.
    template <typename Complaints>
    void plan_all(Complaints &&complaints_of) {
        sweep(complaints_of, [this] { device_.reset(); });
        std::ostringstream line;
        for (const auto &[kernel, count] : planned_) line << count << " " << kernel_text(kernel) << ", ";
        MESSAGE("plans: " << line.str() << refused_ << " refused");
    }

    // Plans with each kernel, and with the one that is chosen. A requested kernel may say that it does not
    // serve, and must where the device cannot run it; the choice must always find one. Returns what is wrong.
    template <typename Plan>
    std::string with_each_kernel(Plan &&plan) {
        std::string complaints = attempt(VKATTN_KERNEL_AUTO, true, plan);
        const vkattn_device_facts &facts = device().facts();
        for (const vkattn_kernel_support &support : std::span(facts.kernels, facts.kernel_count))
            complaints += attempt(support.kernel, support.supported != 0, plan);
        return complaints;
    }

    template <typename Plan>
    std::string attempt(vkattn_kernel kernel, bool supported, Plan &&plan) {
        try {
            const vkattn::Plan made = plan(kernel);
            ++planned_[kernel];
            const vkattn_kernel taken = made.report().kernel;
            if (!supported) return kernel_text(kernel) + ": planned, though the device cannot run it\n";
            if (kernel != VKATTN_KERNEL_AUTO && taken != kernel)
                return kernel_text(kernel) + ": " + kernel_text(taken) + " was taken\n";
            return can_run(device().facts(), taken) || taken == VKATTN_KERNEL_AUTO
                       ? ""
                       : kernel_text(taken) + ": chosen, though the device cannot run it\n";
        } catch (const vkattn::Error &error) {
            ++refused_;
            const bool may_refuse = kernel != VKATTN_KERNEL_AUTO && error.result() == VKATTN_ERROR_UNSUPPORTED;
            return may_refuse ? "" : kernel_text(kernel) + ": " + error.what() + "\n";
        }
    }

  private:
    TestDevice &device() {
        if (!device_) device_.emplace(validation_messages(), "self_test=0");
        return *device_;
    }

    std::optional<TestDevice> device_;
    std::map<vkattn_kernel, unsigned> planned_;
    unsigned refused_ = 0;
};

std::string with_problem(const std::string &complaints, const std::string &problem) {
    return complaints.empty() ? "" : complaints + "of " + problem;
}

constexpr std::initializer_list<vkattn_type> kFloats = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

// An append, a merge, a linear layer, a norm and an embedding of one number.
struct OperatorDraw {
    explicit OperatorDraw(unsigned seed) : random(seed) {}
    Random random;

    std::uint64_t width() { return random.one_in(2) ? 8 * random.up_to(64) : random.up_to(300); }
    vkattn_type type() { return random.any(kFloats); }
    HostTensor tensor(Shape shape) { return {type(), std::move(shape)}; }

    vkattn_kv_append_desc append() {
        const vkattn_type cache_type = random.any(cached_types());
        const std::uint64_t batch = random.up_to(3), heads = random.up_to(8), len = random.up_to(40);
        const std::uint64_t size = is_quantised(cache_type) ? 32 * random.up_to(8) : random.up_to(256);
        vkattn_kv_append_desc desc{};
        desc.source = tensor({batch, heads, len, size}).view();
        desc.cache = HostTensor(cache_type, {batch, heads, len + random.up_to(64), size}).view();
        if (random.one_in(2)) desc.past_lengths = HostTensor(VKATTN_TYPE_I32, {batch}).view();
        return desc;
    }

    vkattn_merge_desc merge() {
        const Shape rows = {random.up_to(3), random.up_to(8), random.up_to(40)};
        Shape all = rows;
        all.push_back(random.up_to(300));
        vkattn_merge_desc desc{};
        desc.part_count = static_cast<std::uint32_t>(random.up_to(9));
        desc.accumulate = random.one_in(2) ? 1 : 0;
        desc.partial_output = tensor(all).view();
        desc.partial_log_sum_exp = HostTensor(VKATTN_TYPE_F32, rows).view();
        desc.partial_output_stride = all[0] * all[1] * all[2] * all[3];
        desc.partial_log_sum_exp_stride = rows[0] * rows[1] * rows[2];
        desc.output = tensor(all).view();
        desc.log_sum_exp = HostTensor(VKATTN_TYPE_F32, rows).view();
        return desc;
    }

    vkattn_linear_desc linear() {
        const std::uint64_t batch = random.up_to(2), len = random.one_in(2) ? random.up_to(6) : random.up_to(600),
                            in = width(), out = width();
        vkattn_linear_desc desc{};
        desc.input = tensor({batch, len, in}).view();
        const bool gated = random.one_in(3);
        const vkattn_type weight = random.one_in(2) ? desc.input.type : type();
        desc.weight = gated ? HostTensor(weight, {2, out, in}).view() : HostTensor(weight, {out, in}).view();
        desc.output = tensor({batch, len, out}).view();
        if (random.one_in(2)) desc.bias = gated ? tensor({2, out}).view() : tensor({out}).view();
        if (!gated && random.one_in(3)) desc.multiplier = tensor({batch, len, out}).view();
        if (random.one_in(3)) desc.residual = tensor({batch, len, out}).view();
        desc.activation = static_cast<vkattn_activation>(random.up_to(VKATTN_ACTIVATION_SOFTPLUS + 1) - 1);
        return desc;
    }

    vkattn_norm_desc norm() {
        const Shape tokens = {random.up_to(2), random.up_to(40), width()};
        vkattn_norm_desc desc{};
        desc.input = tensor(tokens).view();
        desc.weight = tensor({tokens[2]}).view();
        if (random.one_in(2)) desc.bias = tensor({tokens[2]}).view();
        desc.output = tensor(tokens).view();
        desc.kind = random.any({VKATTN_NORM_RMS, VKATTN_NORM_LAYER});
        return desc;
    }

    vkattn_embedding_desc embedding() {
        const std::uint64_t batch = random.up_to(2), len = random.up_to(40), size = width();
        vkattn_embedding_desc desc{};
        desc.tokens = HostTensor(VKATTN_TYPE_I32, {batch, len}).view();
        desc.weight = tensor({random.up_to(100), size}).view();
        desc.output = tensor({batch, len, size}).view();
        return desc;
    }
};

} // namespace

TEST_SUITE_BEGIN("portability");

TEST_CASE_FIXTURE(Portability, "random problems are planned with every kernel of the device") {
    plan_all([this](unsigned seed) {
        const AttentionDraw drawn = draw_attention(seed);
        const AttentionProblem problem = problem_of(drawn);
        return with_problem(with_each_kernel([&](vkattn_kernel kernel) {
                                return context().attention_plan(
                                    describe(problem, all_results(problem, kernel, drawn.output), kernel));
                            }),
                            text(drawn));
    });
}

TEST_CASE_FIXTURE(Portability, "random batches of sequences are planned with every kernel of the device") {
    plan_all([this](unsigned seed) {
        const SequencesDraw drawn = draw_sequences(seed);
        std::mt19937 random(seed);
        std::vector<Sequence> sequences = make_sequences(drawn.batch, random);
        const SequencesBatch batch = make_batch(drawn.batch, sequences, random);
        return with_problem(with_each_kernel([&](vkattn_kernel kernel) {
                                return context().attention_plan(describe(drawn.batch, batch, kernel));
                            }),
                            text(drawn));
    });
}

TEST_CASE_FIXTURE(Portability, "random layers are made and planned") {
    plan_all([this](unsigned seed) {
        const LayerDraw drawn = draw_layer(seed);
        const LayerProblem problem = problem_of(drawn);
        const LayerResults results = results_of(drawn);
        std::optional<vkattn::Layer> layer;
        const auto plan = [&](vkattn_kernel kernel) {
            if (!layer) layer.emplace(make_layer(problem.config, problem.weights, context()));
            return layer->plan(call_of(problem, results, kernel));
        };
        std::string complaints;
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_UNFUSED})
            complaints += attempt(kernel, true, plan);
        return with_problem(complaints, text(drawn));
    });
}

TEST_CASE_FIXTURE(Portability, "random appends, merges, linear layers, norms and embeddings are planned") {
    plan_all([this](unsigned seed) {
        OperatorDraw drawn(seed);
        const auto planned = [this](const char *name, auto &&plan) {
            return with_problem(attempt(VKATTN_KERNEL_AUTO, true, [&](vkattn_kernel) { return plan(); }), name);
        };
        return planned("kv_append", [&] { return context().kv_append_plan(drawn.append()); }) +
               planned("merge", [&] { return context().merge_plan(drawn.merge()); }) +
               planned("linear", [&] { return context().linear_plan(drawn.linear()); }) +
               planned("norm", [&] { return context().norm_plan(drawn.norm()); }) +
               planned("embedding", [&] { return context().embedding_plan(drawn.embedding()); });
    });
}

TEST_SUITE_END();
