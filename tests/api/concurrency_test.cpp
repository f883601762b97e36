// Many threads at once: on one context, on several, on the contexts of two drivers; and what a debug build says of uses
// that the caller had to synchronise. With VKATTN_TEST_DEVICE unset, and a loader that finds several drivers, on all
// devices.
#include "small_decoder.hpp"

#include "vkattn_variant/identity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#ifdef __linux__
#include <unistd.h>
#endif

using namespace vkattn_test;

namespace {

// A problem and its answer, which must have the same bits whichever thread asks.
struct Work {
    explicit Work(std::uint64_t size, vkattn_type stored = VKATTN_TYPE_F32) : head_dim(size), type(stored) {
        std::mt19937 random(static_cast<unsigned>(size));
        query = normal_tensor(type, {1, 2, kQueries, size}, random);
        key = normal_tensor(type, {1, 1, kKeys, size}, random);
    }
    vkattn_attention_desc desc() const {
        vkattn_attention_desc desc{};
        desc.query = desc.output = query.view();
        desc.key = desc.value = key.view();
        desc.mask_flags = VKATTN_MASK_CAUSAL;
        return desc;
    }
    std::vector<std::uint8_t> run(const vkattn::Context &context) const {
        return run(context, context.attention_plan(desc()));
    }
    std::vector<std::uint8_t> run(const vkattn::Context &context, const vkattn::Plan &plan) const {
        vkattn::Buffer in = context.buffer(query.bytes().size()), keys = context.buffer(key.bytes().size());
        const vkattn::Buffer out = context.buffer(query.bytes().size());
        in.write(query.bytes());
        keys.write(key.bytes());
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, in), vkattn::bind(VKATTN_ROLE_KEY, keys),
                  vkattn::bind(VKATTN_ROLE_VALUE, keys), vkattn::bind(VKATTN_ROLE_OUTPUT, out)});
        std::vector<std::uint8_t> bytes(query.bytes().size());
        out.read(bytes);
        return bytes;
    }
    static constexpr std::uint64_t kQueries = 5, kKeys = 70;
    std::uint64_t head_dim;
    vkattn_type type;
    HostTensor query, key;
};

// Runs work(0) .. work(count - 1), each in a thread; what they say is wrong comes together.
void in_threads(std::size_t count, const std::function<std::string(std::size_t)> &work) {
    std::vector<std::string> complaints(count);
    std::vector<std::thread> threads;
    std::atomic<bool> starts{false};
    for (std::size_t t = 0; t < count; ++t)
        threads.emplace_back([&, t] {
            while (!starts) std::this_thread::yield();
            try {
                complaints[t] = work(t);
            } catch (const std::exception &error) {
                complaints[t] = error.what();
            }
        });
    starts = true;
    for (std::thread &thread : threads) thread.join();
    for (std::size_t t = 0; t < count; ++t)
        CHECK_MESSAGE(complaints[t].empty(), "thread " << t << ": " << complaints[t]);
}

vkattn::Context new_context(const std::string &selector, const char *traits = "", std::uint32_t tune_budget_ms = 0) {
    ContextRequest request(traits);
    vkattn_context_info &info = request.info;
    info.tune_budget_ms = tune_budget_ms;
    info.device_selector = selector.c_str();
    info.enable_validation = validation_wanted() ? 1 : 0;
    info.message_callback = ValidationMessages::callback;
    info.message_user = &validation_messages();
    return vkattn::Context(info);
}

} // namespace

TEST_SUITE_BEGIN("concurrency");

TEST_CASE_FIXTURE(DeviceTest, "threads that plan, compile, run and save on one context") {
    const vkattn::Context context = new_context(device_selector());
    std::vector<Work> works;
    for (const std::uint64_t head_dim : {8, 20, 32, 64}) works.emplace_back(head_dim);
    std::vector<std::vector<std::uint8_t>> expected;
    for (const Work &work : works) expected.push_back(work.run(test_device().context()));
    const vkattn::Plan shared = context.attention_plan(works[0].desc());
    in_threads(5, [&](std::size_t t) -> std::string {
        for (std::size_t round = 0; round < 8; ++round) {
            const std::size_t i = (t + round) % works.size();
            if (works[i].run(context) != expected[i])
                return "other bits, head size " + std::to_string(works[i].head_dim);
            if (works[0].run(context, shared) != expected[0]) return "other bits of the shared plan";
            if (t == 1) {
                const vkattn_attention_desc desc = Work(4 * (round + 1)).desc();
                context.prewarm({&desc, 1}, 2);
            }
            if (t == 2 && context.save().empty()) return "nothing saved";
            if (t == 4 && round == 0) context.tune(Work(40).desc());
            if (t == 3 && context.facts().name[0] == '\0') return "no name";
            if (t == 0 && round == 3 && context.explain(works[i].desc()).empty()) return "nothing explained";
        }
        return "";
    });
}

