// Gradients of layers against differences of the float64 reference: every gradient, types, heads, rotary embeddings, norms, masks, packed
// tokens; with saved activations and computed again, which give the same bits; what is refused.
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace vkattn_test;

namespace {

// What is drawn of a problem, and how gradients are stored.
struct Draw {
    const char *name;
    vkattn_layer_config config{};
    std::uint64_t batch = 1, len = 1, kv_len = 0; // kv_len: of cross attention
    vkattn_type tokens = VKATTN_TYPE_F32, weights = VKATTN_TYPE_F32, gradients = VKATTN_TYPE_F32;
    bool biases = true, head_norms = false, gate = false, norm = false, positions = false, lengths = false,
         mask = false;
    std::uint32_t mask_flags = VKATTN_MASK_NONE;
    std::int32_t window_left = -1;
};

vkattn_layer_config grouped(std::uint32_t width, std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t head_dim,
                            float theta = 0.0f, std::uint32_t interleaved = 0, std::uint32_t rotary_dim = 0) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = width;
    config.num_heads = heads;
    config.num_kv_heads = kv_heads;
    config.head_dim = head_dim;
    config.rope_theta = theta;
    config.rope_interleaved = interleaved;
    config.rotary_dim = rotary_dim;
    return config;
}

// Numbers of few digits, so that those near them are floats, too.
HostTensor rounded_tensor(vkattn_type type, const Shape &shape, std::mt19937 &random, float deviation = 1.0f) {
    const HostTensor half = normal_tensor(type == VKATTN_TYPE_BF16 ? type : VKATTN_TYPE_F16, shape, random, deviation);
    return tensor_of(type, shape, half.floats());
}

Weights drawn_weights(const Draw &d, std::mt19937 &random) {
    LayerCase c = layer_case("", d.config);
    if (d.gate) c.linears["gate_proj"] = c.linears.at("q_proj");
    if (!d.head_norms && d.config.kind == VKATTN_LAYER_MHA) c.others.clear();
    const vkattn_type rounding = d.weights == VKATTN_TYPE_BF16 ? VKATTN_TYPE_BF16 : VKATTN_TYPE_F16;
    Weights weights = random_weights(c, random, {rounding, d.weights == VKATTN_TYPE_F32});
    if (!d.biases) std::erase_if(weights, [](const auto &weight) { return weight.first.ends_with(".bias"); });
    return weights;
}

LayerProblem drawn(const Draw &d) {
    std::mt19937 random(static_cast<unsigned>(d.len * 31 + d.config.num_heads));
    LayerProblem p;
    p.config = d.config;
    p.weights = drawn_weights(d, random);
    const std::uint64_t width = d.config.embed_dim, keys = d.kv_len != 0 ? d.kv_len : d.len;
    p.query = rounded_tensor(d.tokens, {d.batch, d.len, width}, random);
    if (d.kv_len != 0) p.key = rounded_tensor(d.tokens, {d.batch, d.kv_len, width}, random);
    if (d.kv_len != 0) p.value = rounded_tensor(d.tokens, {d.batch, d.kv_len, width}, random);
    if (d.norm) p.norm_weight = rounded_tensor(d.weights, {width}, random);
    if (d.mask) p.attn_mask = normal_tensor(VKATTN_TYPE_F32, {d.len, keys}, random);
    if (d.lengths) {
        p.key_lengths = HostTensor(VKATTN_TYPE_I32, {d.batch});
        for (std::uint64_t b = 0; b < d.batch; ++b) p.key_lengths.set(b, static_cast<float>(keys - 1 - b % keys));
    }
    if (d.positions) {
        const std::uint64_t streams = d.config.rope_sections[1] != 0 ? 2 : 1;
        p.positions = HostTensor(VKATTN_TYPE_I32, {streams, d.batch, d.len});
        for (std::uint64_t i = 0; i < p.positions.elements(); ++i)
            p.positions.set(i, static_cast<float>(random() % 50));
    }
    p.mask_flags = d.mask_flags;
    p.window_left = d.window_left;
    return p;
}

// What a layer's backward pass gives: tensors that are not present are not asked for.
struct LayerGradients {
    HostTensor query, key, value, norm_weight;
    Weights weights;
};

