// How the interface grows: structures that say another size than the library's.
#include "application.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"

#include <doctest/doctest.h>
#include <vkattn/estimate.h>
#include <vkattn/recurrence.h>
#include <vkattn/variants.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

using namespace vkattn_test;

namespace {

vkattn_attention_desc small_attention() {
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    return desc;
}

// A structure as a newer program knows it: with kMore bytes of members that the library does not know.
template <class Structure>
class Newer {
  public:
    static constexpr std::uint32_t kMore = 64;
    explicit Newer(const Structure &known) {
        std::memcpy(bytes_, &known, sizeof known);
        get()->struct_size = sizeof bytes_;
    }
    Structure *get() { return reinterpret_cast<Structure *>(bytes_); }
    std::span<unsigned char> more() { return std::span(bytes_).last(kMore); }

  private:
    alignas(Structure) unsigned char bytes_[sizeof(Structure) + kMore] = {};
};

void check_named(vkattn_result result, const std::string &structure) {
    const std::string message = vkattn_last_error();
    CHECK_MESSAGE(result == VKATTN_ERROR_INVALID_ARGUMENT, message);
    CHECK_MESSAGE(message.starts_with(structure + ".struct_size: "), message);
    CHECK(std::string(vkattn_last_failure()->member) == structure + ".struct_size");
}

// Sizes that no version of a structure has are refused by the call, which names the structure. It takes `known`, unless it is
// refused for something else, whatever a newer program knows beside it, as long as that is 0.
template <class Structure>
void check_given(const char *name, const Structure &known,
                 const std::function<vkattn_result(const Structure *)> &call) {
    CAPTURE(std::string(name));
    Structure wrong = known;
    for (const std::uint32_t size : {0u, 4u, 7u, static_cast<std::uint32_t>(sizeof known) + 2, 1u << 20}) {
        CAPTURE(size);
        wrong.struct_size = size;
        check_named(call(&wrong), name);
    }
    const vkattn_result expected = call(&known);
    const std::string message = expected == VKATTN_SUCCESS ? "" : vkattn_last_error();
    CHECK(message.find("struct_size") == std::string::npos);
    Newer<Structure> newer(known);
    CHECK(call(newer.get()) == expected);
    if (expected != VKATTN_SUCCESS) CHECK(vkattn_last_error() == message);
    for (const std::size_t byte : {std::size_t{0}, newer.more().size() - 1}) {
        newer.more()[byte] = 1;
        check_named(call(newer.get()), name);
        CHECK(std::string(vkattn_last_error()).find("byte " + std::to_string(sizeof known + byte)) !=
              std::string::npos);
        newer.more()[byte] = 0;
    }
}

// No more of a structure is written than the program knows, and what the library does not know of it is zeroed.
template <class Structure>
void check_filled(const char *name, const std::function<vkattn_result(Structure *)> &call) {
    CAPTURE(std::string(name));
    Structure whole{};
    REQUIRE(call(&whole) == VKATTN_SUCCESS);
    CHECK(whole.struct_size == sizeof whole);
    for (const std::uint32_t size : {0u, 7u, 1u << 20}) {
        Structure wrong{};
        wrong.struct_size = size;
        check_named(call(&wrong), name);
    }
    CHECK(call(nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    Newer<Structure> newer(whole);
    std::ranges::fill(newer.more(), kGapByte);
    REQUIRE(call(newer.get()) == VKATTN_SUCCESS);
    CHECK(newer.get()->struct_size == sizeof(Structure) + newer.kMore);
    CHECK(std::ranges::all_of(newer.more(), [](unsigned char byte) { return byte == 0; }));
    unsigned char bytes[sizeof(Structure)];
    for (const std::uint32_t size : {8u, static_cast<std::uint32_t>(sizeof whole) - 4}) { // an older program's
        CAPTURE(size);
        std::memset(bytes, kGapByte, sizeof bytes);
        std::memcpy(bytes, &size, sizeof size);
        Structure &older = *reinterpret_cast<Structure *>(bytes);
        REQUIRE(call(&older) == VKATTN_SUCCESS);
        CHECK(older.struct_size == size);
        CHECK(std::all_of(bytes + size, bytes + sizeof bytes, [](unsigned char byte) { return byte == kGapByte; }));
    }
}

constexpr std::uint64_t kWidth = 8;

vkattn_layer_config small_config() {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kWidth;
    config.num_heads = 1;
    return config;
}

vkattn::Layer small_layer_of(const vkattn::Context &context) {
    static const std::vector<float> values(kWidth * kWidth);
    std::vector<vkattn_weight> weights;
    for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"})
        weights.push_back(vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {kWidth, kWidth}), values.data(),
                                         values.size() * sizeof values[0]));
    return context.layer(small_config(), weights);
}

} // namespace