TEST_CASE_FIXTURE(DeviceTest, "threads whose plans are of unknown classes measure each once") {
    const vkattn::Context context = new_context(device_selector(), "", 3'600'000);
    const std::array works{Work(16), Work(24)};
    in_threads(4, [&](std::size_t t) -> std::string {
        for (std::size_t round = 0; round < 2; ++round) {
            const Work &work = works[(t + round) % works.size()];
            const std::string reason = context.attention_plan(work.desc()).report().reason;
            if (reason.find("tuning") == std::string::npos) return "made before its class was measured: " + reason;
            if (context.tune_budget().spent_ms < 0) return "spent less than nothing";
            work.run(context);
        }
        return "";
    });
    CHECK(context.tune_budget().classes == works.size());
    CHECK(context.tune_budget().left_out == 0);
}

TEST_CASE_FIXTURE(DeviceTest, "threads that run beside one that tests every kernel") {
    const vkattn::Context context = new_context(device_selector(), kFewShaders);
    const Work work(32);
    const std::vector<std::uint8_t> expected = work.run(context);
    in_threads(3, [&](std::size_t t) -> std::string {
        if (t == 0) return std::ranges::all_of(context.self_test(), &vkattn_check::passed) ? "" : "a check failed";
        for (std::size_t round = 0; round < 8; ++round)
            if (work.run(context) != expected) return "other bits";
        return "";
    });
}

TEST_CASE_FIXTURE(DeviceTest, "threads that fail beside threads that do not") {
    const vkattn::Context &context = test_device().context();
    const Work work(32);
    const std::vector<std::uint8_t> expected = work.run(context);
    in_threads(4, [&](std::size_t t) -> std::string {
        for (int round = 0; round < 20; ++round) {
            if (t % 2 == 0) {
                if (work.run(context) != expected) return "other bits";
                continue;
            }
            vkattn_attention_desc desc = work.desc();
            desc.key.shape[t] = 77; // of thread 1, the heads; of thread 3, the head size
            try {
                context.attention_plan(desc);
                return "accepted";
            } catch (const vkattn::Error &error) { // the message is this thread's own
                if (std::string(error.what()).find("77") == std::string::npos) return error.what();
            }
        }
        return "";
    });
}

// Where thread-local memory is freed before it is destroyed, threads that end one after the other break the heap.
TEST_CASE_FIXTURE(DeviceTest,
                  "what a thread was told stays while others ask, and threads that have asked end in peace") {
    const vkattn::Context &context = test_device().context();
    const Work work(32), other(64);
    const vkattn_attention_desc desc = work.desc(), other_desc = other.desc();
    const vkattn::List<vkattn_option> options = context.explain(desc);
    const std::size_t count = options.size();
    const auto texts = [&] {
        std::string all;
        for (const vkattn_option &option : options) all += std::string(option.shape) + ", " + option.obstacle + "\n";
        return all;
    };
    const std::string before = texts();
    CHECK(before.size() > 3 * count);
    for (int round = 0; round < 20; ++round)
        in_threads(4, [&](std::size_t t) {
            const vkattn::List<vkattn_option> told = context.explain(t % 2 == 0 ? other_desc : desc);
            return std::string(told.size() == count ? "" : "another number of kernels");
        });
    CHECK(texts() == before);
}

TEST_CASE_FIXTURE(DeviceTest, "a context of its own in every thread") {
    const Work work(32);
    const std::vector<std::uint8_t> expected = work.run(test_device().context());
    in_threads(4, [&](std::size_t) -> std::string {
        for (int round = 0; round < 3; ++round)
            if (work.run(new_context(device_selector())) != expected) return "other bits";
        return "";
    });
}

