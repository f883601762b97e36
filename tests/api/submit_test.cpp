// Work that is only submitted: plans and copies in a row, what they wait for and signal, and what is kept meanwhile.
#include "application.hpp"
#include "compare.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"
#include "skips.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <thread>

using namespace vkattn_test;

namespace {

constexpr float kUntouched = 12345.0f;

// A small problem with its plan and buffers in some context.
class Work {
  public:
    explicit Work(const vkattn::Context &context, vkattn_kernel kernel = VKATTN_KERNEL_FLASH, unsigned seed = 5,
                  std::uint64_t queries = 7)
        : query(random_tensor({1, 2, queries, 16}, seed)), key(random_tensor({1, 2, 50, 16}, seed + 1)),
          expected(expected_of(query, key)), plan(context.attention_plan(desc(query, key, kernel))),
          query_buffer(context.buffer(query.view())), key_buffer(context.buffer(key.view())),
          output_buffer(context.buffer(query.view())), output(query.elements(), kUntouched) {}

    std::vector<vkattn_binding> bindings() const {
        return {vkattn::bind(VKATTN_ROLE_QUERY, query_buffer), vkattn::bind(VKATTN_ROLE_KEY, key_buffer),
                vkattn::bind(VKATTN_ROLE_VALUE, key_buffer), vkattn::bind(VKATTN_ROLE_OUTPUT, output_buffer)};
    }
    void write() {
        query_buffer.write(query.bytes());
        key_buffer.write(key.bytes());
    }
    bool is_right() const { return is_near(output, expected); }

    static HostTensor random_tensor(Shape shape, unsigned seed) {
        std::mt19937 random(seed);
        return normal_tensor(VKATTN_TYPE_F32, std::move(shape), random);
    }
    static vkattn_attention_desc desc(const HostTensor &query, const HostTensor &key, vkattn_kernel kernel) {
        vkattn_attention_desc desc{};
        desc.query = desc.output = query.view();
        desc.key = desc.value = key.view();
        desc.kernel = kernel;
        return desc;
    }
    static std::vector<double> expected_of(const HostTensor &query, const HostTensor &key) {
        AttentionProblem problem;
        problem.query = query;
        problem.key = problem.value = key;
        return reference_attention(problem).output;
    }
    static bool is_near(std::span<const float> actual, std::span<const double> expected) {
        return std::ranges::equal(actual, expected, [](float a, double b) { return std::fabs(a - b) < 1e-5; });
    }

    HostTensor query, key;
    std::vector<double> expected;
    vkattn::Plan plan;
    vkattn::Buffer query_buffer, key_buffer, output_buffer;
    std::vector<float> output;
};

// What a submission waits for and signals; one of each, or none.
class Sync {
  public:
    Sync(std::optional<vkattn_semaphore> wait, std::optional<vkattn_semaphore> signal) {
        if (wait) waits_.push_back(*wait);
        if (signal) signals_.push_back(*signal);
    }
    operator vkattn_sync() const { return vkattn::sync(waits_, signals_); }

  private:
    std::vector<vkattn_semaphore> waits_, signals_;
};

vkattn::Context counted_context(const Application &app) {
    vkattn_context_info info = app.context_info();
    info.get_instance_proc_addr = counted_instance_function;
    return vkattn::Context(info);
}

} // namespace

TEST_SUITE_BEGIN("submit");

