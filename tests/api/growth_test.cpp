// How the interface grows: extensions that are not known yet, and structures that are smaller or larger than the library's.
#include "application.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"

#include <doctest/doctest.h>
#include <vkattn/estimate.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

using namespace vkattn_test;

namespace {

constexpr vkattn_extension kUnknown{41, nullptr};

vkattn_attention_desc small_attention() {
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    return desc;
}

// The call must fail, and name the structure that has the extension.
void check_refused(const char *structure, vkattn_result result) {
    CAPTURE(structure);
    CHECK(result == VKATTN_ERROR_INVALID_ARGUMENT);
    const std::string expected = std::string(structure) + ".next: an extension of kind 41, expected NULL";
    const std::string message = vkattn_last_error();
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
}

// Bytes of a structure that no member has, which a copy may leave as they are or not.
struct Padding {
    std::size_t begin, end;
};

// Room for what the library fills in, more than enough, between bytes that tell what was written.
template <class Structure>
struct Room {
    static constexpr std::size_t kMore = 64;
    Room() { std::memset(bytes, kGapByte, sizeof bytes); }
    Structure *structure() { return reinterpret_cast<Structure *>(bytes); }
    // The first `size` bytes are those of `expected`, but for padding, the rest of them zero, and what follows is as it was.
    void check(const Structure &expected, std::size_t size, const std::vector<Padding> &paddings) const {
        CAPTURE(size);
        const std::size_t known = std::min(size, sizeof expected);
        const auto *expected_bytes = reinterpret_cast<const unsigned char *>(&expected);
        for (std::size_t byte = 0; byte < known; ++byte)
            if (std::ranges::none_of(paddings, [&](Padding p) { return p.begin <= byte && byte < p.end; }))
                CHECK_MESSAGE(bytes[byte] == expected_bytes[byte], "byte ", byte);
        CHECK(std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; }));
        CHECK(std::all_of(bytes + size, bytes + sizeof bytes, [](unsigned char byte) { return byte == kGapByte; }));
    }
    alignas(Structure) unsigned char bytes[sizeof(Structure) + 2 * kMore];
};

// Where a member ends.
template <class Structure, class Member>
std::size_t end_of(Member Structure::*member) {
    const Structure structure{};
    return static_cast<std::size_t>(reinterpret_cast<const char *>(&(structure.*member) + 1) -
                                    reinterpret_cast<const char *>(&structure));
}

// fill(structure, size) writes as much of a structure as the caller knows of. size_of_0_1: where it has grown since.
template <class Structure>
void check_sizes(const std::function<void(Structure *, std::size_t)> &fill, const std::vector<Padding> &paddings = {},
                 std::size_t size_of_0_1 = sizeof(Structure)) {
    Structure whole{};
    fill(&whole, sizeof whole);
    for (const std::size_t size :
         {std::size_t{8}, sizeof whole - 8, sizeof whole, sizeof whole + Room<Structure>::kMore}) {
        Room<Structure> room;
        fill(room.structure(), size);
        room.check(whole, size, paddings);
    }
    Room<Structure> room;
    fill(room.structure(), 0); // that of version 0.1
    room.check(whole, size_of_0_1, paddings);
}

} // namespace

TEST_SUITE_BEGIN("api.growth");

