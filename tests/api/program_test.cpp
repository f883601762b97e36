// Recorded programs: several plans in one command buffer, replayed with other contents, with no more barriers than are needed.
#include "application.hpp"
#include "compare.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"
#include "limited_device.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <functional>

using namespace vkattn_test;

namespace {

constexpr std::uint64_t kVocabulary = 20001; // of which argmax makes three parts

vkattn_tensor row(std::uint64_t width) { return vkattn::tensor(VKATTN_TYPE_F32, {1, 1, width}); }

// Plans with what they are bound to, in a row.
class Steps {
  public:
    void add(vkattn::Plan plan, std::vector<vkattn_binding> bindings) {
        plans.push_back(std::move(plan));
        bound.push_back(std::move(bindings));
    }
    vkattn::Program program(const vkattn::Context &context) const {
        std::vector<vkattn_bound_plan> all;
        for (std::size_t i = 0; i < plans.size(); ++i) all.push_back(vkattn::bind(plans[i], bound[i]));
        return context.program(all);
    }
    void run() const {
        for (std::size_t i = 0; i < plans.size(); ++i) plans[i].run(bound[i]);
    }

    std::deque<vkattn::Plan> plans;
    std::deque<std::vector<vkattn_binding>> bound;
};

// A model of two layers for a token: embedding, attention with a cache, gated feed-forward, logits, the greatest, which is
// the next token. The same weights whenever it is made.
class SmallModel {
  public:
    explicit SmallModel(const vkattn::Context &context, std::uint32_t capacity = 8)
        : context_(context), token(context.buffer(4)), logits(context.buffer(row(kVocabulary))),
          stream_(context.buffer(row(kDecoderWidth))), normed_(context.buffer(row(kDecoderWidth))),
          up_(context.buffer(row(2 * kDecoderWidth))), gate_(context.buffer(row(2 * kDecoderWidth))) {
        const HostTensor &embedding = weight({kVocabulary, kDecoderWidth}, 1.0f);
        vkattn_embedding_desc look_up{};
        look_up.tokens = vkattn::tensor(VKATTN_TYPE_I32, {1, 1});
        look_up.weight = embedding.view();
        look_up.output = row(kDecoderWidth);
        const vkattn::Buffer &rows = weights_.back();
        steps.add(context.embedding_plan(look_up),
                  {vkattn::bind(VKATTN_ROLE_TOKENS, token), vkattn::bind(VKATTN_ROLE_WEIGHT, rows),
                   vkattn::bind(VKATTN_ROLE_OUTPUT, stream_)});
        for (int layer = 0; layer < 2; ++layer) add_layer(capacity);
        add_norm();
        vkattn_linear_desc head{};
        head.input = row(kDecoderWidth);
        head.weight = embedding.view();
        head.output = row(kVocabulary);
        steps.add(context.linear_plan(head),
                  {vkattn::bind(VKATTN_ROLE_INPUT, normed_), vkattn::bind(VKATTN_ROLE_WEIGHT, rows),
                   vkattn::bind(VKATTN_ROLE_OUTPUT, logits)});
        vkattn_argmax_desc choice{};
        choice.input = row(kVocabulary);
        choice.tokens = look_up.tokens;
        steps.add(context.argmax_plan(choice),
                  {vkattn::bind(VKATTN_ROLE_INPUT, logits), vkattn::bind(VKATTN_ROLE_TOKENS, token)});
    }

    void begin(std::int32_t first) {
        for (const vkattn::Cache &cache : caches) cache.rewind(0, 0);
        token.write(std::vector{first});
    }
    // The token and the bits of the logits.
    std::vector<std::uint32_t> result() const {
        std::vector<std::uint32_t> bits(kVocabulary + 1);
        logits.read(std::span(bits).first(kVocabulary));
        token.read(std::span(bits).last(1));
        return bits;
    }

  private:
    const vkattn::Context &context_;

  public:
    vkattn::Buffer token, logits;
    std::deque<vkattn::Layer> layers;
    std::deque<vkattn::Cache> caches;
    Steps steps;

