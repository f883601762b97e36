// The C ABI around the operators: contexts, buffers, bindings, small functions, threads.
#include "limited_device.hpp"
#include "tools/devices/device_traits.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace vkattn_test;

namespace {

bool said(const char *part) { return std::string(vkattn_last_error()).find(part) != std::string::npos; }

vkattn_attention_desc small_desc() {
    vkattn_attention_desc desc{};
    for (vkattn_tensor *t : {&desc.query, &desc.key, &desc.value, &desc.output}) {
        *t = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    }
    return desc;
}

// What a download is written to must outlive the call.
template <class Range>
concept TakesDownload = requires(const vkattn::Buffer &buffer, Range &&range) {
    buffer.download(std::forward<Range>(range));
};
static_assert(TakesDownload<std::vector<float> &> && TakesDownload<std::span<float>>);
static_assert(!TakesDownload<std::vector<float>>);

PFN_vkVoidFunction VKAPI_CALL nothing(VkInstance, const char *) { return nullptr; }

vkattn_result create_context(const vkattn_context_info &info) {
    int local = 0;
    auto *context = reinterpret_cast<vkattn_context>(&local);
    const vkattn_result result = vkattn_context_create(&info, &context);
    CHECK((context == nullptr) == (result != VKATTN_SUCCESS));
    vkattn_context_destroy(context);
    return result;
}

// A handle that is never used: the argument check must come first.
template <typename Handle>
Handle made_up_handle() {
    static int place = 0;
    return reinterpret_cast<Handle>(&place);
}

vkattn_context_info wrapping_info() {
    vkattn_context_info info{};
    vkattn_context_handles(test_device().context().get(), &info.instance, &info.physical_device, &info.device,
                           &info.queue, &info.queue_family);
    info.api_version = VK_API_VERSION_1_1;
    return info;
}

std::string name_of(const vkattn::Context &context) { return context.facts().name; }

} // namespace

TEST_SUITE_BEGIN("api");

TEST_CASE("names and versions are never NULL") {
    std::set<std::string> names;
    for (int result = VKATTN_ERROR_TIMEOUT; result <= VKATTN_SUCCESS; ++result) {
        names.insert(vkattn_result_name(static_cast<vkattn_result>(result)));
    }
    CHECK(names.size() == 13);
    CHECK(names.contains("VKATTN_ERROR_NO_DEVICE"));
    CHECK(vkattn_result_name(static_cast<vkattn_result>(123)) != nullptr);
    CHECK(std::string(vkattn_kernel_name(VKATTN_KERNEL_AUTO)) == "auto");
    CHECK(std::string(vkattn_kernel_name(VKATTN_KERNEL_UNFUSED)) == "unfused");
    CHECK(std::string(vkattn_kernel_name(VKATTN_KERNEL_FLASH)) == "flash");
    CHECK(vkattn_kernel_name(static_cast<vkattn_kernel>(50)) != nullptr);
    CHECK(std::string(vkattn_trait_text(VKATTN_TRAIT_MAX_LOOP_ITERATIONS)) == "max_loop_iterations");
    CHECK(std::string(vkattn_trait_text(VKATTN_TRAIT_COOPERATIVE_MATRIX_REDUCTIONS)) ==
          "cooperative_matrix_reductions");
    CHECK(std::string(vkattn_trait_text(VKATTN_TRAIT_COUNT)) == "unknown");
    CHECK(std::string(vkattn_version()) == std::to_string(VKATTN_VERSION_MAJOR) + "." +
                                               std::to_string(VKATTN_VERSION_MINOR) + "." +
                                               std::to_string(VKATTN_VERSION_PATCH));
}