LayerGradients all_gradients(const LayerProblem &p, vkattn_type type) {
    const auto like = [&](const HostTensor &tensor) {
        return tensor.present() ? HostTensor(type, tensor.shape()) : HostTensor();
    };
    LayerGradients all{like(p.query), like(p.key), like(p.value), like(p.norm_weight), {}};
    for (const auto &[name, weight] : p.weights) all.weights[name] = like(weight);
    return all;
}

// Gradients of weights in one buffer, with bytes between them that nobody may write.
class GradientBuffer {
  public:
    GradientBuffer(const vkattn::Context &context, Weights &gradients) : gradients_(gradients) {
        for (const auto &[name, tensor] : gradients) {
            const std::size_t bytes = vkattn_tensor_bytes(&tensor.view());
            offsets_.push_back(bytes_.size() + kGuard);
            bytes_.insert(bytes_.end(), kGuard, kGapByte);
            bytes_.insert(bytes_.end(), tensor.bytes().begin(), tensor.bytes().end());
            bytes_.resize(offsets_.back() + bytes, kGapByte);
            bytes_.resize((bytes_.size() + kGuard - 1) / kGuard * kGuard, kGapByte);
        }
        bytes_.insert(bytes_.end(), kGuard, kGapByte);
        buffer_ = context.buffer(bytes_.size());
        buffer_.write(bytes_);
    }

    std::vector<vkattn_weight_gradient> described() const {
        std::vector<vkattn_weight_gradient> described;
        std::size_t i = 0;
        for (const auto &[name, tensor] : gradients_)
            described.push_back(
                {name.c_str(), tensor.view(), {buffer_.vulkan(), offsets_[i++], vkattn_tensor_bytes(&tensor.view())}});
        return described;
    }

    // Reads them; what else was written, "" for nothing.
    std::string read() {
        std::vector<std::uint8_t> now(bytes_.size());
        buffer_.read(now);
        std::size_t i = 0;
        for (auto &[name, tensor] : gradients_) {
            const std::size_t offset = offsets_[i++], bytes = tensor.bytes().size();
            const auto at = now.begin() + static_cast<std::ptrdiff_t>(offset);
            const std::vector<std::uint8_t> found(at, at + static_cast<std::ptrdiff_t>(bytes));
            std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, at);
            std::ranges::copy(found, tensor.bytes().begin());
        }
        return now == bytes_ ? "" : "bytes around gradients of weights were written\n";
    }

  private:
    static constexpr std::size_t kGuard = 256;
    Weights &gradients_;
    std::vector<std::size_t> offsets_;
    std::vector<std::uint8_t> bytes_;
    vkattn::Buffer buffer_;
};

// A backward pass on its way.
struct Call {
    const LayerProblem *problem;
    HostTensor d_output{}, residual{};
    bool is_saved = false, accumulates = false;
    HostTensor output{}; // of the forward pass that saves
};

// Runs the pass, the forward one before it where that saves; what is wrong, "" for nothing.
std::string run_backward(const vkattn::Layer &layer, Call &call, LayerGradients &gradients) {
    const LayerProblem &p = *call.problem;
    std::string wrong;
    LayerResults results;
    vkattn_layer_call forward = call_of(p, results, VKATTN_KERNEL_AUTO);
    vkattn_layer_backward_desc desc{};
    desc.call = &forward;
    HostTensor activations;
    std::vector<Region> regions = regions_of_inputs(p);
    if (call.is_saved) {
        const vkattn_tensor described = layer.activations(forward);
        activations = HostTensor(described.type, {described.shape[0], described.shape[1]});
        call.output = HostTensor(p.query.type(), p.query.shape());
        forward.activations = desc.activations = activations.view();
        forward.output = call.output.view();
        std::vector<Region> of_forward = regions;
        of_forward.push_back({VKATTN_ROLE_OUTPUT, &call.output, Access::kWrite});
        of_forward.push_back({VKATTN_ROLE_ACTIVATIONS, &activations, Access::kWrite});
        wrong += test_device().try_run(layer.plan(forward), of_forward);
        regions.push_back({VKATTN_ROLE_ACTIVATIONS, &activations, Access::kRead});
    }
    desc.d_output = call.d_output.view();
    desc.residual = call.residual.view();
    desc.d_query = gradients.query.view();
    desc.d_key = gradients.key.view();
    desc.d_value = gradients.value.view();
    desc.d_norm_weight = gradients.norm_weight.view();
    desc.accumulate = call.accumulates ? 1 : 0;
    GradientBuffer buffer(test_device().context(), gradients.weights);
    const std::vector<vkattn_weight_gradient> described = buffer.described();
    desc.gradients = described.data();
    desc.gradient_count = static_cast<std::uint32_t>(described.size());
    const auto add = [&](vkattn_role role, HostTensor &tensor, Access access) {
        if (tensor.present()) regions.push_back({role, &tensor, access});
    };
    add(VKATTN_ROLE_D_OUTPUT, call.d_output, Access::kRead);
    add(VKATTN_ROLE_RESIDUAL, call.residual, Access::kRead);
    add(VKATTN_ROLE_D_QUERY, gradients.query, Access::kWrite);
    add(VKATTN_ROLE_D_KEY, gradients.key, Access::kWrite);
    add(VKATTN_ROLE_D_VALUE, gradients.value, Access::kWrite);
    add(VKATTN_ROLE_D_NORM_WEIGHT, gradients.norm_weight, call.accumulates ? Access::kReadWrite : Access::kWrite);
    const vkattn::Plan plan = layer.backward_plan(desc);
    if (layer.measure_backward(desc).workspace_bytes != plan.requirements().workspace_bytes)
        wrong += "the measure is not what the plan takes\n";
    wrong += test_device().try_run(plan, regions);
    return wrong + buffer.read();
}

