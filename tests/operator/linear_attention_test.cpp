// linear_attention, causal_conv1d and gated_rms_norm against float64, token by token: both rules, every decay and type, gaps between rows,
// packed sequences, pools of states, drafts; chunks against single tokens.
#include "compare.hpp"
#include "device.hpp"
#include "limited_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

double linear_attention_bound(vkattn_type type) {
    return type == VKATTN_TYPE_F32 ? 1e-9 : type == VKATTN_TYPE_F16 ? 1e-5 : 5e-4;
}

enum class Decay { kNone, kHead, kChannel };

struct Problem {
    std::uint64_t batch = 1, key_heads = 1, heads = 2, len = 1, size = 16, value_size = 16;
    Decay decay = Decay::kHead;
    bool has_beta = true, has_initial = true, is_delta = true, l2_norm = true;
    vkattn_type type = VKATTN_TYPE_F32;
    float strongest_decay = 1.0f;       // a decay is a uniform number from - that on
    std::vector<std::int32_t> bounds{}; // of packed sequences
    std::vector<std::int32_t> slots{};  // of a pool of states
    std::uint64_t pool = 0;
    std::uint32_t max_seqlen = 0;
    std::uint64_t gap = 3;       // elements after each row
    bool elements_apart = false; // of query, key, value and output
    vkattn_linear_attention_form form = VKATTN_FORM_AUTO;
    unsigned seed = 1;
    TestDevice *device = nullptr; // null: the one under test

    std::uint64_t sequences() const { return bounds.empty() ? batch : bounds.size() - 1; }
    std::uint64_t states() const { return slots.empty() ? sequences() : pool; }
};

struct Tensors {
    HostTensor query, key, value, decay, beta, output, initial, final, bounds, slots;
};

HostTensor integers(const std::vector<std::int32_t> &values) {
    HostTensor tensor(VKATTN_TYPE_I32, {values.size()});
    for (std::uint64_t i = 0; i < values.size(); ++i) tensor.set(i, static_cast<float>(values[i]));
    return tensor;
}

// [batch,heads,len,size] as [batch,len,heads,size] in memory, with gaps.
HostTensor rows(const Problem &p, std::uint64_t heads, std::uint64_t size) {
    const std::uint64_t step = p.elements_apart ? 2 : 1, row = step * size + p.gap;
    return HostTensor(p.type, {p.batch, heads, p.len, size}, {p.len * heads * row, row, heads * row, step});
}

Tensors draw(const Problem &p) {
    std::mt19937 random(p.seed);
    Tensors t;
    t.query = rows(p, p.key_heads, p.size);
    t.key = rows(p, p.key_heads, p.size);
    t.value = rows(p, p.heads, p.value_size);
    t.output = rows(p, p.heads, p.value_size);
    fill_normal(t.query, random);
    fill_normal(t.key, random, p.l2_norm ? 1.0f : 1.0f / std::sqrt(static_cast<float>(p.size)));
    fill_normal(t.value, random);
    std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
    if (p.decay == Decay::kHead) t.decay = HostTensor(VKATTN_TYPE_F32, {p.batch, p.heads, p.len});
    if (p.decay == Decay::kChannel) t.decay = HostTensor(VKATTN_TYPE_F32, {p.batch, p.heads, p.len, p.size});
    for (std::uint64_t i = 0; i < t.decay.elements(); ++i) {
        const float each = uniform(random);
        t.decay.set(i, each < 0.2f ? -p.strongest_decay * uniform(random) : -0.1f * each); // strong ones now and then
    }
    if (p.has_beta) t.beta = HostTensor(VKATTN_TYPE_F32, {p.batch, p.heads, p.len});
    for (std::uint64_t i = 0; i < t.beta.elements(); ++i) t.beta.set(i, uniform(random));
    const Shape state{p.states(), p.heads, p.size, p.value_size};
    if (p.has_initial) t.initial = normal_tensor(VKATTN_TYPE_F32, state, random);
    t.final = HostTensor(VKATTN_TYPE_F32, state);
    if (!p.bounds.empty()) t.bounds = integers(p.bounds);
    if (!p.slots.empty()) t.slots = integers(p.slots);
    return t;
}

struct Reference {
    std::vector<double> output, final;
    std::vector<std::vector<double>> after_tokens; // of the states, after each token of the first sequence
};