TEST_CASE("types are listed with what they are stored in") {
    const vkattn::List<vkattn_type_info> types = vkattn::enumerate_types();
    REQUIRE(types.size() >= VKATTN_TYPE_Q4_0);
    for (std::size_t i = 0; i < types.size(); ++i) CHECK(types[i].type == static_cast<vkattn_type>(i + 1));
    const vkattn_type_info &f16 = types[VKATTN_TYPE_F16 - 1], &i32 = types[VKATTN_TYPE_I32 - 1],
                           &q4_0 = types[VKATTN_TYPE_Q4_0 - 1];
    CHECK(std::string(f16.name) == "f16");
    CHECK((f16.kind == VKATTN_TYPE_KIND_FLOAT && f16.block_bytes == 2 && f16.weight == 1 && f16.key_value == 1));
    CHECK((i32.kind == VKATTN_TYPE_KIND_INTEGER && i32.block_elements == 1 && i32.block_bytes == 4 && i32.cache == 0));
    CHECK(std::string(q4_0.name) == "q4_0");
    CHECK((q4_0.kind == VKATTN_TYPE_KIND_QUANTISED && q4_0.block_elements == 32 && q4_0.block_bytes == 18));
    CHECK((q4_0.number_bits == 4 && q4_0.has_minimum == 0 && q4_0.cache == 1 && q4_0.weight == 1));
    CHECK(vkattn_list_get(types.get(), vkattn_list_count(types.get())) == nullptr);
    CHECK(vkattn_enumerate_types(nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("types"));
}

TEST_CASE("a thread that has not failed has no message") {
    std::string message = "none yet";
    std::thread([&] { message = vkattn_last_error(); }).join();
    CHECK(message.empty());
}

TEST_CASE("destroying NULL does nothing") {
    vkattn_plan_destroy(nullptr);
    vkattn_layer_destroy(nullptr);
    vkattn_buffer_destroy(nullptr);
    vkattn_context_destroy(nullptr);
    CHECK(vkattn_buffer_handle(nullptr) == VK_NULL_HANDLE);
    vkattn_list_destroy(nullptr);
    CHECK(vkattn_list_count(nullptr) == 0);
    CHECK(vkattn_list_get(nullptr, 0) == nullptr);
    CHECK(vkattn_buffer_region(nullptr).bytes == 0);
    vkattn_requirements requirements{};
    vkattn_report report{};
    CHECK(vkattn_plan_requirements(nullptr, &requirements) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_plan_get_report(nullptr, &report) == VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("tensor_bytes counts from the bound offset to the last element, in whole words") {
    const auto bytes = [](const vkattn_tensor &tensor) { return vkattn_tensor_bytes(&tensor); };
    CHECK(bytes({}) == 0);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 5})) == 120);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_F16, {3, 5})) == 32);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_BF16, {3, 4}, {7, 1}, 1)) == 40);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_BOOL, {5})) == 8);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_I32, {4}, {0}, 2)) == 24);
    CHECK(bytes(vkattn::tensor(VKATTN_TYPE_F32, {4, 3}, {0, 1})) == 12);
}

TEST_CASE_FIXTURE(DeviceTest, "devices are listed with their facts") {
    const vkattn::List<vkattn_device_facts> all = vkattn::devices();
    REQUIRE(!all.empty());
    const vkattn_device_facts &mine = test_device().facts();
    bool found = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].index == i);
        CHECK(std::strlen(all[i].name) > 0);
        CHECK(all[i].max_workgroup_invocations >= 128);
        CHECK(all[i].kernel_count == VKATTN_KERNEL_COUNT - 1); // AUTO is none
        for (std::uint32_t k = 0; k < all[i].kernel_count; ++k) {
            const vkattn_kernel_support &kernel = all[i].kernels[k];
            CHECK((kernel.supported != 0) == (std::strlen(kernel.reason) == 0));
        }
        found = found || std::memcmp(all[i].device_uuid, mine.device_uuid, sizeof mine.device_uuid) == 0;
    }
    CHECK(found);
    CHECK(vkattn_enumerate_devices(nullptr, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("devices"));
}