// The same numbers as floats, for differences.
HostTensor in_f32(const HostTensor &tensor) {
    if (!tensor.present() || tensor.type() == VKATTN_TYPE_I32 || tensor.type() == VKATTN_TYPE_BOOL) return tensor;
    return tensor_of(VKATTN_TYPE_F32, tensor.shape(), tensor.floats());
}

LayerProblem in_f32(LayerProblem p) {
    for (HostTensor *tensor : {&p.query, &p.key, &p.value, &p.norm_weight}) *tensor = in_f32(*tensor);
    for (auto &[name, weight] : p.weights) weight = in_f32(weight);
    return p;
}

// Some elements of a gradient, by differences of the reference's loss of the fourth order, whose error is far below that of f32.
struct Sample {
    std::vector<std::uint64_t> elements;
    std::vector<double> values;
};

class Differences {
  public:
    Differences(const LayerProblem &problem, const HostTensor &d_output)
        : problem_(in_f32(problem)), d_output_(d_output.values()) {}

    LayerProblem &problem() { return problem_; }

    Sample of(HostTensor &tensor, std::uint64_t most) const {
        Sample sample;
        std::mt19937 random(7);
        const std::uint64_t all = tensor.elements();
        for (std::uint64_t i = 0; i < std::min(all, most); ++i)
            sample.elements.push_back(all <= most ? i : random() % all);
        for (const std::uint64_t element : sample.elements) sample.values.push_back(slope(tensor, element));
        return sample;
    }

  private:
    double loss() const {
        const std::vector<double> output = reference_layer(problem_).output;
        double sum = 0.0;
        for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * d_output_[i];
        return sum;
    }

    double slope(HostTensor &tensor, std::uint64_t element) const {
        // far below what bends, a head's norm most, and far above the rounding of what the reference attends, of MLA's sums of many terms
        const float step = problem_.config.kind == VKATTN_LAYER_MLA ? 0x1p-6f : 0x1p-7f;
        const float held = tensor.get(element);
        const auto at = [&](float steps) {
            tensor.set(element, held + steps * step);
            return loss();
        };
        const double near = at(1) - at(-1), far = at(2) - at(-2);
        tensor.set(element, held);
        return (8.0 * near - far) / (12.0 * static_cast<double>(step));
    }

    LayerProblem problem_;
    std::vector<double> d_output_;
};

double rms(const std::vector<double> &values) {
    double squares = 0.0;
    for (const double value : values) squares += value * value;
    return values.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(values.size()));
}

// least: how large the terms of a sum are that may cancel.
std::string compare_sample(const std::string &name, const Sample &sample, const HostTensor &made, double bound,
                           double least = 0.0) {
    std::vector<float> floats;
    for (const std::uint64_t element : sample.elements) floats.push_back(made.get(element));
    const Comparison result = compare(name.c_str(), {sample.values.size()}, sample.values, floats, bound, least);
    return result.passed ? "" : result.report + "\n";
}