  private:
    const HostTensor &weight(Shape shape, float size) {
        tensors_.push_back(normal_tensor(VKATTN_TYPE_F32, std::move(shape), random_, size));
        weights_.push_back(context_.buffer(tensors_.back().view()));
        weights_.back().write(tensors_.back().bytes());
        return tensors_.back();
    }
    void add_layer(std::uint32_t capacity) {
        add_norm();
        layers.push_back(small_layer(context_));
        vkattn_cache_info info{};
        info.layer = layers.back().get();
        info.batch = 1;
        info.capacity = capacity;
        info.key_type = info.value_type = VKATTN_TYPE_F16;
        caches.push_back(context_.cache(info));
        vkattn_layer_call call{};
        call.query = call.output = call.residual = row(kDecoderWidth);
        call.mask_flags = VKATTN_MASK_CAUSAL;
        call.cache = caches.back().get();
        steps.add(layers.back().plan(call),
                  {vkattn::bind(VKATTN_ROLE_QUERY, normed_), vkattn::bind(VKATTN_ROLE_RESIDUAL, stream_),
                   vkattn::bind(VKATTN_ROLE_OUTPUT, stream_)});
        add_norm();
        add_linear(normed_, kDecoderWidth, up_, 2 * kDecoderWidth, nullptr);
        add_linear(normed_, kDecoderWidth, gate_, 2 * kDecoderWidth, nullptr); // beside the other
        add_linear(gate_, 2 * kDecoderWidth, up_, 2 * kDecoderWidth, &up_);
        add_linear(up_, 2 * kDecoderWidth, stream_, kDecoderWidth, &stream_);
    }
    void add_norm() {
        vkattn_norm_desc desc{};
        desc.input = desc.output = row(kDecoderWidth);
        desc.weight = weight({kDecoderWidth}, 1.0f).view();
        steps.add(context_.norm_plan(desc),
                  {vkattn::bind(VKATTN_ROLE_INPUT, stream_), vkattn::bind(VKATTN_ROLE_WEIGHT, weights_.back()),
                   vkattn::bind(VKATTN_ROLE_OUTPUT, normed_)});
    }
    void add_linear(const vkattn::Buffer &in, std::uint64_t ins, const vkattn::Buffer &out, std::uint64_t outs,
                    const vkattn::Buffer *residual) {
        vkattn_linear_desc desc{};
        desc.input = row(ins);
        desc.weight = weight({outs, ins}, 0.1f).view();
        desc.output = row(outs);
        std::vector<vkattn_binding> bindings = {vkattn::bind(VKATTN_ROLE_INPUT, in),
                                                vkattn::bind(VKATTN_ROLE_WEIGHT, weights_.back()),
                                                vkattn::bind(VKATTN_ROLE_OUTPUT, out)};
        if (residual != nullptr) {
            desc.residual = row(outs);
            bindings.push_back(vkattn::bind(VKATTN_ROLE_RESIDUAL, *residual));
        }
        steps.add(context_.linear_plan(desc), std::move(bindings));
    }

    vkattn::Buffer stream_, normed_, up_, gate_;
    std::mt19937 random_{77};
    std::deque<HostTensor> tensors_;
    std::deque<vkattn::Buffer> weights_;
};

std::string message_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

// output = norm(input) of 4 numbers at places of one buffer, whose parts are 64 floats apart.
class Norms {
  public:
    explicit Norms(const vkattn::Context &context)
        : context_(context), numbers(context.buffer(kParts * kPart)), weight_(context.buffer(4 * 4)) {
        weight_.write(std::vector{1.5f, -0.5f, 2.0f, 1.0f});
    }
    void add(Steps &steps, std::uint64_t from, std::uint64_t to) const {
        vkattn_norm_desc desc{};
        desc.input = desc.output = row(4);
        desc.weight = vkattn::tensor(VKATTN_TYPE_F32, {4});
        steps.add(context_.norm_plan(desc), {vkattn::bind(VKATTN_ROLE_INPUT, numbers.vulkan(), from * kPart, kPart),
                                             vkattn::bind(VKATTN_ROLE_WEIGHT, weight_),
                                             vkattn::bind(VKATTN_ROLE_OUTPUT, numbers.vulkan(), to * kPart, kPart)});
    }
    void begin() {
        std::vector<float> values(kParts * kPart / 4);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 4.5f;
        numbers.write(values);
    }
    std::vector<float> values() const {
        std::vector<float> all(kParts * kPart / 4);
        numbers.read(all);
        return all;
    }