TEST_CASE_FIXTURE(DeviceTest, "a device is chosen by index and by a part of its name in any case") {
    const vkattn::List<vkattn_device_facts> all = vkattn::devices();
    const vkattn_device_facts &first = all.front();
    CHECK(name_of(vkattn::Context("0")) == first.name);
    std::string name = first.name;
    for (char &c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    CHECK(name_of(vkattn::Context(name.substr(1, 4))).size() > 0);
    CHECK(name_of(vkattn::Context(name)) == first.name);
    vkattn_context context = nullptr;
    CHECK(vkattn_context_create(nullptr, &context) == VKATTN_SUCCESS);
    vkattn_context_destroy(context);
}

TEST_CASE_FIXTURE(DeviceTest, "devices and loaders that are not there") {
    vkattn_context_info info{};
    info.device_selector = "no device of this name";
    CHECK(create_context(info) == VKATTN_ERROR_NO_DEVICE);
    CHECK(said("no device of this name"));
    info.device_selector = "1000";
    CHECK(create_context(info) == VKATTN_ERROR_NO_DEVICE);
    CHECK(said("1000"));
    info.device_selector = "99999999999999999999999999";
    CHECK(create_context(info) == VKATTN_ERROR_NO_DEVICE);
    info = {};
    info.get_instance_proc_addr = nothing;
    CHECK(create_context(info) == VKATTN_ERROR_NO_VULKAN);
    vkattn_list devices = nullptr;
    CHECK(vkattn_enumerate_devices(nothing, &devices) == VKATTN_ERROR_NO_VULKAN);
    CHECK(devices == nullptr);
    CHECK(std::string(vkattn_last_error()) != "");
    CHECK(vkattn_context_create(nullptr, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("context"));
}

TEST_CASE_FIXTURE(DeviceTest, "device traits are set, and what is not a trait or too much is named") {
    ContextRequest request;
    vkattn_context_info &info = request.info;
    const auto set = [&info](std::span<const vkattn_trait> traits) {
        info.traits = traits.data();
        info.trait_count = static_cast<std::uint32_t>(traits.size());
        return create_context(info);
    };
    using Traits = std::vector<vkattn_trait>;
    const Traits loops = {{VKATTN_TRAIT_MAX_LOOP_ITERATIONS, 5},
                          {VKATTN_TRAIT_PARALLEL_WORKGROUPS, 3},
                          {VKATTN_TRAIT_MAX_LOOP_ITERATIONS, 777}};
    CHECK(set(loops) == VKATTN_SUCCESS);
    const vkattn::Context bounded(info);
    CHECK(bounded.facts().max_loop_iterations == 777);
    const Traits lowered = {{VKATTN_TRAIT_MAX_SHARED_MEMORY_BYTES, 16384}, {VKATTN_TRAIT_PUSH_DESCRIPTORS, 0}};
    CHECK(set(lowered) == VKATTN_SUCCESS);
    const vkattn::Context small(info);
    CHECK(small.facts().max_shared_memory_bytes == 16384);
    const auto refuses = [&](const Traits &traits) { return set(traits) == VKATTN_ERROR_INVALID_ARGUMENT; };
    CHECK(refuses({{VKATTN_TRAIT_MAX_SHARED_MEMORY_BYTES, 4294967295}}));
    CHECK(said("traits: max_shared_memory_bytes 4294967295, expected at most that of"));
    CHECK(refuses({{VKATTN_TRAIT_PARALLEL_WORKGROUPS, 99999999999}}));
    CHECK(said("traits: parallel_workgroups 99999999999, expected at most 4294967295"));
    CHECK(refuses({{VKATTN_TRAIT_MATRIX_M, 16}, {VKATTN_TRAIT_MATRIX_N, 12}, {VKATTN_TRAIT_MATRIX_K, 16}}));
    CHECK((said("expected a device whose matrices have flexible dimensions") || said("expected powers of two")));
    CHECK(refuses({{VKATTN_TRAIT_COUNT, 1}}));
    CHECK(
        said(("traits: " + std::to_string(VKATTN_TRAIT_COUNT) + " is unknown, expected a vkattn_trait_name").c_str()));
    CHECK(refuses({{VKATTN_TRAIT_MAX_ENUM, 1}}));
    info.traits = nullptr;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("traits: NULL, expected trait_count traits"));
}

TEST_CASE("traits are read from text, and what is not a trait is named") {
    const auto message_of = [](const char *text) -> std::string {
        try {
            vkattn::tools::parse_traits(text, "here");
            return "";
        } catch (const std::exception &error) {
            return error.what();
        }
    };
    CHECK(vkattn::tools::parse_traits("", "here").empty());
    const auto traits =
        vkattn::tools::parse_traits("parallel_workgroups=3,max_storage_buffer_range=5000000000", "here");
    REQUIRE(traits.size() == 2);
    CHECK(traits[0].name == VKATTN_TRAIT_PARALLEL_WORKGROUPS);
    CHECK(traits[0].value == 3);
    CHECK(traits[1].name == VKATTN_TRAIT_MAX_STORAGE_BUFFER_RANGE);
    CHECK(traits[1].value == 5000000000);
    for (const char *wrong : {"parallel_workgroups", "parallel_workgroups=", "parallel_workgroups=-1",
                              "parallel_workgroups=3x", "parallel_workgroups=99999999999999999999", "self_test=1,,"})
        CHECK(message_of(wrong).find("\", expected name=number") != std::string::npos);
    CHECK(message_of("self_test=1,parallel_workgroups=3x") == "here: \"parallel_workgroups=3x\", expected name=number");
    CHECK(message_of("parallel_workgroups=3,speed=9")
              .starts_with("here: \"speed\" is unknown, expected one of max_loop_iterations, scalar_address_loads, "));
}

TEST_CASE_FIXTURE(DeviceTest, "a wrapped device needs all its handles and Vulkan 1.1") {
    vkattn_context_info info = wrapping_info();
    CHECK(create_context(info) == VKATTN_SUCCESS);
    info.instance = VK_NULL_HANDLE;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("instance"));
    info = wrapping_info();
    info.physical_device = VK_NULL_HANDLE;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("physical_device"));
    info = wrapping_info();
    info.queue = VK_NULL_HANDLE;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("queue"));
    info = wrapping_info();
    info.queue_family = 77;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("queue_family"));
    for (const std::uint32_t version : {0u, static_cast<std::uint32_t>(VK_API_VERSION_1_0)}) {
        info = wrapping_info();
        info.api_version = version;
        CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
        CHECK(said("api_version"));
    }
    info = wrapping_info();
    info.enabled_extension_count = 1;
    CHECK(create_context(info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("enabled_extensions"));
}