bool has_same_bits(const LayerGradients &a, const LayerGradients &b) {
    const auto same = [](const HostTensor &one, const HostTensor &other) {
        return std::ranges::equal(one.bytes(), other.bytes());
    };
    bool all =
        same(a.query, b.query) && same(a.key, b.key) && same(a.value, b.value) && same(a.norm_weight, b.norm_weight);
    for (const auto &[name, tensor] : a.weights) all = all && same(tensor, b.weights.at(name));
    return all;
}

HostTensor drawn_d_output(const LayerProblem &p) {
    std::mt19937 random(5);
    return rounded_tensor(p.query.type(), p.query.shape(), random);
}

constexpr std::uint64_t kElements = 16; // of a gradient that are compared

std::string compare_gradients(const Draw &d, const LayerProblem &p, const HostTensor &d_output,
                              const LayerGradients &made) {
    const double bound = 10.0 * nmse_bound({d.tokens, d.weights, d.gradients});
    Differences differences(p, d_output);
    LayerProblem &at = differences.problem();
    std::string wrong;
    const auto check = [&](const char *name, HostTensor &tensor, const HostTensor &gradient) {
        if (tensor.present()) wrong += compare_sample(name, differences.of(tensor, kElements), gradient, bound);
    };
    check("d_query", at.query, made.query);
    check("d_key", at.key, made.key);
    check("d_value", at.value, made.value);
    check("d_norm_weight", at.norm_weight, made.norm_weight);
    std::map<std::string, Sample> samples;
    for (auto &[name, weight] : at.weights) samples[name] = differences.of(weight, kElements);
    for (const auto &[name, sample] : samples) {
        // what is added to every key changes no weight of attention: a bias may have the gradient 0
        const std::string matrix = name.substr(0, name.rfind('.')) + ".weight";
        const double least = name.ends_with(".bias") ? rms(samples.at(matrix).values) : 0.0;
        wrong += compare_sample(name, sample, made.weights.at(name), bound, least);
    }
    return wrong;
}

// Both ways: against the reference, and the same bits.
void check_draw(const Draw &d) {
    INFO(d.name);
    const LayerProblem p = drawn(d);
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    Call again{.problem = &p, .d_output = drawn_d_output(p)}, saved = again;
    saved.is_saved = true;
    LayerGradients gradients = all_gradients(p, d.gradients), of_saved = gradients, second = gradients;
    std::string wrong = run_backward(layer, again, gradients) + run_backward(layer, saved, of_saved);
    wrong += compare_gradients(d, p, again.d_output, gradients);
    LayerResults results;
    results.output = saved.output;
    wrong += compare_layer(p, reference_layer(p), results);
    CHECK_MESSAGE(wrong.empty(), wrong);
    CHECK(has_same_bits(gradients, of_saved));
    run_backward(layer, again, second);
    CHECK(has_same_bits(gradients, second));
}

constexpr float kTheta = 10000.0f;

vkattn_layer_config with_sections(vkattn_layer_config config) {
    config.rope_sections[0] = 2;
    config.rope_sections[1] = 1;
    return config;
}

vkattn_layer_config capped(vkattn_layer_config config) {
    config.softcap = 3.0f;
    config.scale = 0.7f;
    return config;
}

} // namespace

TEST_SUITE_BEGIN("layer_gradients");