TEST_SUITE_BEGIN("api.growth");

TEST_CASE_FIXTURE(DeviceTest, "the sizes of what operators are described by") {
    const vkattn_context context = test_device().context().get();
    // create: a C function that makes a plan of a description
    const auto check = [&](const auto &desc, auto create) {
        using Desc = std::remove_cvref_t<decltype(desc)>;
        check_given<Desc>("desc", desc, [&](const Desc *given) {
            vkattn_plan plan = nullptr;
            const vkattn_result result = create(context, given, &plan);
            vkattn_plan_destroy(plan);
            return result;
        });
    };
    const vkattn_attention_desc attention = small_attention();
    check(attention, vkattn_attention_plan);
    const auto check_attention = [&](const char *name, const auto &call) {
        check_given<vkattn_attention_desc>(name, attention, call);
    };
    check_attention("desc", [&](const vkattn_attention_desc *desc) {
        vkattn_list options = nullptr;
        const vkattn_result result = vkattn_explain(context, desc, &options);
        vkattn_list_destroy(options);
        return result;
    });
    check_attention("desc", [&](const vkattn_attention_desc *desc) { return vkattn_tune(context, desc, nullptr); });
    check_attention("descs", [&](const vkattn_attention_desc *desc) { return vkattn_prewarm(context, desc, 1, 1); });
    check_attention("desc", [&](const vkattn_attention_desc *desc) {
        vkattn_measure measure{};
        return vkattn_attention_measure(context, desc, &measure);
    });
    check(attention, vkattn_block_mask_plan); // refused for want of a mask
    vkattn_kv_append_desc append{};
    append.source = append.cache = attention.key;
    check(append, vkattn_kv_append_plan);
    check(vkattn_index_desc{}, vkattn_index_plan);
    check(vkattn_merge_desc{}, vkattn_merge_plan);
    vkattn_linear_desc linear{};
    linear.input = linear.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 4, kWidth});
    linear.weight = vkattn::tensor(VKATTN_TYPE_F32, {kWidth, kWidth});
    check(linear, vkattn_linear_plan);
    check_given<vkattn_linear_desc>(
        "desc", linear, [&](const vkattn_linear_desc *desc) { return vkattn_tune_linear(context, desc, nullptr); });
    check_given<vkattn_linear_desc>("desc", linear, [&](const vkattn_linear_desc *desc) {
        vkattn_measure measure{};
        return vkattn_linear_measure(context, desc, &measure);
    });
    check(vkattn_norm_desc{}, vkattn_norm_plan);
    check(vkattn_embedding_desc{}, vkattn_embedding_plan);
    check(vkattn_top_k_desc{}, vkattn_top_k_plan);
    check(vkattn_argmax_desc{}, vkattn_argmax_plan);
    check(vkattn_linear_attention_desc{}, vkattn_linear_attention_plan);
    check(vkattn_causal_conv1d_desc{}, vkattn_causal_conv1d_plan);
    check(vkattn_gated_rms_norm_desc{}, vkattn_gated_rms_norm_plan);
    check(vkattn_attention_backward_desc{}, vkattn_attention_backward_plan);
    check(vkattn_gated_activation_desc{}, vkattn_gated_activation_plan);
    check(vkattn_gated_activation_backward_desc{}, vkattn_gated_activation_backward_plan);
    check(vkattn_embedding_backward_desc{}, vkattn_embedding_backward_plan);
    check(vkattn_cross_entropy_desc{}, vkattn_cross_entropy_plan);
    check(vkattn_squared_norm_desc{}, vkattn_squared_norm_plan);
    check(vkattn_optimizer_step_desc{}, vkattn_optimizer_step_plan);
    check(vkattn_adamw_desc{}, vkattn_adamw_plan);
    check_given<vkattn_attention_backward_desc>("desc", {}, [&](const vkattn_attention_backward_desc *desc) {
        vkattn_measure measure{};
        return vkattn_attention_backward_measure(context, desc, &measure);
    });
    check_given<vkattn_attention_backward_desc>("desc", {}, [&](const vkattn_attention_backward_desc *desc) {
        return vkattn_tune_attention_backward(context, desc, nullptr);
    });
    check(vkattn_linear_backward_desc{}, vkattn_linear_backward_plan);
    check(vkattn_norm_backward_desc{}, vkattn_norm_backward_plan);
    check(vkattn_rotary_embedding_desc{}, vkattn_rotary_embedding_plan);
    check(vkattn_cache_append_desc{}, vkattn_cache_append_plan);
}