// One head of one sequence.
void step_state(const Problem &p, const Tensors &t, std::uint64_t b, std::uint64_t h, std::uint64_t token,
                std::vector<double> &state, double *output) {
    const std::uint64_t size = p.size, value_size = p.value_size, key_head = h / (p.heads / p.key_heads);
    std::vector<double> q(size), k(size);
    for (std::uint64_t i = 0; i < size; ++i) {
        q[i] = static_cast<double>(t.query.get(((b * p.key_heads + key_head) * p.len + token) * size + i));
        k[i] = static_cast<double>(t.key.get(((b * p.key_heads + key_head) * p.len + token) * size + i));
    }
    if (p.l2_norm)
        for (std::vector<double> *x : {&q, &k}) {
            double sum = 1e-6;
            for (const double each : *x) sum += each * each;
            for (double &each : *x) each /= std::sqrt(sum);
        }
    const std::uint64_t number = (b * p.heads + h) * p.len + token;
    const double beta = p.has_beta ? static_cast<double>(t.beta.get(number)) : 1.0;
    for (std::uint64_t i = 0; i < size && p.decay != Decay::kNone; ++i) {
        const double decay = static_cast<double>(t.decay.get(p.decay == Decay::kHead ? number : number * size + i));
        for (std::uint64_t j = 0; j < value_size; ++j) state[i * value_size + j] *= std::exp(decay);
    }
    for (std::uint64_t j = 0; j < value_size; ++j) {
        double u = static_cast<double>(t.value.get(number * value_size + j));
        for (std::uint64_t i = 0; i < size && p.is_delta; ++i) u -= k[i] * state[i * value_size + j];
        u *= beta;
        double sum = 0;
        for (std::uint64_t i = 0; i < size; ++i) {
            state[i * value_size + j] += k[i] * u;
            sum += q[i] * state[i * value_size + j];
        }
        output[number * value_size + j] = sum / std::sqrt(static_cast<double>(size));
    }
}

Reference reference(const Problem &p, const Tensors &t) {
    Reference r;
    r.output.assign(t.output.elements(), 0.0);
    const std::uint64_t elements = p.size * p.value_size;
    r.final.assign(t.final.elements(), std::numeric_limits<double>::quiet_NaN()); // as they are poisoned
    for (std::uint64_t s = 0; s < p.sequences(); ++s)
        for (std::uint64_t h = 0; h < p.heads; ++h) {
            const std::int64_t slot = p.slots.empty() ? static_cast<std::int64_t>(s) : p.slots[s];
            const bool has_state = slot >= 0 && slot < static_cast<std::int64_t>(p.states());
            const std::uint64_t begin = has_state ? (static_cast<std::uint64_t>(slot) * p.heads + h) * elements : 0;
            std::vector<double> state(elements, 0.0);
            for (std::uint64_t i = 0; i < elements && has_state && p.has_initial; ++i)
                state[i] = static_cast<double>(t.initial.get(begin + i));
            const std::uint64_t first = p.bounds.empty() ? 0 : static_cast<std::uint64_t>(p.bounds[s]);
            const std::uint64_t end = p.bounds.empty() ? p.len : static_cast<std::uint64_t>(p.bounds[s + 1]);
            for (std::uint64_t token = first; token < end; ++token) {
                step_state(p, t, p.bounds.empty() ? s : 0, h, token, state, r.output.data());
                if (s != 0) continue;
                if (r.after_tokens.size() < token + 1) r.after_tokens.emplace_back(p.heads * elements);
                std::ranges::copy(state, r.after_tokens[token].begin() + static_cast<std::ptrdiff_t>(h * elements));
            }
            if (has_state) std::ranges::copy(state, r.final.begin() + static_cast<std::ptrdiff_t>(begin));
        }
    return r;
}

template <class Description, class Given>
void describe_sequences(Description &desc, const Given &t) {
    desc.states.initial_state = t.initial.view();
    desc.states.final_state = t.final.view();
    desc.states.state_slots = t.slots.view();
    desc.cu_seqlens_q = t.bounds.view();
}

vkattn_linear_attention_desc describe(const Problem &p, const Tensors &t) {
    vkattn_linear_attention_desc desc{};
    desc.query = t.query.view();
    desc.key = t.key.view();
    desc.value = t.value.view();
    desc.decay = t.decay.view();
    desc.beta = t.beta.view();
    desc.output = t.output.view();
    describe_sequences(desc, t);
    desc.max_seqlen_q = p.max_seqlen;
    desc.rule = p.is_delta ? VKATTN_RULE_DELTA : VKATTN_RULE_DECAY;
    desc.form = p.form;
    desc.qk_l2norm = p.l2_norm;
    return desc;
}