TEST_CASE_FIXTURE(DeviceTest, "the functions of a context refuse NULL") {
    vkattn_device_facts facts{};
    const vkattn_context context = test_device().context().get();
    CHECK(vkattn_context_facts(nullptr, &facts) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("context"));
    CHECK(vkattn_context_facts(context, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("facts"));
    CHECK(vkattn_context_handles(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) ==
          VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_context_handles(context, nullptr, nullptr, nullptr, nullptr, nullptr) == VKATTN_SUCCESS);
    std::uint32_t count = 0;
    const char *const *names = vkattn_wanted_extensions(&count);
    CHECK(count > 0);
    for (const char *name : std::span(names, count)) CHECK(std::string(name).starts_with("VK_"));
}

TEST_CASE_FIXTURE(DeviceTest, "buffers keep what is written and refuse what lies outside") {
    const vkattn_context context = test_device().context().get();
    vkattn_buffer buffer = made_up_handle<vkattn_buffer>();
    REQUIRE(vkattn_buffer_create(context, 0, &buffer) == VKATTN_SUCCESS); // a tensor without elements
    vkattn_buffer_destroy(buffer);
    CHECK(vkattn_buffer_create(nullptr, 4, &buffer) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(buffer == nullptr);
    CHECK(vkattn_buffer_create(context, 4, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    REQUIRE(vkattn_buffer_create(context, 10, &buffer) == VKATTN_SUCCESS);
    const char text[] = "attention";
    char back[10] = {};
    CHECK(vkattn_buffer_write(buffer, 0, text, 10) == VKATTN_SUCCESS);
    CHECK(vkattn_buffer_write(buffer, 3, "ENT", 3) == VKATTN_SUCCESS);
    CHECK(vkattn_buffer_read(buffer, 1, back, 9) == VKATTN_SUCCESS);
    CHECK(std::string(back) == "ttENTion");
    CHECK(vkattn_buffer_write(buffer, 10, nullptr, 0) == VKATTN_SUCCESS);
    CHECK(vkattn_buffer_write(buffer, 8, text, 3) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_buffer_read(buffer, ~std::uint64_t{0}, back, 2) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_buffer_read(buffer, 0, nullptr, 2) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("data"));
    CHECK(vkattn_buffer_write(nullptr, 0, text, 2) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("buffer"));
    vkattn_buffer_destroy(buffer);
}

TEST_CASE_FIXTURE(DeviceTest, "a buffer no device can hold is out of memory, not a crash") {
    vkattn_buffer buffer = nullptr;
    const vkattn_result result = vkattn_buffer_create(test_device().context().get(), std::uint64_t{1} << 50, &buffer);
    CHECK((result == VKATTN_ERROR_OUT_OF_DEVICE_MEMORY || result == VKATTN_ERROR_UNSUPPORTED));
    CHECK(buffer == nullptr);
}

TEST_CASE_FIXTURE(DeviceTest, "bindings that are missing, repeated, unexpected or misplaced are named") {
    const vkattn::Context &context = test_device().context();
    const vkattn::Plan plan = context.attention_plan(small_desc());
    const vkattn::Buffer buffer = context.buffer(4096);
    const std::vector<vkattn_binding> right = {
        vkattn::bind(VKATTN_ROLE_QUERY, buffer, 0), vkattn::bind(VKATTN_ROLE_KEY, buffer, 128),
        vkattn::bind(VKATTN_ROLE_VALUE, buffer, 256), vkattn::bind(VKATTN_ROLE_OUTPUT, buffer, 384)};
    const std::vector<char> zeros(4096, 0);
    vkattn_buffer_write(buffer.get(), 0, zeros.data(), zeros.size());
    const auto run = [&](const std::vector<vkattn_binding> &bindings) {
        return vkattn_run(plan.get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()), nullptr);
    };
    CHECK(run(right) == VKATTN_SUCCESS);
    for (std::size_t missing = 0; missing < right.size(); ++missing) {
        std::vector<vkattn_binding> bindings = right;
        bindings.erase(bindings.begin() + static_cast<std::ptrdiff_t>(missing));
        CHECK(run(bindings) == VKATTN_ERROR_INVALID_ARGUMENT);
        const char *names[] = {"query", "key", "value", "output"};
        CAPTURE(std::string(vkattn_last_error()));
        CHECK(said(names[missing]));
    }
    const auto check_refused = [&](std::vector<vkattn_binding> bindings, const char *named) {
        CHECK(run(bindings) == VKATTN_ERROR_INVALID_ARGUMENT);
        CAPTURE(std::string(vkattn_last_error()));
        CHECK(said(named));
    };
    std::vector<vkattn_binding> bindings = right;
    bindings.push_back(right[1]);
    check_refused(bindings, "key");
    bindings.back().role = VKATTN_ROLE_SINKS;
    check_refused(bindings, "sinks");
    bindings.back().role = static_cast<vkattn_role>(55);
    check_refused(bindings, "role");
    bindings = right;
    bindings[2].region.offset = 264;
    check_refused(bindings, "value");
    bindings = right;
    bindings[3].region.buffer = VK_NULL_HANDLE;
    check_refused(bindings, "output");
    CHECK(vkattn_run(plan.get(), nullptr, 4, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("bindings"));
    CHECK(vkattn_run(nullptr, right.data(), 4, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("plan"));
}

TEST_CASE_FIXTURE(DeviceTest, "a plan that cannot tell of its shaders says so each time") {
    const vkattn::Plan plan = test_device().context().attention_plan(small_desc());
    vkattn_list shaders = nullptr;
    for (int i = 0; i < 3; ++i) CHECK(vkattn_plan_shaders(plan.get(), &shaders) == VKATTN_ERROR_UNSUPPORTED);
}

namespace {
std::atomic<int> checks_told{0};
void tell_check(const vkattn_check &) { ++checks_told; }
} // namespace

TEST_CASE_FIXTURE(DeviceTest, "checks are told to whatever can be called: constant objects, functions") {
    const LimitedDevice device(kFewShaders);
    const vkattn::Context &context = device.context();
    int told = 0;
    const auto tell = [&told](const vkattn_check &check) { told += *check.name == '\0' ? 0 : 1; };
    const std::size_t listed = context.self_test(tell).size();
    CHECK(told > 0);
    CHECK(listed == static_cast<std::size_t>(told));
    CHECK(context.self_test(tell_check).size() == listed);
    CHECK(checks_told == told);
}

TEST_CASE_FIXTURE(DeviceTest, "recording refuses NULL") {
    const vkattn::Plan plan = test_device().context().attention_plan(small_desc());
    vkattn_record_info info{};
    CHECK(vkattn_record(nullptr, &info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("plan"));
    CHECK(vkattn_record(plan.get(), nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("info"));
    CHECK(vkattn_record(plan.get(), &info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("command_buffer"));
}

TEST_CASE_FIXTURE(DeviceTest, "layers refuse NULL and impossible sizes by name") {
    const vkattn_context context = test_device().context().get();
    vkattn_layer_config config{};
    config.embed_dim = 32;
    config.num_heads = 4;
    vkattn_layer layer = nullptr;
    const auto refused = [&](const vkattn_layer_config &wrong, const char *named) {
        CHECK(vkattn_layer_create(context, &wrong, nullptr, 0, &layer) == VKATTN_ERROR_INVALID_ARGUMENT);
        CAPTURE(std::string(vkattn_last_error()));
        CHECK(said(named));
        CHECK(layer == nullptr);
    };
    refused(config, "q_proj.weight");
    vkattn_layer_config wrong = config;
    wrong.num_heads = 0;
    refused(wrong, "num_heads");
    wrong = config;
    wrong.embed_dim = 0;
    refused(wrong, "embed_dim");
    wrong = config;
    wrong.num_heads = 5;
    refused(wrong, "embed_dim");
    wrong = config;
    wrong.num_kv_heads = 3;
    refused(wrong, "num_kv_heads");
    wrong = config;
    wrong.rope_theta = NAN;
    refused(wrong, "rope_theta");
    wrong = config;
    wrong.kind = static_cast<vkattn_layer_kind>(70);
    refused(wrong, "kind");
    CHECK(vkattn_layer_create(context, nullptr, nullptr, 0, &layer) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("config"));
    CHECK(vkattn_layer_create(nullptr, &config, nullptr, 0, &layer) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_layer_create(context, &config, nullptr, 3, &layer) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("weights"));
    CHECK(vkattn_layer_create(context, &config, nullptr, 0, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    vkattn_plan plan = nullptr;
    const vkattn_layer_call call{};
    CHECK(vkattn_layer_plan(nullptr, &call, &plan) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(said("layer"));
}

TEST_CASE_FIXTURE(DeviceTest, "flash over 65536 keys needs a few megabytes of workspace at most") {
    std::mt19937 random(31);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 1, 64, 8}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 1, 65536, 8}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 1, 65536, 8}, random);
    AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
    const vkattn::Plan plan = test_device().context().attention_plan(describe(problem, results, VKATTN_KERNEL_FLASH));
    CHECK(plan.requirements().workspace_bytes <= 4u << 20);
    check_attention(problem, reference_attention(problem), results, VKATTN_KERNEL_FLASH);
}

TEST_CASE_FIXTURE(DeviceTest, "run brings its own workspace if none is bound, and times itself") {
    vkattn_attention_desc desc = small_desc();
    desc.kernel = VKATTN_KERNEL_UNFUSED;
    const vkattn::Context &context = test_device().context();
    const vkattn::Plan plan = context.attention_plan(desc);
    vkattn::Buffer buffer = context.buffer(1024);
    buffer.write(std::vector<float>(256, 0.5f));
    const double gpu_ms =
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, buffer, 0), vkattn::bind(VKATTN_ROLE_KEY, buffer, 128),
                  vkattn::bind(VKATTN_ROLE_VALUE, buffer, 256), vkattn::bind(VKATTN_ROLE_OUTPUT, buffer, 384)});
    CHECK((gpu_ms >= 0.0) == (context.facts().timestamps != 0));
    std::vector<float> output(32);
    buffer.read(output, 384);
    CHECK(std::ranges::all_of(output, [](float value) { return std::fabs(value - 0.5f) < 1e-6f; }));
}

TEST_SUITE_END();