TEST_CASE_FIXTURE(DeviceTest, "plans submitted in a row see what those before wrote, without semaphores") {
    const vkattn::Context &context = test_device().context();
    Work work(context, VKATTN_KERNEL_UNFUSED); // which has dispatches that wait for each other, and a workspace
    const vkattn::Buffer other = context.buffer(work.query.view());
    const auto chain = [&](const auto &step) {
        work.write();
        for (int i = 0; i < 8; ++i) { // query -> output -> other -> output ...
            std::vector<vkattn_binding> bindings = work.bindings();
            if (i > 0) bindings[0] = vkattn::bind(VKATTN_ROLE_QUERY, i % 2 == 1 ? work.output_buffer : other);
            if (i % 2 == 1) bindings[3] = vkattn::bind(VKATTN_ROLE_OUTPUT, other);
            step(bindings);
        }
        std::vector<float> last(work.output.size());
        other.read(last);
        return last;
    };
    const std::vector<float> expected = chain([&](const auto &bindings) { work.plan.run(bindings); });
    int submitted = 0;
    const std::vector<float> actual = chain([&](const auto &bindings) {
        work.plan.submit(bindings);
        if (++submitted == 8) context.wait();
    });
    CHECK(actual == expected);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "an upload, a plan and a download follow each other by a timeline, once the host lets them") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE), timeline(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    const vkattn::Context context(app.context_info());
    Work work(context);
    work.query_buffer.upload(work.query.bytes(), 0, Sync(gate.at(3), timeline.at(1)));
    work.key_buffer.upload(work.key.bytes(), 0, Sync(timeline.at(1), timeline.at(2)));
    work.plan.submit(work.bindings(), Sync(timeline.at(2), timeline.at(10)));
    work.output_buffer.download(work.output, 0, Sync(timeline.at(10), timeline.at(11)));
    CHECK(timeline.value() == 0);
    gate.signal(3);
    CHECK(timeline.reaches(11));
    context.wait();
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest, "a wait that is over while the queue waits for the host says so, and loses nothing") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    const vkattn::Context context(app.context_info());
    Work work(context);
    work.write();
    work.plan.submit(work.bindings(), Sync(gate.at(1), std::nullopt));
    for (const std::uint64_t timeout_ns : {0, 1'000'000}) {
        CHECK(vkattn_wait(context.get(), timeout_ns) == VKATTN_ERROR_TIMEOUT);
        CHECK(std::string(vkattn_last_failure()->member) == "timeout_ns");
    }
    gate.signal(1);
    context.wait();
    CHECK(vkattn_wait(context.get(), 0) == VKATTN_SUCCESS);
    work.output_buffer.read(work.output);
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a plan is made while the queue waits for its maker, whose class is then measured by the next") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    vkattn_context_info info = app.context_info();
    info.tune_budget_ms = 3'600'000;
    const vkattn::Context context(info);
    Work work(context);
    work.write();
    CHECK(context.tune_budget().classes == 1);
    work.plan.submit(work.bindings(), Sync(gate.at(1), std::nullopt));
    Work other(context, VKATTN_KERNEL_FLASH, 5, 20);
    CHECK(context.tune_budget().classes == 1); // a run would wait for ever
    gate.signal(1);
    context.wait();
    other = Work(context, VKATTN_KERNEL_FLASH, 5, 20);
    CHECK(context.tune_budget().classes == 2);
    work.output_buffer.read(work.output);
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest, "a plan in several submissions waits before the first and signals after the last") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE), timeline(app.device, VK_SEMAPHORE_TYPE_TIMELINE),
        binary(app.device, VK_SEMAPHORE_TYPE_BINARY);
    const vkattn_trait bounded = {VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS, 1};
    vkattn_context_info info = app.context_info();
    info.traits = &bounded;
    info.trait_count = 1;
    info.get_instance_proc_addr = counted_instance_function;
    const vkattn::Context context(info);
    Work work(context, VKATTN_KERNEL_UNFUSED, 5, 200);
    work.query_buffer.upload(work.query.bytes(), 0, Sync(gate.at(1), timeline.at(1)));
    work.key_buffer.upload(work.key.bytes(), 0, Sync(timeline.at(1), timeline.at(2)));
    vulkan_calls().clear();
    work.plan.submit(work.bindings(), Sync(timeline.at(2), binary.at()));
    CHECK(vulkan_calls().submissions.size() > 8);
    gate.signal(1); // before a binary semaphore is waited for, all that its signal depends on must be submitted
    work.output_buffer.download(work.output, 0, Sync(binary.at(), timeline.at(3)));
    CHECK(timeline.reaches(3));
    context.wait();
    CHECK(work.is_right());
    vulkan_calls().clear();
    std::ranges::fill(work.output, kUntouched);
    work.plan.run(work.bindings());
    CHECK(vulkan_calls().submissions.size() > 8);
    work.output_buffer.read(work.output);
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a timeline may be waited for where it already is, at 0 too, and copies of nothing signal") {
    const Application app({.timelines = true});
    const Semaphore timeline(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    const vkattn::Context context(app.context_info());
    Work work(context);
    work.write();
    work.plan.submit(work.bindings(), Sync(timeline.at(0), std::nullopt));
    const std::vector<std::uint8_t> nothing;
    work.query_buffer.upload(nothing, 0, Sync(std::nullopt, timeline.at(4)));
    CHECK(timeline.reaches(4));
    work.output_buffer.download(work.output, 0, Sync(timeline.at(4), std::nullopt));
    context.wait();
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest, "a device of vkattn's own has timelines where they are a part of Vulkan") {
    const vkattn::Context &context = test_device().context();
    if (test_device().facts().api_version < VK_API_VERSION_1_2) return skip("the device has no Vulkan 1.2");
    load_vulkan();
    VkInstance instance = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    vkattn::check(vkattn_context_handles(context.get(), &instance, nullptr, &device, nullptr, nullptr));
    volkLoadInstance(instance);
    const Semaphore timeline(device, VK_SEMAPHORE_TYPE_TIMELINE);
    Work work(context);
    work.write();
    work.plan.submit(work.bindings(), Sync(std::nullopt, timeline.at(2)));
    CHECK(timeline.reaches(2));
    work.output_buffer.read(work.output);
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest,
                  "binary semaphores, on a device without timelines, on a transfer queue where there is one") {
    const Application app;
    const Semaphore written(app.device, VK_SEMAPHORE_TYPE_BINARY), written_too(app.device, VK_SEMAPHORE_TYPE_BINARY),
        computed(app.device, VK_SEMAPHORE_TYPE_BINARY);
    vkattn_context_info info = app.context_info();
    for (const bool with_transfer_queue : {false, true}) {
        if (with_transfer_queue) info.transfer_queue = app.transfer_queue;
        if (with_transfer_queue) info.transfer_queue_family = app.transfer_queue_family;
        const vkattn::Context context(info);
        Work work(context);
        work.query_buffer.upload(work.query.bytes(), 0, Sync(std::nullopt, written.at()));
        work.key_buffer.upload(work.key.bytes(), 0, Sync(std::nullopt, written_too.at(77))); // the value is ignored
        const std::array waits = {written.at(), written_too.at()};
        const std::array signals = {computed.at()};
        work.plan.submit(work.bindings(), vkattn::sync(waits, signals));
        work.output_buffer.download(work.output, 0, Sync(computed.at(), std::nullopt));
        context.wait();
        CHECK(work.is_right());
    }
    info.transfer_queue = app.transfer_queue;
    info.transfer_queue_family = 1000;
    CHECK_THROWS_WITH_AS(vkattn::Context{info}, doctest::Contains("transfer_queue_family: 1000"), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "a workspace of vkattn's own stays until the device is done, and no longer") {
    const Application app({.timelines = true});
    const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    vulkan_calls().clear();
    const vkattn::Context context = counted_context(app);
    Work work(context, VKATTN_KERNEL_UNFUSED);
    REQUIRE(work.plan.requirements().workspace_bytes > 0);
    work.write();
    const int made = vulkan_calls().buffers, destroyed = vulkan_calls().fewer_buffers;
    work.plan.submit(work.bindings(), Sync(gate.at(1), std::nullopt));
    CHECK(vulkan_calls().buffers == made + 1);
    CHECK(vulkan_calls().fewer_buffers == destroyed);
    gate.signal(1);
    context.wait();
    CHECK(vulkan_calls().fewer_buffers == destroyed + 1);
    work.output_buffer.read(work.output);
    CHECK(work.is_right());
}

TEST_CASE_FIXTURE(DeviceTest,
                  "what was signalled may be destroyed without a wait; a download is written all the same") {
    const Application app({.timelines = true});
    const Semaphore timeline(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    vkattn::Context context(app.context_info());
    std::optional<Work> work(std::in_place, context);
    const std::vector<double> expected = work->expected;
    std::vector<float> output(expected.size());
    work->write();
    work->plan.submit(work->bindings(), Sync(std::nullopt, timeline.at(1)));
    work->output_buffer.download(output, 0, Sync(timeline.at(1), timeline.at(2)));
    REQUIRE(timeline.reaches(2));
    work.reset();
    context = vkattn::Context(nullptr);
    CHECK(Work::is_near(output, expected));
}

TEST_CASE_FIXTURE(DeviceTest, "a sync that is wrong is refused by name, and nothing is submitted") {
    const vkattn::Context &context = test_device().context();
    Work work(context);
    work.write();
    const std::vector<float> before(work.output);
    work.output_buffer.write(before);
    const vkattn_semaphore none{};
    vkattn_sync no_waits{}, no_signals{};
    no_waits.wait_count = 2;
    no_signals.signal_count = 1;
    struct Wrong {
        vkattn_sync sync;
        const char *message;
    };
    const Wrong all[] = {
        {no_waits, "sync.waits: NULL, expected 2 semaphores"},
        {no_signals, "sync.signals: NULL, expected 1 semaphores"},
        {vkattn::sync({&none, 1}, {}), "sync.waits: VK_NULL_HANDLE, expected a semaphore of the device"},
        {vkattn::sync({}, {&none, 1}), "sync.signals: VK_NULL_HANDLE, expected a semaphore of the device"},
    };
    std::vector<float> untouched = before;
    const std::vector<float> zeros(before.size());
    for (const Wrong &wrong : all) {
        CHECK_THROWS_WITH_AS(work.plan.submit(work.bindings(), wrong.sync), doctest::Contains(wrong.message),
                             vkattn::Error);
        CHECK_THROWS_WITH_AS(work.output_buffer.upload(zeros, 0, wrong.sync), doctest::Contains(wrong.message),
                             vkattn::Error);
        CHECK_THROWS_WITH_AS(work.key_buffer.download(untouched, 0, wrong.sync), doctest::Contains(wrong.message),
                             vkattn::Error);
    }
    context.wait();
    CHECK(untouched == before);
    work.output_buffer.read(work.output);
    CHECK(work.output == before);
}

TEST_CASE_FIXTURE(DeviceTest, "a step of a cache counts when it is submitted, and not when it is refused") {
    constexpr std::uint32_t kSteps = 3;
    const vkattn::Context &context = test_device().context();
    const vkattn::Layer layer = small_layer(context);
    vkattn_cache_info info{};
    info.layer = layer.get();
    info.batch = 1;
    info.capacity = kSteps;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    const vkattn::Cache cache = context.cache(info);
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kDecoderWidth});
    call.cache = cache.get();
    const vkattn::Plan plan = layer.plan(call);
    vkattn::Buffer in = context.buffer(call.query);
    const vkattn::Buffer out = context.buffer(call.output);
    in.write(std::vector<float>(kDecoderWidth, 0.5f));
    const auto step = [&](const vkattn_sync &sync) {
        plan.submit({vkattn::bind(VKATTN_ROLE_QUERY, in), vkattn::bind(VKATTN_ROLE_OUTPUT, out)}, sync);
    };
    vkattn_sync wrong{};
    wrong.wait_count = 1;
    for (std::uint32_t i = 1; i <= kSteps; ++i) {
        CHECK_THROWS_AS(step(wrong), vkattn::Error);
        CHECK(cache.lengths() == std::vector<std::uint32_t>{i - 1});
        step({});
        CHECK(cache.lengths() == std::vector<std::uint32_t>{i});
    }
    CHECK_THROWS_AS(step({}), vkattn::Error); // it is full
    context.wait();
    std::vector<float> keys(kDecoderWidth * kSteps);
    cache.read(VKATTN_CACHE_KEYS, 0, keys); // the device has them all
    CHECK(std::ranges::any_of(std::span(keys).last(kDecoderWidth / 2), [](float key) { return key != 0.0f; }));
}