std::vector<Region> regions_of(Tensors &t) {
    std::vector<Region> regions;
    for (const auto &[role, tensor, access] :
         {std::tuple(VKATTN_ROLE_QUERY, &t.query, Access::kRead), std::tuple(VKATTN_ROLE_KEY, &t.key, Access::kRead),
          std::tuple(VKATTN_ROLE_VALUE, &t.value, Access::kRead),
          std::tuple(VKATTN_ROLE_DECAY, &t.decay, Access::kRead), std::tuple(VKATTN_ROLE_BETA, &t.beta, Access::kRead),
          std::tuple(VKATTN_ROLE_OUTPUT, &t.output, Access::kWrite),
          std::tuple(VKATTN_ROLE_INITIAL_STATE, &t.initial, Access::kRead),
          std::tuple(VKATTN_ROLE_FINAL_STATE, &t.final, Access::kWrite),
          std::tuple(VKATTN_ROLE_CU_SEQLENS_Q, &t.bounds, Access::kRead),
          std::tuple(VKATTN_ROLE_STATE_SLOTS, &t.slots, Access::kRead)})
        if (tensor->present()) regions.push_back({role, tensor, access});
    return regions;
}

// States that no sequence has, and rows that none has, must be as they were: NaN.
void check_numbers(const char *what, const HostTensor &actual, const std::vector<double> &expected, double bound) {
    std::vector<double> wanted;
    std::vector<float> found;
    for (std::uint64_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
            CHECK_MESSAGE(std::isnan(actual.get(i)), what << ": element " << i << " of no sequence was written");
            continue;
        }
        wanted.push_back(expected[i]);
        found.push_back(actual.get(i));
    }
    const Comparison result = compare(what, {wanted.size()}, wanted, found, bound);
    CHECK_MESSAGE(result.passed, result.report);
}

std::string text_of(const Problem &p) {
    return "len " + std::to_string(p.len) + ", heads " + std::to_string(p.heads) + "/" + std::to_string(p.key_heads) +
           ", sizes " + std::to_string(p.size) + "/" + std::to_string(p.value_size) + ", decay " +
           std::to_string(static_cast<int>(p.decay)) + (p.is_delta ? ", delta" : ", decay rule") +
           (p.l2_norm ? ", norms" : "") + ", type " + type_name(p.type) + ", form " + std::to_string(p.form) +
           ", seed " + std::to_string(p.seed) + ", sequences " + std::to_string(p.sequences());
}

void check(const Problem &p) {
    INFO(text_of(p));
    Tensors t = draw(p);
    Reference r = reference(p, t);
    if (!p.bounds.empty()) // rows of no sequence
        for (std::uint64_t i = 0; i < r.output.size(); ++i) {
            const auto row = static_cast<std::int32_t>(i / p.value_size % p.len);
            if (row < p.bounds.front() || row >= p.bounds.back())
                r.output[i] = std::numeric_limits<double>::quiet_NaN();
        }
    TestDevice &device = p.device == nullptr ? test_device() : *p.device;
    device.run(device.context().linear_attention_plan(describe(p, t)), regions_of(t));
    check_numbers("output", t.output, r.output, linear_attention_bound(p.type));
    check_numbers("final_state", t.final, r.final, linear_attention_bound(p.type));
}

constexpr vkattn_linear_attention_form kForms[] = {VKATTN_FORM_RECURRENT, VKATTN_FORM_CHUNKED};

template <class Value>
Value one_of(std::mt19937 &random, std::initializer_list<Value> values) {
    return values.begin()[random() % values.size()];
}

Problem some_problem(unsigned seed) {
    std::mt19937 random(seed);
    Problem p;
    p.seed = seed;
    p.batch = 1 + random() % 2;
    p.key_heads = 1 + random() % 2;
    p.heads = p.key_heads * (1 + random() % 3);
    p.len = one_of<std::uint64_t>(random, {1, 2, 5, 17, 31, 32, 33, 64, 65, 100, 150});
    p.size = one_of<std::uint64_t>(random, {1, 7, 16, 40, 64, 65, 128, 130});
    p.value_size = one_of<std::uint64_t>(random, {1, 5, 16, 40, 64, 66, 128});
    p.decay = one_of(random, {Decay::kNone, Decay::kHead, Decay::kChannel});
    p.has_beta = random() % 4 != 0;
    p.has_initial = random() % 4 != 0;
    p.l2_norm = random() % 2 == 0;
    p.is_delta = random() % 3 != 0;
    p.type = kFloats[random() % 3];
    p.strongest_decay = one_of(random, {0.01f, 1.0f, 60.0f});
    p.gap = one_of<std::uint64_t>(random, {0, 3, 4});
    p.elements_apart = random() % 6 == 0;
    p.form = kForms[random() % 2];
    if (random() % 3 != 0) return p;
    p.batch = 1;
    p.bounds = {0};
    const std::uint64_t sequences = 1 + random() % 5;
    for (std::uint64_t s = 0; s < sequences; ++s)
        p.bounds.push_back(p.bounds.back() + static_cast<std::int32_t>(random() % 4 == 0 ? 0 : random() % 80));
    p.len = static_cast<std::uint64_t>(p.bounds.back()) + random() % 3;
    if (random() % 2 == 0) return p;
    p.pool = sequences + 2;
    for (std::uint64_t s = 0; s < sequences; ++s)
        p.slots.push_back(random() % 4 == 0 ? -1 : static_cast<std::int32_t>(p.pool - 1 - s));
    return p;
}

} // namespace