TEST_CASE_FIXTURE(DeviceTest, "gradients of multi-head attention without rotary embedding, with biases and without") {
    check_draw({.name = "one token", .config = grouped(8, 2, 2, 4), .biases = false});
    check_draw({.name = "without biases", .config = grouped(12, 3, 3, 4), .batch = 2, .len = 5, .biases = false});
    check_draw(
        {.name = "causal", .config = grouped(20, 2, 2, 10), .batch = 2, .len = 9, .mask_flags = VKATTN_MASK_CAUSAL});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of grouped queries with rotary embeddings, of whole heads and of a part") {
    check_draw({.name = "halves",
                .config = grouped(20, 4, 2, 6, kTheta),
                .batch = 2,
                .len = 11,
                .mask_flags = VKATTN_MASK_CAUSAL});
    check_draw({.name = "interleaved, of a part, one KV head",
                .config = grouped(24, 3, 1, 10, kTheta, 1, 4),
                .len = 33,
                .mask_flags = VKATTN_MASK_CAUSAL});
    vkattn_layer_config in_turn = grouped(12, 4, 2, 4, kTheta);
    in_turn.kv_head_mapping = VKATTN_KV_HEADS_MODULO;
    check_draw({.name = "query heads that read KV heads in turn", .config = in_turn, .len = 5});
    check_draw({.name = "sections of positions",
                .config = with_sections(grouped(12, 2, 1, 6, kTheta)),
                .batch = 2,
                .len = 7,
                .positions = true});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of a layer with norms of heads, a norm before it and a gate") {
    check_draw({.name = "norms of heads",
                .config = grouped(16, 4, 2, 6),
                .batch = 2,
                .len = 6,
                .head_norms = true,
                .mask_flags = VKATTN_MASK_CAUSAL});
    check_draw({.name = "norms of heads, rotated, a norm before",
                .config = grouped(16, 4, 2, 6, kTheta),
                .batch = 2,
                .len = 6,
                .head_norms = true,
                .norm = true,
                .mask_flags = VKATTN_MASK_CAUSAL});
    check_draw({.name = "a gate", .config = grouped(16, 2, 2, 8, kTheta), .batch = 2, .len = 5, .gate = true});
    check_draw({.name = "all of them, in a window",
                .config = grouped(16, 4, 2, 4, kTheta),
                .len = 17,
                .head_norms = true,
                .gate = true,
                .norm = true,
                .mask_flags = VKATTN_MASK_CAUSAL,
                .window_left = 4});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of cross attention, of lengths, of a mask, of a softcap") {
    check_draw({.name = "cross", .config = grouped(12, 2, 1, 6), .batch = 2, .len = 5, .kv_len = 8});
    check_draw({.name = "lengths", .config = grouped(12, 2, 1, 6, kTheta), .batch = 3, .len = 6, .lengths = true});
    check_draw({.name = "mask", .config = capped(grouped(12, 2, 2, 6, kTheta)), .batch = 2, .len = 6, .mask = true});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of MLA of both forms, with low rank queries and without, in every type") {
    for (const vkattn_mla_form form : {VKATTN_MLA_NAIVE, VKATTN_MLA_ABSORB})
        for (const std::uint32_t rank : {0u, 11u}) {
            INFO((form == VKATTN_MLA_NAIVE ? "naive" : "absorb"), ", q_lora_rank ", rank);
            check_draw({.name = "causal",
                        .config = mla_case(form, rank, rank != 0).config,
                        .batch = 2,
                        .len = 7,
                        .norm = rank == 0,
                        .mask_flags = VKATTN_MASK_CAUSAL});
        }
    vkattn_layer_config unturned = mla_case(VKATTN_MLA_NAIVE, 11, false).config;
    unturned.rope_theta = 0.0f;
    check_draw({.name = "not rotated, without biases, lengths",
                .config = unturned,
                .batch = 2,
                .len = 5,
                .biases = false,
                .lengths = true});
    for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16})
        check_draw({.name = "of 16 bits",
                    .config = mla_case(VKATTN_MLA_NAIVE, 11, false, true).config,
                    .len = 20,
                    .tokens = type,
                    .weights = type,
                    .gradients = type,
                    .norm = true,
                    .positions = true,
                    .mask_flags = VKATTN_MASK_CAUSAL});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of layers in f16 and bf16, and of weights in types of their own") {
    for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16})
        for (const vkattn_type gradients : {VKATTN_TYPE_F32, type}) {
            INFO(type_name(type), " to ", type_name(gradients));
            check_draw({.name = "grouped",
                        .config = grouped(32, 4, 2, 16, kTheta),
                        .len = 40,
                        .tokens = type,
                        .weights = type,
                        .gradients = gradients,
                        .mask_flags = VKATTN_MASK_CAUSAL});
        }
    check_draw({.name = "tokens of f16, weights of f32",
                .config = grouped(24, 2, 1, 12, kTheta),
                .len = 9,
                .tokens = VKATTN_TYPE_F16,
                .head_norms = true,
                .norm = true});
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of layers accumulate, and add another branch's gradient to the query's") {
    const LayerProblem p = drawn({.name = "",
                                  .config = grouped(16, 4, 2, 6, kTheta),
                                  .batch = 2,
                                  .len = 6,
                                  .head_norms = true,
                                  .norm = true,
                                  .mask_flags = VKATTN_MASK_CAUSAL});
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    Call call{.problem = &p, .d_output = drawn_d_output(p)};
    LayerGradients gradients = all_gradients(p, VKATTN_TYPE_F32);
    CHECK(run_backward(layer, call, gradients) == "");
    std::mt19937 random(3);
    call.residual = normal_tensor(VKATTN_TYPE_F32, p.query.shape(), random);
    call.accumulates = true;
    LayerGradients sums = gradients; // of themselves and the same once more
    CHECK(run_backward(layer, call, sums) == "");
    for (const auto &[name, tensor] : gradients.weights) {
        std::vector<double> twice = tensor.values();
        for (double &value : twice) value *= 2.0;
        const Comparison result = compare(name.c_str(), tensor.shape(), twice, sums.weights.at(name).floats(), 1e-12);
        CHECK_MESSAGE(result.passed, result.report);
    }
    std::vector<double> with_branch = gradients.query.values();
    for (std::size_t i = 0; i < with_branch.size(); ++i) with_branch[i] += call.residual.values()[i];
    const Comparison result = compare("d_query", p.query.shape(), with_branch, sums.query.floats(), 1e-12);
    CHECK_MESSAGE(result.passed, result.report);
}