TEST_CASE_FIXTURE(DeviceTest, "the sizes of what contexts, layers, caches, estimates and programs are made of") {
    const vkattn::Context &context = test_device().context();
    const ContextRequest request("self_test=0");
    check_given<vkattn_context_info>("info", request.info, [](const vkattn_context_info *info) {
        vkattn_context made = nullptr;
        const vkattn_result result = vkattn_context_create(info, &made);
        vkattn_context_destroy(made);
        return result;
    });
    check_given<vkattn_memory_callbacks>("memory", {}, [&](const vkattn_memory_callbacks *callbacks) {
        vkattn_context_info info = request.info;
        info.memory = callbacks;
        vkattn_context made = nullptr;
        return vkattn_context_create(&info, &made);
    });
    check_given<vkattn_variant_info>("info", {}, [&](const vkattn_variant_info *info) {
        vkattn_variant made = nullptr;
        return vkattn_variant_create(context.get(), info, &made);
    });
    check_given<vkattn_layer_config>("config", small_config(), [&](const vkattn_layer_config *config) {
        vkattn_layer made = nullptr;
        return vkattn_layer_create(context.get(), config, nullptr, 0, &made);
    });
    const vkattn::Layer layer = small_layer_of(context);
    vkattn_cache_info cache{};
    cache.layer = layer.get();
    cache.batch = cache.capacity = 1;
    cache.key_type = cache.value_type = VKATTN_TYPE_F32;
    check_given<vkattn_cache_info>("info", cache, [&](const vkattn_cache_info *info) {
        vkattn_cache made = nullptr;
        const vkattn_result result = vkattn_cache_create(context.get(), info, &made);
        vkattn_cache_destroy(made);
        return result;
    });
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 4, kWidth});
    check_given<vkattn_layer_call>("call", call, [&](const vkattn_layer_call *given) {
        vkattn_plan made = nullptr;
        const vkattn_result result = vkattn_layer_plan(layer.get(), given, &made);
        vkattn_plan_destroy(made);
        return result;
    });
    const vkattn_layer_config config = small_config();
    vkattn_measure measure{};
    check_given<vkattn_layer_call>("call", call, [&](const vkattn_layer_call *given) {
        return vkattn_layer_measure(context.get(), &config, given, &measure);
    });
    check_given<vkattn_layer_config>("config", config, [&](const vkattn_layer_config *given) {
        return vkattn_layer_measure(context.get(), given, &call, &measure);
    });
    vkattn_estimate_result estimated{};
    check_given<vkattn_estimate_info>(
        "info", {}, [&](const vkattn_estimate_info *info) { return vkattn_estimate(&config, info, &estimated); });
    check_given<vkattn_layer_config>("config", config, [&](const vkattn_layer_config *given) {
        return vkattn_estimate(given, nullptr, &estimated);
    });

    const vkattn::Plan plan = context.attention_plan(small_attention());
    const vkattn::Buffer buffer = context.buffer(small_attention().query);
    std::vector<vkattn_binding> bindings;
    for (const auto role : {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT})
        bindings.push_back(vkattn::bind(role, buffer));
    check_given<vkattn_record_info>("info", {},
                                    [&](const vkattn_record_info *info) { return vkattn_record(plan.get(), info); });
    check_given<vkattn_sync>("sync", {}, [&](const vkattn_sync *sync) {
        return vkattn_submit(plan.get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()), sync);
    });
    context.wait();
    const vkattn_bound_plan bound = vkattn::bind(plan, bindings);
    vkattn_program_info program{};
    program.plans = &bound;
    program.plan_count = 1;
    check_given<vkattn_program_info>("info", program, [&](const vkattn_program_info *info) {
        vkattn_program made = nullptr;
        const vkattn_result result = vkattn_program_create(context.get(), info, &made);
        vkattn_program_destroy(made);
        return result;
    });
}