    static constexpr std::uint64_t kParts = 8, kPart = 256;

  private:
    const vkattn::Context &context_;

  public:
    vkattn::Buffer numbers;

  private:
    vkattn::Buffer weight_;
};

void check_model(const vkattn::Context &context, bool in_pieces) {
    SmallModel one_by_one(context), replayed(context);
    const vkattn::Program program = replayed.steps.program(context);
    const vkattn_program_report report = program.report();
    CHECK(report.plans == replayed.steps.plans.size());
    std::uint32_t dispatches = 0;
    for (const vkattn::Plan &plan : replayed.steps.plans) dispatches += plan.report().dispatches;
    CHECK(report.dispatches == dispatches);
    // The first waits for nothing. Of each layer up and gate are side by side, and k and v with q where they are not one product.
    CHECK(report.barriers < report.dispatches - 1 - 2);
    CHECK((report.submissions > 1) == in_pieces);
    for (const std::int32_t first : {3, 4711, 19999}) {
        one_by_one.begin(first);
        replayed.begin(first);
        for (std::uint32_t i = 0; i < 3; ++i) {
            one_by_one.steps.run();
            if (i == 1)
                program.submit();
            else
                program.run();
            CHECK(replayed.result() == one_by_one.result());
            CHECK(replayed.caches[1].lengths() == std::vector<std::uint32_t>{i + 1});
        }
    }
}

} // namespace

TEST_SUITE_BEGIN("programs");

TEST_CASE_FIXTURE(DeviceTest, "a program gives what its plans give one by one, token after token") {
    check_model(test_device().context(), false);
}

TEST_CASE_FIXTURE(DeviceTest, "a program does so without push descriptors, and in several submissions") {
    const LimitedDevice limited("push_descriptors=0,max_dispatch_megaflops=1,self_test=0");
    check_model(limited.context(), true);
}