TEST_CASE_FIXTURE(DeviceTest, "an extension is refused by every structure that a program fills in") {
    const vkattn_context context = test_device().context().get();
    vkattn_plan plan = nullptr;

    vkattn_context_info info{};
    info.next = &kUnknown;
    vkattn_context other = nullptr;
    check_refused("info", vkattn_context_create(&info, &other));

    const auto attention = [&](const char *structure, const std::function<void(vkattn_attention_desc &)> &extend) {
        vkattn_attention_desc desc = small_attention();
        extend(desc);
        check_refused(structure, vkattn_attention_plan(context, &desc, &plan));
        std::uint32_t count = 0;
        check_refused(structure, vkattn_explain(context, &desc, &count, nullptr, 0));
        check_refused(structure, vkattn_tune(context, &desc, &count, nullptr, 0));
        check_refused(structure, vkattn_prewarm(context, &desc, 1, 1));
    };
    attention("desc", [](vkattn_attention_desc &desc) { desc.next = &kUnknown; });
    attention("key", [](vkattn_attention_desc &desc) { desc.key.next = &kUnknown; });

    const vkattn_tensor tensor = vkattn::tensor(VKATTN_TYPE_F32, {1, 4, 8});
    vkattn_kv_append_desc append{};
    append.source = append.cache = small_attention().key;
    append.next = &kUnknown;
    check_refused("desc", vkattn_kv_append_plan(context, &append, &plan));
    vkattn_merge_desc merge{};
    merge.next = &kUnknown;
    check_refused("desc", vkattn_merge_plan(context, &merge, &plan));
    vkattn_linear_desc linear{};
    linear.input = linear.output = tensor;
    linear.weight = vkattn::tensor(VKATTN_TYPE_F32, {8, 8});
    linear.next = &kUnknown;
    check_refused("desc", vkattn_linear_plan(context, &linear, &plan));
    std::uint32_t count = 0;
    check_refused("desc", vkattn_tune_linear(context, &linear, &count, nullptr, 0));
    vkattn_norm_desc norm{};
    norm.next = &kUnknown;
    check_refused("desc", vkattn_norm_plan(context, &norm, &plan));
    vkattn_embedding_desc embedding{};
    embedding.next = &kUnknown;
    check_refused("desc", vkattn_embedding_plan(context, &embedding, &plan));

    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = 8;
    config.num_heads = 1;
    const std::vector<float> values(64);
    std::vector<vkattn_weight> weights;
    for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"})
        weights.push_back(vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {8, 8}), values.data()));
    const vkattn::Layer layer(context, config, weights);
    vkattn_layer made = nullptr;
    vkattn_layer_config extended = config;
    extended.next = &kUnknown;
    check_refused("config", vkattn_layer_create(context, &extended, weights.data(), 4, &made));
    extended = config;
    extended.rope_scaling.next = &kUnknown;
    check_refused("rope_scaling", vkattn_layer_create(context, &extended, weights.data(), 4, &made));
    std::vector<vkattn_weight> extended_weights = weights;
    extended_weights[2].next = &kUnknown;
    check_refused("v_proj.weight", vkattn_layer_create(context, &config, extended_weights.data(), 4, &made));
    vkattn_cache_info cache{};
    cache.layer = layer.get();
    cache.batch = cache.capacity = 1;
    cache.key_type = cache.value_type = VKATTN_TYPE_F32;
    cache.next = &kUnknown;
    vkattn_cache made_cache = nullptr;
    check_refused("info", vkattn_cache_create(context, &cache, &made_cache));
    vkattn_layer_call call{};
    call.query = call.output = tensor;
    call.next = &kUnknown;
    check_refused("call", vkattn_layer_plan(layer.get(), &call, &plan));
    std::uint64_t bytes = 0;
    check_refused("call", vkattn_layer_workspace(context, &config, &call, &bytes));
    vkattn_estimate_info estimate{};
    estimate.next = &kUnknown;
    vkattn_estimate_result estimated{};
    check_refused("info", vkattn_estimate(&config, &estimate, &estimated, sizeof estimated));
    CHECK(plan == nullptr);
    CHECK(made == nullptr);
    CHECK(made_cache == nullptr);

    const vkattn_attention_desc desc = small_attention();
    REQUIRE(vkattn_attention_plan(context, &desc, &plan) == VKATTN_SUCCESS);
    const vkattn::Plan owned(plan);
    const vkattn::Buffer buffer(context, vkattn_tensor_bytes(&desc.query));
    std::vector<vkattn_binding> bindings;
    for (const auto role : {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT})
        bindings.push_back(vkattn::bind(role, buffer));
    bindings[1].next = &kUnknown;
    check_refused("bindings", vkattn_run(plan, bindings.data(), 4, nullptr));
    check_refused("bindings", vkattn_submit(plan, bindings.data(), 4, nullptr));
    bindings[1].next = nullptr;
    vkattn_record_info record{};
    record.command_buffer = reinterpret_cast<VkCommandBuffer>(std::uintptr_t{64}); // never looked at
    record.bindings = bindings.data();
    record.binding_count = 4;
    record.next = &kUnknown;
    check_refused("info", vkattn_record(plan, &record));
}