TEST_CASE_FIXTURE(DeviceTest, "caches of one layer, each in its own thread") {
    constexpr std::size_t kTokens = 6;
    const vkattn::Context &context = test_device().context();
    const vkattn::Layer layer = small_layer(context);
    std::mt19937 random(8);
    const HostTensor tokens = normal_tensor(VKATTN_TYPE_F32, {kTokens, kDecoderWidth}, random);
    const auto decode = [&] {
        SmallDecoder decoder(context, layer, kTokens);
        std::vector<std::uint32_t> bits;
        for (int pass = 0; pass < 3; ++pass) {
            bits.clear();
            for (std::size_t i = 0; i < kTokens; ++i) {
                const std::vector<std::uint32_t> row =
                    decoder.step(tokens.bytes().subspan(i * 4 * kDecoderWidth, 4 * kDecoderWidth));
                bits.insert(bits.end(), row.begin(), row.end());
            }
            decoder.rewind();
        }
        return bits;
    };
    const std::vector<std::uint32_t> expected = decode();
    in_threads(4, [&](std::size_t) { return std::string(decode() == expected ? "" : "other bits"); });
}

TEST_CASE_FIXTURE(DeviceTest, "the contexts of all devices at once") {
    const vkattn::List<vkattn_device_facts> devices = vkattn::devices();
    std::string names;
    for (const vkattn_device_facts &facts : devices)
        names += std::string(names.empty() ? "" : ", ") + facts.driver_name;
    MESSAGE(devices.size() << " devices: " << names);
    const Work work(24, VKATTN_TYPE_F16);
    AttentionProblem problem;
    problem.query = work.query;
    problem.key = problem.value = work.key;
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    const AttentionReference reference = reference_attention(problem);
    in_threads(2 * devices.size(), [&](std::size_t t) -> std::string {
        const vkattn::Context context = new_context(std::to_string(t % devices.size()));
        for (int round = 0; round < 5; ++round) {
            HostTensor output(work.type, work.query.shape());
            std::ranges::copy(work.run(context), output.bytes().begin());
            for (std::uint64_t i = 0; i < output.elements(); ++i)
                if (!(std::fabs(static_cast<double>(output.get(i)) - reference.output[i]) < 0.01))
                    return "wrong numbers on " + std::string(context.facts().driver_name);
        }
        return "";
    });
}

TEST_CASE_FIXTURE(DeviceTest, "a variant is made and destroyed again and again while plans take it") {
    const vkattn::Context context = new_context(device_selector(), "self_test=0");
    const char *const modules[] = {"flash"};
    vkattn_variant_info info{};
    info.functions = "// text";
    info.defined = VKATTN_VARIANT_SCORE_MOD;
    info.modules = modules;
    info.module_count = 1;
    info.shader_texts = vkattn::kShaderTexts;
    info.compile = [](void *, const vkattn_variant_request *request) { request->refuse(request->result, "refused"); };
    const Work work(16);
    in_threads(4, [&](std::size_t t) -> std::string {
        for (int round = 0; round < 200; ++round) {
            const vkattn::Variant variant = context.variant(info);
            if (t < 2) continue;
            vkattn_attention_desc desc = work.desc();
            desc.kernel = VKATTN_KERNEL_FLASH;
            variant.set_in(desc);
            try {
                context.attention_plan(desc);
                return "a plan of modules that were refused";
            } catch (const vkattn::Error &error) {
                if (std::string(error.what()) != "variant: module flash: refused") return error.what();
            }
        }
        return "";
    });
}

#if defined(__linux__) && !defined(NDEBUG)

// Ends its process where the library is built without NDEBUG: it is run in a process of its own.
TEST_CASE("destroys a buffer while it is written" * doctest::skip()) {
    static vkattn_buffer buffer = nullptr;
    vkattn_context_info info{};
    info.submit = [](void *, VkQueue, std::uint32_t, const VkSubmitInfo *, VkFence) {
        vkattn_buffer_destroy(buffer);
        return VK_ERROR_UNKNOWN;
    };
    vkattn_context context = nullptr;
    REQUIRE(vkattn_context_create(&info, &context) == VKATTN_SUCCESS);
    REQUIRE(vkattn_buffer_create(context, 64, &buffer) == VKATTN_SUCCESS);
    const std::array<float, 16> zeros{};
    vkattn_buffer_upload(buffer, 0, zeros.data(), sizeof zeros, nullptr);
}

TEST_CASE("a debug build says what was not synchronised") {
    const std::string command = "exec /proc/" + std::to_string(getpid()) +
                                "/exe --no-skip --test-case='destroys a buffer while it is written' 2>&1";
    FILE *output = popen(command.c_str(), "r");
    REQUIRE(output != nullptr);
    std::string said;
    std::array<char, 256> line;
    while (fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) said += line.data();
    const int status = pclose(output);
    CHECK(status != 0);
    CHECK_MESSAGE(said.find("vkattn: buffer: changed or destroyed while it is in use") != std::string::npos, said);
}

#endif

TEST_SUITE_END();