TEST_CASE_FIXTURE(DeviceTest, "a vocabulary above the storage buffer range gives the same tokens and logits") {
    const auto replayed = [](const char *traits) {
        const LimitedDevice device(traits);
        SmallModel model(device.context()); // whose embedding takes 2,560,128 bytes
        const vkattn::Program program = model.steps.program(device.context());
        std::vector<std::vector<std::uint32_t>> results;
        model.begin(17);
        for (int i = 0; i < 3; ++i) {
            program.run();
            results.push_back(model.result());
        }
        return results;
    };
    CHECK(replayed("max_storage_buffer_range=500000,self_test=0") == replayed("self_test=0"));
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a program waits where something was written, or is written that was read, and nowhere else") {
    const vkattn::Context &context = test_device().context();
    Norms norms(context);
    const auto barriers = [&](std::initializer_list<std::pair<int, int>> each) {
        Steps steps;
        for (const auto &[from, to] : each)
            norms.add(steps, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
        const vkattn::Program program = steps.program(context);
        norms.begin();
        program.run();
        const std::vector<float> actual = norms.values();
        norms.begin();
        steps.run();
        CHECK(actual == norms.values());
        return program.report().barriers;
    };
    CHECK(barriers({{0, 1}, {0, 2}, {3, 4}, {5, 5}}) == 0);
    CHECK(barriers({{0, 1}, {1, 2}}) == 1);                 // reads what was written
    CHECK(barriers({{0, 1}, {2, 0}}) == 1);                 // writes what was read
    CHECK(barriers({{0, 1}, {2, 1}}) == 1);                 // writes what was written
    CHECK(barriers({{0, 1}, {2, 3}, {1, 4}, {3, 5}}) == 1); // one for both
    CHECK(barriers({{0, 1}, {1, 0}, {0, 1}, {1, 0}}) == 3);
}

TEST_CASE_FIXTURE(DeviceTest, "chains of random steps on shared buffers give what they give one by one") {
    const vkattn::Context &context = test_device().context();
    std::mt19937 random(2026);
    std::uniform_int_distribution<std::uint64_t> part(0, Norms::kParts - 1);
    Norms norms(context);
    for (int round = 0; round < 3; ++round) {
        Steps steps;
        for (int i = 0; i < 25; ++i) norms.add(steps, part(random), part(random));
        const vkattn::Program program = steps.program(context);
        norms.begin();
        for (int replay = 0; replay < 2; ++replay) program.submit(); // the second goes on from the first
        const std::vector<float> actual = norms.values();
        norms.begin();
        for (int replay = 0; replay < 2; ++replay) steps.run();
        CHECK(actual == norms.values());
    }
}

TEST_CASE_FIXTURE(DeviceTest, "plans side by side do not share a workspace, and plans in a row do") {
    const vkattn::Context &context = test_device().context();
    std::mt19937 random(3);
    const HostTensor query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 100, 16}, random);
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = query.view();
    desc.kernel = VKATTN_KERNEL_UNFUSED; // which has a workspace
    const vkattn::Buffer in = context.buffer(query.view()), out = context.buffer(query.view()),
                         other = context.buffer(query.view());
    const auto bindings = [&](const vkattn::Buffer &to) {
        return std::vector{vkattn::bind(VKATTN_ROLE_QUERY, in), vkattn::bind(VKATTN_ROLE_KEY, in),
                           vkattn::bind(VKATTN_ROLE_VALUE, in), vkattn::bind(VKATTN_ROLE_OUTPUT, to)};
    };
    Steps one, two;
    one.add(context.attention_plan(desc), bindings(out));
    for (const vkattn::Buffer *to : {&out, &other}) two.add(context.attention_plan(desc), bindings(*to));
    const vkattn_program_report single = one.program(context).report(), both = two.program(context).report();
    CHECK(both.barriers == 2 * single.barriers); // none between the two
    CHECK(both.workspace_bytes >= 2 * single.workspace_bytes);
    for (int i = 0; i < 30; ++i) one.add(context.attention_plan(desc), bindings(i % 2 == 0 ? out : other));
    CHECK(one.program(context).report().workspace_bytes <= 1 << 20);
}

TEST_CASE_FIXTURE(DeviceTest, "plans and program may be destroyed while the device is at work") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    const vkattn::Context context(app.context_info());
    Norms norms(context);
    Steps steps;
    norms.add(steps, 0, 1);
    norms.add(steps, 1, 2);
    norms.begin();
    steps.run();
    const std::vector<float> expected = norms.values();
    vkattn::Program program = steps.program(context);
    steps.plans.clear(); // the program keeps them
    norms.begin();
    const vkattn_semaphore wait = gate.at(1);
    program.submit(vkattn::sync({&wait, 1}, {}));
    program.submit(); // while the first waits
    program = vkattn::Program();
    gate.signal(1);
    context.wait();
    CHECK(norms.values() == expected);
}

TEST_CASE_FIXTURE(DeviceTest, "a replay that no cache has room for, or that is refused, counts no tokens at all") {
    const vkattn::Context &context = test_device().context();
    SmallModel model(context, 2);
    const vkattn::Program program = model.steps.program(context);
    model.begin(5);
    vkattn_sync wrong{};
    wrong.wait_count = 1;
    CHECK_THROWS_AS(program.submit(wrong), vkattn::Error);
    CHECK(model.caches[0].lengths() == std::vector<std::uint32_t>{0});
    program.run();
    model.caches[1].reserve(1); // the second is full
    CHECK(message_of([&] { program.run(); }).find("exceed its capacity") != std::string::npos);
    CHECK(model.caches[0].lengths() == std::vector<std::uint32_t>{1});
}