TEST_CASE_FIXTURE(DeviceTest,
                  "no more of a structure is written than the program knows; what the library does not know is zero") {
    const vkattn::Context &context = test_device().context();
    const vkattn_attention_desc desc = small_attention();
    const vkattn::Plan plan = context.attention_plan(desc);
    check_sizes<vkattn_device_facts>(
        [&](vkattn_device_facts *facts, std::size_t size) {
            CHECK(vkattn_context_facts(context.get(), facts, size) == VKATTN_SUCCESS);
        },
        {}, offsetof(vkattn_device_facts, signed_integer_dot_product));
    check_sizes<vkattn_requirements>(
        [&](vkattn_requirements *requirements, std::size_t size) {
            vkattn_plan_requirements(plan.get(), requirements, size);
        },
        {{end_of(&vkattn_requirements::uniform_buffer_descriptors), sizeof(vkattn_requirements)}});
    check_sizes<vkattn_report>(
        [&](vkattn_report *report, std::size_t size) { vkattn_plan_report(plan.get(), report, size); },
        {{end_of(&vkattn_report::kernel), offsetof(vkattn_report, kernel_name)},
         {end_of(&vkattn_report::dispatches), sizeof(vkattn_report)}});
    check_sizes<vkattn_tune_budget_report>(
        [&](vkattn_tune_budget_report *report, std::size_t size) {
            CHECK(vkattn_context_tune_budget(context.get(), report, size) == VKATTN_SUCCESS);
        },
        {{end_of(&vkattn_tune_budget_report::left_out), sizeof(vkattn_tune_budget_report)}});
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = 8;
    config.num_heads = 1;
    check_sizes<vkattn_estimate_result>([&](vkattn_estimate_result *result, std::size_t size) {
        CHECK(vkattn_estimate(&config, nullptr, result, size) == VKATTN_SUCCESS);
    });
}

TEST_CASE_FIXTURE(DeviceTest, "entries of an array lie as far from each other as the program says") {
    const vkattn::Context &context = test_device().context();
    const vkattn_attention_desc desc = small_attention();
    const vkattn::List<vkattn_option> expected = context.explain(desc);
    REQUIRE(expected.size() > 1);
    for (const std::size_t stride : {sizeof(vkattn_option) - 8, sizeof(vkattn_option) + 40}) {
        std::vector<unsigned char> bytes(expected.size() * stride + 16, kGapByte);
        auto count = static_cast<std::uint32_t>(expected.size());
        REQUIRE(vkattn_explain(context.get(), &desc, &count, reinterpret_cast<vkattn_option *>(bytes.data()), stride) ==
                VKATTN_SUCCESS);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            vkattn_option option{};
            std::memcpy(&option, bytes.data() + i * stride, std::min(stride, sizeof option));
            CHECK(option.kernel == expected[i].kernel);
            CHECK(option.dispatches == expected[i].dispatches);
            CHECK(std::string(option.shape) == expected[i].shape);
            for (std::size_t byte = sizeof option; byte < stride; ++byte) CHECK(bytes[i * stride + byte] == 0);
        }
        CHECK(std::all_of(bytes.end() - 16, bytes.end(), [](unsigned char byte) { return byte == kGapByte; }));
    }
    // Fewer than there are: no more are written, nor counted.
    std::vector<vkattn_option> one(2);
    std::memset(one.data() + 1, kGapByte, sizeof one[1]);
    std::uint32_t count = 1;
    REQUIRE(vkattn_explain(context.get(), &desc, &count, one.data(), sizeof one[0]) == VKATTN_SUCCESS);
    CHECK(count == 1);
    CHECK(reinterpret_cast<const unsigned char *>(&one[1])[0] == kGapByte);
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