TEST_CASE_FIXTURE(DeviceTest, "members that an older program does not know are what they were before they came") {
    const vkattn::Context &context = test_device().context();
    vkattn_attention_desc desc = small_attention();
    desc.key_indices = vkattn::tensor(VKATTN_TYPE_F32, {1}); // wrong, for those who see it
    CHECK_THROWS_WITH_AS(context.attention_plan(desc), doctest::Contains("key_indices: "), vkattn::Error);
    desc.struct_size = offsetof(vkattn_attention_desc, key_indices);
    CHECK_NOTHROW(context.attention_plan(desc));
    std::vector<vkattn_attention_desc> descs(2, small_attention());
    CHECK_NOTHROW(context.prewarm(descs));
    // an array of a newer program's lies by its size
    struct Wider {
        vkattn_attention_desc known = small_attention();
        std::uint64_t more[3] = {};
    };
    std::array<Wider, 3> wider;
    for (Wider &each : wider) each.known.struct_size = sizeof each;
    CHECK(vkattn_prewarm(context.get(), &wider[0].known, 3, 1) == VKATTN_SUCCESS);
    wider[2].known.softcap = -1.0f;
    CHECK(vkattn_prewarm(context.get(), &wider[0].known, 3, 1) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).starts_with("descs[2]: softcap: "));
    CHECK(vkattn_last_failure()->entry == 2);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "no more of a structure is written than the program knows; what the library does not is zero") {
    const vkattn::Context &context = test_device().context();
    const vkattn_attention_desc desc = small_attention();
    const vkattn::Plan plan = context.attention_plan(desc);
    check_filled<vkattn_device_facts>(
        "facts", [&](vkattn_device_facts *facts) { return vkattn_context_facts(context.get(), facts); });
    check_filled<vkattn_requirements>("requirements", [&](vkattn_requirements *requirements) {
        return vkattn_plan_requirements(plan.get(), requirements);
    });
    check_filled<vkattn_report>("report",
                                [&](vkattn_report *report) { return vkattn_plan_get_report(plan.get(), report); });
    check_filled<vkattn_measure>(
        "measure", [&](vkattn_measure *measure) { return vkattn_attention_measure(context.get(), &desc, measure); });
    check_filled<vkattn_tune_budget_report>(
        "report", [&](vkattn_tune_budget_report *report) { return vkattn_context_tune_budget(context.get(), report); });
    const vkattn::Buffer buffer = context.buffer(desc.query);
    std::vector<vkattn_binding> bindings;
    for (const auto role : {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT})
        bindings.push_back(vkattn::bind(role, buffer));
    const vkattn::Program program = context.program({vkattn::bind(plan, bindings)});
    check_filled<vkattn_program_report>(
        "report", [&](vkattn_program_report *report) { return vkattn_program_get_report(program.get(), report); });
    const vkattn_layer_config config = small_config();
    check_filled<vkattn_estimate_result>(
        "result", [&](vkattn_estimate_result *result) { return vkattn_estimate(&config, nullptr, result); });
    check_filled<vkattn_layer_config>(
        "config", [](vkattn_layer_config *made) { return vkattn_layer_config_from_name("mha", 64, 4, made); });
}

TEST_CASE_FIXTURE(DeviceTest, "debug labels name objects and commands, and none are there unless asked for") {
    for (const bool wanted : {true, false}) {
        vulkan_calls().clear();
        {
            load_vulkan();
            ContextRequest request("self_test=0");
            request.info.get_instance_proc_addr = counted_instance_function;
            request.info.debug_labels = wanted ? 1 : 0;
            request.info.enable_validation = validation_wanted() ? 1 : 0;
            request.info.message_callback = ValidationMessages::callback;
            request.info.message_user = &validation_messages();
            const vkattn::Context context(request.info);
            vkattn_attention_desc desc = small_attention();
            desc.kernel = VKATTN_KERNEL_UNFUSED;
            const vkattn::Plan plan = context.attention_plan(desc);
            const vkattn::Buffer buffer = context.buffer(desc.query), output = context.buffer(desc.output);
            plan.run({vkattn::bind(VKATTN_ROLE_QUERY, buffer), vkattn::bind(VKATTN_ROLE_KEY, buffer),
                      vkattn::bind(VKATTN_ROLE_VALUE, buffer), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
            CHECK(vulkan_calls().labels.size() == (wanted ? plan.report().dispatches + 1 : 0)); // and the plan's own
        }
        const std::vector<std::string> &names = vulkan_calls().names, &labels = vulkan_calls().labels;
        CHECK(vulkan_calls().open_labels == 0);
        for (const char *name : {"vkattn buffer", "vkattn workspace", "vkattn commands"})
            CHECK((std::ranges::count(names, name) > 0) == wanted);
        CHECK((std::ranges::count(labels, "vkattn plan") == 1) == wanted);
        if (!wanted) CHECK(names.empty());
        if (!wanted) CHECK(labels.empty());
    }
}

TEST_SUITE_END();