TEST_CASE_FIXTURE(DeviceTest, "a replay takes as many submissions as the report says, timed or not") {
    load_vulkan();
    for (const bool in_pieces : {false, true}) {
        const LimitedDevice limited(in_pieces ? "max_dispatch_megaflops=1,self_test=0" : "self_test=0",
                                    counted_instance_function);
        const vkattn::Context &context = limited.context();
        constexpr std::uint64_t kIns = 512, kOuts = 1024; // a megaflop
        vkattn_linear_desc desc{};
        desc.input = row(kIns);
        desc.weight = vkattn::tensor(VKATTN_TYPE_F32, {kOuts, kIns});
        desc.output = row(kOuts);
        const vkattn::Buffer in = context.buffer(desc.input), weight = context.buffer(desc.weight),
                             out = context.buffer(desc.output);
        Steps steps;
        for (int i = 0; i < 3; ++i)
            steps.add(context.linear_plan(desc),
                      {vkattn::bind(VKATTN_ROLE_INPUT, in), vkattn::bind(VKATTN_ROLE_WEIGHT, weight),
                       vkattn::bind(VKATTN_ROLE_OUTPUT, out)});
        const vkattn::Program program = steps.program(context);
        const auto expected = static_cast<int>(program.report().submissions);
        CHECK((expected > 1) == in_pieces);
        vulkan_calls().clear();
        for (int replay = 1; replay <= 3; ++replay) {
            CHECK(vkattn_program_run(program.get(), nullptr) == VKATTN_SUCCESS);
            CHECK(vulkan_calls().queue_submits == replay * expected);
        }
        double gpu_ms = -2.0;
        CHECK(vkattn_program_run(program.get(), &gpu_ms) == VKATTN_SUCCESS);
        CHECK(vulkan_calls().queue_submits == 4 * expected);
        CHECK((gpu_ms >= 0.0) == (limited.device().facts().timestamps != 0));
        program.submit();
        context.wait();
        CHECK(vulkan_calls().queue_submits == 5 * expected);
        CHECK(vulkan_calls().released_pools == 0);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a program may append to one cache several times") {
    const vkattn::Context &context = test_device().context();
    SmallModel model(context, 5);
    Steps twice;
    for (int i = 0; i < 2; ++i) {
        vkattn_layer_call call{};
        call.query = call.output = call.residual = row(kDecoderWidth);
        call.cache = model.caches[0].get();
        twice.add(model.layers[0].plan(call), model.steps.bound[2]);
    }
    const vkattn::Program program = twice.program(context);
    program.run();
    program.run();
    CHECK(model.caches[0].lengths() == std::vector<std::uint32_t>{4});
    CHECK(message_of([&] { program.run(); }).find("and 2 more exceed its capacity") != std::string::npos);
    CHECK(model.caches[0].lengths() == std::vector<std::uint32_t>{4});
}

TEST_CASE_FIXTURE(DeviceTest, "what is wrong with a program is said in one line, with the plan and the binding") {
    const vkattn::Context &context = test_device().context();
    Norms norms(context);
    Steps steps;
    for (int i = 0; i < 3; ++i) norms.add(steps, 0, 1);
    const auto made = [&] { return message_of([&] { steps.program(context); }); };
    CHECK(made().empty());
    const std::vector<vkattn_binding> right = steps.bound[2];
    steps.bound[2].pop_back();
    CHECK(made() == "plans[2]: bindings: role output is missing, expected a region for it");
    steps.bound[2] = right;
    steps.bound[2].push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, norms.numbers));
    CHECK(made() ==
          "plans[2]: bindings: role workspace is bound, expected none: the program has one for all its plans");
    steps.bound[2] = right;
    steps.plans[1] = vkattn::Plan();
    CHECK(made() == "plans[1]: plan is NULL, expected a plan");
    const LimitedDevice other("self_test=0");
    vkattn_norm_desc desc{};
    desc.input = desc.output = row(4);
    desc.weight = vkattn::tensor(VKATTN_TYPE_F32, {4});
    steps.plans[1] = other.context().norm_plan(desc);
    CHECK(made() == "plans[1]: plan: made in another context, expected one of the program's");
    CHECK(message_of([&] { context.program(std::span<const vkattn_bound_plan>()); }) ==
          "plans: NULL, expected a pointer");
    const vkattn_bound_plan none{};
    vkattn_program_info empty{};
    empty.plans = &none;
    vkattn_program program = nullptr;
    CHECK(vkattn_program_create(context.get(), &empty, &program) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()) == "plan_count: 0, expected at least 1");
    CHECK(vkattn_program_run(nullptr, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    vkattn_program_destroy(nullptr);
}

TEST_SUITE_END();