TEST_SUITE_BEGIN("linear_attention");

TEST_CASE_FIXTURE(DeviceTest, "both forms give the recurrence's numbers, whatever the sizes") {
    for (unsigned seed = 1; seed <= 60; ++seed) check(some_problem(seed));
}

TEST_CASE_FIXTURE(DeviceTest, "heads of 128 in every type, form, rule and decay") {
    for (const vkattn_type type : kFloats)
        for (const Decay decay : {Decay::kNone, Decay::kHead, Decay::kChannel})
            for (const bool is_delta : {true, false})
                for (const auto form : kForms)
                    check({.heads = 1,
                           .len = 70,
                           .size = 128,
                           .value_size = 128,
                           .decay = decay,
                           .is_delta = is_delta,
                           .type = type,
                           .strongest_decay = 60.0f,
                           .form = form});
}

TEST_CASE_FIXTURE(DeviceTest, "heads as large as they may be") {
    for (const auto form : kForms)
        for (const std::uint64_t size : {192, 256, 512})
            check({.heads = 1, .len = 40, .size = size, .value_size = 20, .decay = Decay::kChannel, .form = form});
}

TEST_CASE_FIXTURE(DeviceTest, "heads as large as they may be, beside little shared memory") {
    const LimitedDevice device("max_shared_memory_bytes=16384,self_test=0");
    for (const auto form : kForms)
        for (const std::uint64_t value_size : {20, 64})
            check({.heads = 1,
                   .len = 10,
                   .size = 512,
                   .value_size = value_size,
                   .decay = Decay::kChannel,
                   .form = form,
                   .device = &device.device()});
}

TEST_CASE_FIXTURE(DeviceTest, "a long sequence goes in stretches, and its state with it") {
    // of 64 heads a stretch has few chunks
    check({.key_heads = 16,
           .heads = 64,
           .len = 1500,
           .size = 64,
           .value_size = 16,
           .strongest_decay = 0.1f,
           .form = VKATTN_FORM_CHUNKED});
    check({.key_heads = 64,
           .heads = 64,
           .len = 1600,
           .size = 48,
           .value_size = 16,
           .decay = Decay::kChannel,
           .strongest_decay = 0.1f,
           .bounds = {0, 700, 700, 701, 1590},
           .form = VKATTN_FORM_CHUNKED});
}

TEST_CASE_FIXTURE(DeviceTest, "65536 tokens keep their exactness") {
    check({.heads = 1, .len = 65536, .size = 32, .value_size = 8, .strongest_decay = 0.001f});
}