namespace {

// Of both kinds, with all that each has.
std::vector<Draw> whole_layers() {
    return {
        {.name = "mha",
         .config = grouped(12, 2, 1, 6, kTheta),
         .batch = 2,
         .len = 5,
         .head_norms = true,
         .gate = true,
         .norm = true},
        {.name = "mla", .config = mla_case(VKATTN_MLA_NAIVE, 11, false).config, .batch = 2, .len = 5, .norm = true}};
}

void check_each_alone(const Draw &d) {
    INFO(d.name);
    const LayerProblem p = drawn(d);
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    Call call{.problem = &p, .d_output = drawn_d_output(p)};
    LayerGradients all = all_gradients(p, VKATTN_TYPE_F32);
    CHECK(run_backward(layer, call, all) == "");
    LayerGradients one;
    one.query = HostTensor(VKATTN_TYPE_F32, p.query.shape());
    CHECK(run_backward(layer, call, one) == "");
    CHECK(std::ranges::equal(one.query.bytes(), all.query.bytes()));
    one = {};
    one.norm_weight = HostTensor(VKATTN_TYPE_F32, p.norm_weight.shape());
    CHECK(run_backward(layer, call, one) == "");
    CHECK(std::ranges::equal(one.norm_weight.bytes(), all.norm_weight.bytes()));
    for (const auto &weight : all.weights) {
        INFO(weight.first);
        one = {};
        HostTensor &made = one.weights[weight.first] = HostTensor(VKATTN_TYPE_F32, weight.second.shape());
        CHECK(run_backward(layer, call, one) == "");
        CHECK(std::ranges::equal(made.bytes(), weight.second.bytes()));
    }
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "each gradient of a layer alone is the one among all") {
    for (const Draw &d : whole_layers()) check_each_alone(d);
}

namespace {

// Tokens first .. first + count - 1 of [1,L,N] in a call of their own.
LayerProblem part_of(const LayerProblem &p, std::uint64_t first, std::uint64_t count) {
    LayerProblem part = p;
    part.query = tokens_of(p.query, first, count);
    return part;
}

void check_packed(Draw d) {
    INFO(d.name);
    d.batch = 1;
    d.len = 19;
    d.mask_flags = VKATTN_MASK_CAUSAL;
    LayerProblem p = drawn(d);
    const std::uint64_t width = d.config.embed_dim;
    const std::vector<std::uint64_t> ends = {0, 7, 8, 16}; // three tokens behind them
    Call call{.problem = &p, .d_output = drawn_d_output(p)};
    for (std::uint64_t i = ends.back() * width; i < call.d_output.elements(); ++i) call.d_output.set(i, 0.0f);
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    LayerGradients sums = all_gradients(p, VKATTN_TYPE_F32);
    std::vector<double> d_query(p.query.elements());
    for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
        const LayerProblem part = part_of(p, ends[s], ends[s + 1] - ends[s]);
        Call own{.problem = &part, .d_output = tokens_of(call.d_output, ends[s], ends[s + 1] - ends[s])};
        own.accumulates = s > 0;
        sums.query = HostTensor(VKATTN_TYPE_F32, part.query.shape());
        CHECK(run_backward(layer, own, sums) == "");
        std::ranges::copy(sums.query.values(), d_query.begin() + static_cast<std::ptrdiff_t>(ends[s] * width));
    }
    HostTensor cu_seqlens(VKATTN_TYPE_I32, {ends.size()});
    for (std::size_t i = 0; i < ends.size(); ++i) cu_seqlens.set(i, static_cast<float>(ends[i]));
    p.cu_seqlens = cu_seqlens;
    LayerGradients packed = all_gradients(p, VKATTN_TYPE_F32), saved = packed;
    CHECK(run_backward(layer, call, packed) == "");
    const Comparison result = compare("d_query", p.query.shape(), d_query, packed.query.floats(), 1e-10);
    CHECK_MESSAGE(result.passed, result.report);
    for (const auto &[name, tensor] : sums.weights) {
        const Comparison of_weight =
            compare(name.c_str(), tensor.shape(), tensor.values(), packed.weights.at(name).floats(), 1e-10);
        CHECK_MESSAGE(of_weight.passed, of_weight.report);
    }
    call.is_saved = true;
    CHECK(run_backward(layer, call, saved) == "");
    CHECK(has_same_bits(packed, saved));
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest,
                  "packed sequences have the gradients of each alone, and tokens of none count in nothing") {
    for (const Draw &d : whole_layers()) check_packed(d);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a layer of quantised weights gives the gradient of its input, and refuses those of its weights") {
    Draw d{.name = "", .config = grouped(64, 2, 2, 32, kTheta), .len = 20, .biases = false};
    LayerProblem p = drawn(d);
    for (auto &[name, weight] : p.weights) weight = tensor_of(VKATTN_TYPE_Q8_0, weight.shape(), weight.floats());
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    Call call{.problem = &p, .d_output = drawn_d_output(p)};
    LayerGradients gradients;
    gradients.query = HostTensor(VKATTN_TYPE_F32, p.query.shape());
    CHECK(run_backward(layer, call, gradients) == "");
    Differences differences(p, call.d_output);
    CHECK(compare_sample("d_query", differences.of(differences.problem().query, kElements), gradients.query, 1e-5) ==
          "");
    gradients.weights["q_proj.weight"] = HostTensor(VKATTN_TYPE_F32, {64, 64});
    check_refused([&] { run_backward(layer, call, gradients); },
                  "gradients: q_proj.weight is a weight of type Q8_0, expected F32, F16 or BF16");
}

TEST_CASE_FIXTURE(DeviceTest, "no tokens have gradients of zeros") {
    for (const Draw &d : whole_layers())
        for (const std::uint64_t batch : {0u, 2u})
            for (const bool is_saved : {false, true}) {
                INFO(d.name, ", batch ", batch, (is_saved ? ", saved" : ""));
                LayerProblem p = drawn(d);
                p.query = HostTensor(VKATTN_TYPE_F32, {batch, batch == 0 ? 5u : 0u, d.config.embed_dim});
                Call call{.problem = &p, .d_output = p.query, .is_saved = is_saved};
                LayerGradients gradients = all_gradients(p, VKATTN_TYPE_F32);
                CHECK(run_backward(make_layer(p.config, p.weights), call, gradients) == "");
                for (const auto &weight : gradients.weights) {
                    INFO(weight.first);
                    CHECK(std::ranges::all_of(weight.second.floats(), [](float value) { return value == 0.0f; }));
                }
            }
}

TEST_CASE_FIXTURE(DeviceTest, "what gradients of layers cannot be is said in a line") {
    const LayerProblem p = drawn({.name = "", .config = grouped(12, 2, 1, 6, kTheta), .len = 4});
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    vkattn::Buffer buffer = test_device().context().buffer(1 << 12);
    const HostTensor tokens(VKATTN_TYPE_F32, {1, 4, 12}), matrix(VKATTN_TYPE_F32, {12, 12});
    struct Refused {
        vkattn_layer_call call{};
        vkattn_layer_backward_desc desc{};
        std::vector<vkattn_weight_gradient> gradients;
    };
    const auto refused = [&](const char *expected, const auto &change) {
        Refused given;
        given.call.query = tokens.view();
        given.desc.d_output = given.desc.d_query = tokens.view();
        given.gradients = {{"q_proj.weight", matrix.view(), buffer.region()}};
        change(given);
        given.desc.call = &given.call;
        given.desc.gradients = given.gradients.data();
        given.desc.gradient_count = static_cast<std::uint32_t>(given.gradients.size());
        check_refused([&] { layer.backward_plan(given.desc); }, expected);
    };
    refused("no error", [](Refused &) {});
    refused("d_output: absent, expected [1,4,12]", [](Refused &r) { r.desc.d_output = {}; });
    refused("d_query: shape [12,12], expected [1,4,12]", [&](Refused &r) { r.desc.d_query = matrix.view(); });
    refused("d_query, d_key, d_value, d_norm_weight, gradients: absent, expected one gradient at least",
            [](Refused &r) {
                r.desc.d_query = {};
                r.gradients.clear();
            });
    refused("residual: given without d_query, expected none", [&](Refused &r) {
        r.desc.d_query = {};
        r.desc.residual = tokens.view();
    });
    refused("d_norm_weight: given, expected only beside norm_weight",
            [&](Refused &r) { r.desc.d_norm_weight = matrix.view(); });
    refused("d_key, d_value: given, expected only beside key and value",
            [&](Refused &r) { r.desc.d_key = tokens.view(); });
    refused("accumulate: 2, expected 0 or 1", [](Refused &r) { r.desc.accumulate = 2; });
    refused("gradients: q_proj.weight has type F16, expected F32 with accumulate", [](Refused &r) {
        r.desc.accumulate = 1;
        r.gradients[0].tensor.type = VKATTN_TYPE_F16;
    });
    refused("gradients: rope frequencies, expected the name of a weight that the layer has",
            [](Refused &r) { r.gradients[0].name = "rope frequencies"; });
    refused("gradients: q_norm.weight, expected the name of a weight that the layer has",
            [](Refused &r) { r.gradients[0].name = "q_norm.weight"; });
    refused("gradients: a name is NULL, expected a string", [](Refused &r) { r.gradients[0].name = nullptr; });
    refused("gradients: q_proj.weight is given twice, expected once",
            [](Refused &r) { r.gradients.push_back(r.gradients[0]); });
    refused("q_proj.weight: shape [1,4,12], expected [12,12]",
            [&](Refused &r) { r.gradients[0].tensor = tokens.view(); });
    refused("gradients: q_proj.weight has no region, expected one of a buffer",
            [](Refused &r) { r.gradients[0].region = {}; });
    refused("gradients: q_proj.weight has offset 4, expected a multiple of 16",
            [](Refused &r) { r.gradients[0].region.offset = 4; });
    refused("gradients: q_proj.weight has a region of 64 bytes from 0 on, expected 576 bytes within its buffer",
            [](Refused &r) { r.gradients[0].region.bytes = 64; });
    refused("activations: shape [1,4,12], expected", [&](Refused &r) { r.desc.activations = tokens.view(); });
    refused("past_key, past_value, present_key, present_value: given, expected none: a cache has no gradients yet",
            [&](Refused &r) { r.call.present_key = tokens.view(); });
    const vkattn::Cache cache = make_cache(layer, 1, 8, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
    refused("cache: given, expected none, which has no gradients yet", [&](Refused &r) { r.call.cache = cache.get(); });
    vkattn_layer_backward_desc without_call{};
    check_refused([&] { layer.backward_plan(without_call); }, "call: NULL");
}

TEST_CASE_FIXTURE(DeviceTest, "layers of other kinds say that they have no gradients yet, and take no activations") {
    for (const LayerCase &c : cached_layers()) {
        const bool is_sparse = c.config.index_topk != 0;
        if (c.config.kind == VKATTN_LAYER_MHA || (c.config.kind == VKATTN_LAYER_MLA && !is_sparse)) continue;
        INFO(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor tokens(VKATTN_TYPE_F32, {1, 4, c.config.embed_dim}), numbers(VKATTN_TYPE_F32, {9, 64});
        vkattn_layer_call call{};
        call.query = call.output = tokens.view();
        vkattn_layer_backward_desc desc{};
        desc.call = &call;
        desc.d_output = desc.d_query = tokens.view();
        const char *const expected = is_sparse ? "layer: with an indexer, which has no gradients yet"
                                               : "layer: of another kind than MHA and MLA, which has no gradients yet";
        check_refused([&] { layer.backward_plan(desc); }, expected);
        check_refused([&] { layer.activations(call); }, expected);
        call.activations = numbers.view();
        check_refused([&] { layer.plan(call); }, expected);
    }
}

TEST_SUITE_END();