TEST_CASE_FIXTURE(DeviceTest, "many submissions take few command pools") {
    constexpr int kInFlight = 10;
    const Application app({.timelines = true});
    const Semaphore timeline(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
    vulkan_calls().clear();
    {
        const vkattn::Context context = counted_context(app);
        Work work(context);
        work.write();
        context.wait();
        vulkan_calls().clear();
        for (int i = 0; i < 200; ++i) {
            work.plan.submit(work.bindings());
            if (i % kInFlight == kInFlight - 1) context.wait();
        }
        CHECK(vulkan_calls().command_pools <= kInFlight);
        // Without a wait what the device has finished is used again, too. A fence may come a little later than a
        // semaphore.
        for (std::uint64_t i = 1; i <= 50; ++i) {
            work.plan.submit(work.bindings(), Sync(std::nullopt, timeline.at(i)));
            REQUIRE(timeline.reaches(i));
        }
        CHECK(vulkan_calls().command_pools <= kInFlight);
        work.output_buffer.read(work.output);
        CHECK(work.is_right());
        vulkan_calls().clear();
    }
    CHECK(vulkan_calls().fewer_pools <= kInFlight + 2); // those, and what writing and reading took
}

TEST_CASE_FIXTURE(DeviceTest, "threads submit side by side, each with its own semaphores") {
    const Application app;
    const vkattn::Context context(app.context_info());
    constexpr unsigned kThreads = 4;
    std::vector<Work> works;
    for (unsigned t = 0; t < kThreads; ++t)
        works.emplace_back(context, t % 2 == 0 ? VKATTN_KERNEL_FLASH : VKATTN_KERNEL_UNFUSED, 10 * t);
    std::deque<Semaphore> semaphores; // destroyed by one thread: each waits for the device
    for (unsigned i = 0; i < 2 * kThreads; ++i) semaphores.emplace_back(app.device, VK_SEMAPHORE_TYPE_BINARY);
    std::array<std::string, kThreads> complaints;
    const auto submit = [&](unsigned t) {
        Work &work = works[t];
        const Semaphore &written = semaphores[2 * t], &computed = semaphores[2 * t + 1];
        for (int round = 0; round < 25; ++round) {
            std::ranges::fill(work.output, kUntouched);
            work.key_buffer.upload(work.key.bytes());
            work.query_buffer.upload(work.query.bytes(), 0, Sync(std::nullopt, written.at()));
            work.plan.submit(work.bindings(), Sync(written.at(), computed.at()));
            work.output_buffer.download(work.output, 0, Sync(computed.at(), std::nullopt));
            context.wait();
            if (!work.is_right()) complaints[t] = "wrong numbers in round " + std::to_string(round);
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] {
                try {
                    submit(t);
                } catch (const std::exception &error) {
                    complaints[t] = error.what();
                }
            });
    }
    for (const std::string &complaint : complaints) CHECK_MESSAGE(complaint.empty(), complaint);
}

TEST_SUITE_END();