TEST_CASE_FIXTURE(DeviceTest, "sequences without tokens leave their state, in another place too") {
    for (const auto form : kForms) {
        check({.len = 0, .form = form});
        check({.len = 4, .bounds = {0, 0, 4, 4, 4}, .form = form});
        check({.len = 4, .bounds = {0, 0, 4, 4, 4}, .slots = {3, -1, 9, 0}, .pool = 6, .form = form});
        check({.batch = 0, .len = 4, .form = form});
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a prompt in pieces gives the whole, the state in one place") {
    Problem p{.heads = 2, .len = 150, .size = 40, .value_size = 24, .decay = Decay::kChannel, .gap = 0};
    Tensors t = draw(p);
    const Reference r = reference(p, t);
    const vkattn::Context &context = test_device().context();
    vkattn::Buffer state(context.get(), t.initial.bytes().size());
    state.write(t.initial.bytes());
    std::map<vkattn_role, vkattn::Buffer> buffers;
    for (const Region &region : regions_of(t)) {
        if (region.role == VKATTN_ROLE_INITIAL_STATE || region.role == VKATTN_ROLE_FINAL_STATE) continue;
        buffers.emplace(region.role, vkattn::Buffer(context.get(), region.tensor->bytes().size()))
            .first->second.write(region.tensor->bytes());
    }
    const auto part = [](const HostTensor &tensor, std::uint64_t first, std::uint64_t count) {
        vkattn_tensor view = tensor.view();
        const Shape strides = HostTensor::contiguous_strides(tensor.shape());
        const bool given = view.strides[0] != 0;
        for (std::uint32_t dim = 0; dim < view.rank && !given; ++dim) view.strides[dim] = strides[dim];
        view.offset += first * view.strides[2];
        view.shape[2] = count;
        return view;
    };
    std::uint64_t first = 0;
    for (const std::uint64_t count : {1, 40, 1, 3, 64, 16, 25}) {
        vkattn_linear_attention_desc desc = describe(p, t);
        for (const auto &[member, tensor] : {std::pair(&vkattn_linear_attention_desc::query, &t.query),
                                             std::pair(&vkattn_linear_attention_desc::key, &t.key),
                                             std::pair(&vkattn_linear_attention_desc::value, &t.value),
                                             std::pair(&vkattn_linear_attention_desc::decay, &t.decay),
                                             std::pair(&vkattn_linear_attention_desc::beta, &t.beta),
                                             std::pair(&vkattn_linear_attention_desc::output, &t.output)})
            desc.*member = part(*tensor, first, count);
        first += count;
        const vkattn::Plan plan = context.linear_attention_plan(desc);
        std::vector<vkattn_binding> bindings = {vkattn::bind(VKATTN_ROLE_INITIAL_STATE, state),
                                                vkattn::bind(VKATTN_ROLE_FINAL_STATE, state)};
        for (const auto &[role, buffer] : buffers) bindings.push_back(vkattn::bind(role, buffer));
        plan.run(bindings);
    }
    REQUIRE(first == p.len);
    buffers.at(VKATTN_ROLE_OUTPUT).read(t.output.bytes());
    state.read(t.final.bytes());
    check_numbers("output", t.output, r.output, 1e-9);
    check_numbers("final_state", t.final, r.final, 1e-9);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "drafted tokens leave their states, of which the next call goes on from the accepted one") {
    for (const std::uint64_t value_size : {16, 6}) {
        Problem p{.heads = 2, .len = 5, .size = 24, .value_size = value_size};
        Tensors t = draw(p);
        const Reference r = reference(p, t);
        const std::uint64_t drafts = 7;
        HostTensor states(VKATTN_TYPE_F32, {drafts, p.heads, p.size, p.value_size});
        vkattn_linear_attention_desc desc = describe(p, t);
        desc.states.token_states = states.view();
        desc.states.draft_tokens = drafts;
        std::vector<Region> regions = regions_of(t);
        regions.push_back({VKATTN_ROLE_TOKEN_STATES, &states, Access::kWrite});
        test_device().run(test_device().context().linear_attention_plan(desc), regions);
        check_numbers("output", t.output, r.output, 1e-9);
        std::vector<double> expected;
        for (const std::vector<double> &state : r.after_tokens)
            expected.insert(expected.end(), state.begin(), state.end());
        expected.resize(states.elements(), std::numeric_limits<double>::quiet_NaN());
        check_numbers("token_states", states, expected, 1e-9);
        for (const std::int32_t kept : {0, 1, 3, 5})
            for (const std::uint64_t next_len : {4, 90}) {
                Problem next = p;
                next.len = next_len;
                next.seed = 77;
                Tensors n = draw(next);
                HostTensor accepted = integers({kept}), next_states = states;
                const std::uint64_t elements = p.heads * p.size * p.value_size;
                Tensors begun = n;
                for (std::uint64_t i = 0; i < elements && kept > 0; ++i)
                    begun.initial.set(i, states.get(static_cast<std::uint64_t>(kept - 1) * elements + i));
                const Reference after = reference(next, begun);
                vkattn_linear_attention_desc following = describe(next, n);
                following.states.token_states = states.view();
                following.states.draft_tokens = drafts;
                following.states.accepted = accepted.view();
                std::vector<Region> given = regions_of(n);
                given.push_back({VKATTN_ROLE_TOKEN_STATES, &next_states, Access::kReadWrite});
                given.push_back({VKATTN_ROLE_ACCEPTED, &accepted, Access::kRead});
                test_device().run(test_device().context().linear_attention_plan(following), given);
                check_numbers("output", n.output, after.output, 1e-9);
                check_numbers("final_state", n.final, after.final, 1e-9);
                for (std::uint64_t token = 0; token < next_len && next_len <= drafts; ++token)
                    for (std::uint64_t i = 0; i < elements; i += 5)
                        CHECK(static_cast<double>(next_states.get(token * elements + i)) ==
                              doctest::Approx(after.after_tokens[token][i]).epsilon(1e-3));
            }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "the same bits every time") {
    const Problem p{.heads = 3, .len = 100, .size = 64, .value_size = 64, .form = VKATTN_FORM_CHUNKED};
    Tensors t = draw(p), u = draw(p);
    const vkattn::Plan plan = test_device().context().linear_attention_plan(describe(p, t));
    test_device().run(plan, regions_of(t));
    test_device().run(plan, regions_of(u));
    CHECK(std::ranges::equal(t.output.bytes(), u.output.bytes()));
    CHECK(std::ranges::equal(t.final.bytes(), u.final.bytes()));
}

TEST_CASE_FIXTURE(DeviceTest, "what is wrong is named") {
    const Problem p{.heads = 2, .len = 20};
    const Tensors t = draw(p);
    const auto message = [&](auto &&change) -> std::string {
        vkattn_linear_attention_desc desc = describe(p, t);
        change(desc);
        try {
            (void)test_device().context().linear_attention_plan(desc);
        } catch (const vkattn::Error &error) {
            return error.what();
        }
        return "";
    };
    CHECK(message([](auto &) {}) == "");
    CHECK(message([](auto &d) { d.key.shape[3] = 8; }).starts_with("key: shape [1,1,20,8], expected [1,1,20,16]"));
    CHECK(message([](auto &d) { d.rule = static_cast<vkattn_linear_attention_rule>(2); }) ==
          "rule: 2, expected a vkattn_linear_attention_rule");
    CHECK(message([](auto &d) { d.decay.type = VKATTN_TYPE_F16; }).starts_with("decay: type f16, shape [1,2,20]") ==
          false);
    CHECK(message([](auto &d) { d.decay.type = VKATTN_TYPE_F16; }).find("expected F32 [1,2,20] or [...,16]") !=
          std::string::npos);
    CHECK(message([](auto &d) { d.states.draft_tokens = 3; }) == "draft_tokens: 3 without token_states, expected 0");
    CHECK(message([](auto &d) {
              d.states.token_states = d.states.final_state;
              d.states.draft_tokens = 1;
          }).starts_with("token_states: sequences of up to 20 tokens, expected at most draft_tokens, 1"));
    CHECK(message([](auto &d) { d.query.shape[3] = d.key.shape[3] = 513; }).find("expected 1 to 512") !=
          std::string::npos);
    CHECK(message([](auto &d) { d.max_seqlen_q = 3; }) == "max_seqlen_q: 3 without cu_seqlens_q, expected 0");
    CHECK(message([](auto &d) { d.states.initial_state.shape[1] = 1; }).starts_with("initial_state: type F32"));
}

TEST_CASE_FIXTURE(DeviceTest, "a form that the device's loops are too short for is refused, not cut short") {
    const LimitedDevice device("max_loop_iterations=30,self_test=0");
    const Problem p{.heads = 2, .len = 20};
    const Tensors t = draw(p);
    vkattn_linear_attention_desc desc = describe(p, t);
    desc.form = VKATTN_FORM_RECURRENT;
    try {
        (void)device.device().context().linear_attention_plan(desc);
        FAIL("the plan was made, expected an error");
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
        CHECK(std::string(error.what()).starts_with("form: 1 of 20 tokens"));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "without tokens no form needs chunks, where states of tokens are kept, too") {
    const Problem p{.heads = 2, .len = 0, .form = VKATTN_FORM_CHUNKED};
    const Tensors t = draw(p);
    vkattn_linear_attention_desc desc = describe(p, t);
    desc.states.token_states = desc.states.final_state;
    desc.states.draft_tokens = 1;
    CHECK_NOTHROW((void)test_device().context().linear_attention_plan(desc));
}

TEST_SUITE_END();

namespace {

struct Convolution {
    std::uint64_t batch = 2, len = 5, channels = 7, taps = 4;
    vkattn_type type = VKATTN_TYPE_F32;
    bool has_bias = true, has_initial = true;
    vkattn_activation activation = VKATTN_ACTIVATION_SILU;
    std::vector<std::int32_t> bounds{}, slots{};
    std::uint64_t pool = 0;
    unsigned seed = 1;

    std::uint64_t sequences() const { return bounds.empty() ? batch : bounds.size() - 1; }
};

struct ConvolutionTensors {
    HostTensor input, weight, bias, output, initial, final, bounds, slots;
};

ConvolutionTensors draw(const Convolution &p) {
    std::mt19937 random(p.seed);
    ConvolutionTensors t;
    const std::uint64_t row = p.channels + 3;
    t.input = normal_tensor(p.type, {p.batch, p.len, p.channels}, {p.len * row, row, 1}, random);
    t.output = HostTensor(p.type, {p.batch, p.len, p.channels}, {p.len * (row + 2), row + 2, 1});
    t.weight = normal_tensor(p.type, {p.channels, p.taps}, random);
    if (p.has_bias) t.bias = normal_tensor(p.type, {p.channels}, random);
    const Shape state{p.slots.empty() ? p.sequences() : p.pool, p.taps - 1, p.channels};
    if (p.has_initial) t.initial = normal_tensor(VKATTN_TYPE_F32, state, random);
    t.final = HostTensor(VKATTN_TYPE_F32, state);
    if (!p.bounds.empty()) t.bounds = integers(p.bounds);
    if (!p.slots.empty()) t.slots = integers(p.slots);
    return t;
}

// Input `at` of a sequence, whose own begin at 0.
double input_of(const Convolution &p, const ConvolutionTensors &t, std::uint64_t s, std::int64_t at, std::uint64_t c) {
    const std::int64_t slot = p.slots.empty() ? static_cast<std::int64_t>(s) : p.slots[s];
    if (at >= 0) {
        const std::uint64_t row = p.bounds.empty() ? s * p.len : static_cast<std::uint64_t>(p.bounds[s]);
        return static_cast<double>(t.input.get((row + static_cast<std::uint64_t>(at)) * p.channels + c));
    }
    if (slot < 0 || !p.has_initial) return 0.0;
    const std::uint64_t i = static_cast<std::uint64_t>(at + static_cast<std::int64_t>(p.taps) - 1);
    return static_cast<double>(t.initial.get((static_cast<std::uint64_t>(slot) * (p.taps - 1) + i) * p.channels + c));
}

void check(const Convolution &p) {
    ConvolutionTensors t = draw(p);
    constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> output(t.output.elements(), kNothing), final(t.final.elements(), kNothing);
    for (std::uint64_t s = 0; s < p.sequences(); ++s) {
        const std::uint64_t row = p.bounds.empty() ? s * p.len : static_cast<std::uint64_t>(p.bounds[s]);
        const std::int64_t len = p.bounds.empty() ? static_cast<std::int64_t>(p.len) : p.bounds[s + 1] - p.bounds[s];
        const auto taps = static_cast<std::int64_t>(p.taps);
        const std::int64_t slot = p.slots.empty() ? static_cast<std::int64_t>(s) : p.slots[s];
        for (std::uint64_t c = 0; c < p.channels; ++c) {
            for (std::int64_t token = 0; token < len; ++token) {
                double sum = p.has_bias ? static_cast<double>(t.bias.get(c)) : 0.0;
                for (std::int64_t j = 0; j < taps; ++j)
                    sum += static_cast<double>(t.weight.get(c * p.taps + static_cast<std::uint64_t>(j))) *
                           input_of(p, t, s, token - taps + 1 + j, c);
                if (p.activation == VKATTN_ACTIVATION_SILU) sum = sum / (1 + std::exp(-sum));
                output[(row + static_cast<std::uint64_t>(token)) * p.channels + c] = sum;
            }
            for (std::int64_t i = 0; i < taps - 1 && slot >= 0; ++i)
                final[(static_cast<std::uint64_t>(slot) * (p.taps - 1) + static_cast<std::uint64_t>(i)) * p.channels +
                      c] = input_of(p, t, s, len - taps + 1 + i, c);
        }
    }
    vkattn_causal_conv1d_desc desc{};
    desc.input = t.input.view();
    desc.weight = t.weight.view();
    desc.bias = t.bias.view();
    desc.output = t.output.view();
    describe_sequences(desc, t);
    desc.activation = p.activation;
    std::vector<Region> regions;
    for (const auto &[role, tensor, access] : {std::tuple(VKATTN_ROLE_INPUT, &t.input, Access::kRead),
                                               std::tuple(VKATTN_ROLE_WEIGHT, &t.weight, Access::kRead),
                                               std::tuple(VKATTN_ROLE_BIAS, &t.bias, Access::kRead),
                                               std::tuple(VKATTN_ROLE_OUTPUT, &t.output, Access::kWrite),
                                               std::tuple(VKATTN_ROLE_INITIAL_STATE, &t.initial, Access::kRead),
                                               std::tuple(VKATTN_ROLE_FINAL_STATE, &t.final, Access::kWrite),
                                               std::tuple(VKATTN_ROLE_CU_SEQLENS_Q, &t.bounds, Access::kRead),
                                               std::tuple(VKATTN_ROLE_STATE_SLOTS, &t.slots, Access::kRead)})
        if (tensor->present()) regions.push_back({role, tensor, access});
    test_device().run(test_device().context().causal_conv1d_plan(desc), regions);
    check_numbers("output", t.output, output, linear_attention_bound(p.type));
    check_numbers("final_state", t.final, final, 1e-12);
}

} // namespace

TEST_SUITE_BEGIN("causal_conv1d");

TEST_CASE_FIXTURE(DeviceTest, "every type, number of taps and length, with gaps") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t taps : {2, 3, 4})
            for (const std::uint64_t len : {0, 1, 2, 3, 16, 17, 40})
                for (const std::uint64_t channels : {1, 130, 257})
                    check({.len = len,
                           .channels = channels,
                           .taps = taps,
                           .type = type,
                           .has_bias = len % 2 == 0,
                           .has_initial = channels != 257,
                           .activation = len == 3 ? VKATTN_ACTIVATION_NONE : VKATTN_ACTIVATION_SILU});
}

TEST_CASE_FIXTURE(DeviceTest, "packed sequences, some without tokens, and a pool of states") {
    check({.batch = 1, .len = 60, .channels = 34, .bounds = {0, 1, 1, 20, 21, 23, 60}});
    check({.batch = 1,
           .len = 60,
           .channels = 34,
           .bounds = {0, 1, 1, 20, 21, 23, 60},
           .slots = {3, 0, -1, 8, 5, 6},
           .pool = 9});
}

TEST_CASE_FIXTURE(DeviceTest, "drafts leave their states") {
    const Convolution p{.batch = 1, .len = 5, .channels = 9};
    ConvolutionTensors t = draw(p);
    HostTensor states(VKATTN_TYPE_F32, {6, 3, 9}), accepted = integers({2});
    vkattn_causal_conv1d_desc desc{};
    desc.input = t.input.view();
    desc.weight = t.weight.view();
    desc.output = t.output.view();
    desc.states.initial_state = t.initial.view();
    desc.states.token_states = states.view();
    desc.states.draft_tokens = 6;
    std::vector<Region> regions{{VKATTN_ROLE_INPUT, &t.input, Access::kRead},
                                {VKATTN_ROLE_WEIGHT, &t.weight, Access::kRead},
                                {VKATTN_ROLE_OUTPUT, &t.output, Access::kWrite},
                                {VKATTN_ROLE_INITIAL_STATE, &t.initial, Access::kRead},
                                {VKATTN_ROLE_TOKEN_STATES, &states, Access::kWrite}};
    test_device().run(test_device().context().causal_conv1d_plan(desc), regions);
    std::vector<double> expected(states.elements(), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t token = 0; token < 5; ++token)
        for (std::int64_t i = 0; i < 3; ++i)
            for (std::uint64_t c = 0; c < 9; ++c)
                expected[(static_cast<std::uint64_t>(token) * 3 + static_cast<std::uint64_t>(i)) * 9 + c] =
                    input_of(p, t, 0, token - 2 + i, c);
    check_numbers("token_states", states, expected, 1e-12);

    HostTensor final(VKATTN_TYPE_F32, {1, 3, 9}); // of no tokens: what was accepted
    desc.input.shape[1] = desc.output.shape[1] = 1;
    desc.states.accepted = accepted.view();
    desc.states.final_state = final.view();
    regions[4].access = Access::kReadWrite;
    regions.push_back({VKATTN_ROLE_ACCEPTED, &accepted, Access::kRead});
    regions.push_back({VKATTN_ROLE_FINAL_STATE, &final, Access::kWrite});
    test_device().run(test_device().context().causal_conv1d_plan(desc), regions);
    for (std::uint64_t c = 0; c < 9; ++c) {
        CHECK(static_cast<double>(final.get(c)) == input_of(p, t, 0, 0, c));
        CHECK(static_cast<double>(final.get(9 + c)) == input_of(p, t, 0, 1, c));
        CHECK(static_cast<double>(final.get(18 + c)) == input_of(p, t, 0, 0, c)); // its own input
    }
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("gated_rms_norm");

TEST_CASE_FIXTURE(DeviceTest, "every type, with gaps") {
    std::mt19937 random(5);
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1, 64, 129}) {
            const std::uint64_t row = width + 3;
            HostTensor input = normal_tensor(type, {2, 3, width}, {3 * row, row, 1}, random);
            HostTensor gate = normal_tensor(type, {2, 3, width}, {3 * (row + 1), row + 1, 1}, random);
            HostTensor weight = normal_tensor(type, {width}, random);
            HostTensor output(type, {2, 3, width}, {3 * row, row, 1});
            vkattn_gated_rms_norm_desc desc{};
            desc.input = input.view();
            desc.gate = gate.view();
            desc.weight = weight.view();
            desc.output = output.view();
            const std::vector<Region> regions{{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                              {VKATTN_ROLE_MULTIPLIER, &gate, Access::kRead},
                                              {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                              {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
            test_device().run(test_device().context().gated_rms_norm_plan(desc), regions);
            std::vector<double> expected(output.elements());
            for (std::uint64_t i = 0; i < expected.size(); ++i) {
                double squares = 0;
                for (std::uint64_t j = 0; j < width; ++j)
                    squares += std::pow(static_cast<double>(input.get(i / width * width + j)), 2);
                const auto z = static_cast<double>(gate.get(i));
                expected[i] = static_cast<double>(input.get(i)) /
                              std::sqrt(squares / static_cast<double>(width) + 1e-6) *
                              static_cast<double>(weight.get(i % width)) * z / (1 + std::exp(-z));
            }
            check_numbers("output", output, expected, linear_attention_bound(type));
        }
}

TEST_SUITE_END();
