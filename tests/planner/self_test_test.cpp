// The self-test: right kernels pass, a wrong one is off, with the reason, and the next one gives right answers.
#include "compare.hpp"
#include "corrupted_device.hpp"
#include "limited_device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace vkattn_test;

namespace {

struct Case {
    vkattn_kernel kernel;
    std::uint64_t q_len; // of a problem for which the kernel is chosen, as long as it is right
    const char *traits;  // that make it so
};

constexpr Case kCases[] = {
    {VKATTN_KERNEL_FLASH, 40, ",matrix_units=0,scalar_address_loads=0"},
    {VKATTN_KERNEL_DECODE, 1, ",matrix_units=0,scalar_address_loads=0"},
    {VKATTN_KERNEL_LATENT_DECODE, 1, ",matrix_units=0,scalar_address_loads=0"},
    {VKATTN_KERNEL_COOPMAT, 40, ",matrix_units=1"},
    {VKATTN_KERNEL_ADDRESSES, 40, ",matrix_units=0,scalar_address_loads=1"},
};

AttentionProblem problem_of(const Case &c) {
    std::mt19937 random(111);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F16, {1, 4, c.q_len, 32}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F16, {1, 2, 2000, 32}, random);
    problem.value_in_key = c.kernel == VKATTN_KERNEL_LATENT_DECODE;
    problem.value = problem.value_in_key ? first_columns(problem.key, 32)
                                         : normal_tensor(VKATTN_TYPE_F16, {1, 2, 2000, 32}, random);
    return problem;
}

const vkattn_kernel_support *support_of(const vkattn_device_facts &facts, vkattn_kernel kernel) {
    for (std::uint32_t i = 0; i < facts.kernel_count; ++i)
        if (facts.kernels[i].kernel == kernel) return &facts.kernels[i];
    return nullptr;
}

// A problem for which a kernel is chosen, described.
struct Asked {
    explicit Asked(const Case &c) : problem(problem_of(c)) {
        results.output = HostTensor(VKATTN_TYPE_F32, {1, 4, c.q_len, 32});
        desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    }

    AttentionProblem problem;
    AttentionResults results;
    vkattn_attention_desc desc{};
};

// What a device makes of a problem, beside the reference.
Comparison compare_on(const LimitedDevice &device, const Asked &asked) {
    const HostTensor &output = asked.results.output;
    return compare("output", output.shape(), reference_attention(asked.problem).output,
                   device.run(asked.problem, asked.desc, output), nmse_bound({VKATTN_TYPE_F16}));
}

vkattn_kernel chosen(const vkattn::Context &context, const vkattn_attention_desc &desc) {
    return context.attention_plan(desc).report().kernel;
}

bool skips_corruption() {
    if (!can_corrupt()) skip("shaders are hidden in a shared library");
    return !can_corrupt();
}

// "self-test: decode, f16: wrong numbers"
bool names_failure(const std::string &reason) {
    const std::size_t begin = reason.find("self-test: ");
    return begin != std::string::npos && reason.find(": wrong numbers", begin) != std::string::npos;
}

void check_takes_over(const Case &c) {
    INFO(kernel_text(c.kernel));
    const Asked asked(c);
    const std::string common = "parallel_workgroups=64,self_test=";
    const LimitedDevice sound((common + "0" + c.traits).c_str());
    if (support_of(sound.context().facts(), c.kernel)->supported == 0) {
        skip("no " + kernel_text(c.kernel) + ": " + support_of(sound.context().facts(), c.kernel)->reason);
        return;
    }
    REQUIRE(chosen(sound.context(), asked.desc) == c.kernel);

    const CorruptedDevice corrupted({.kernel = c.kernel});
    const LimitedDevice credulous((common + "0" + c.traits).c_str(), corrupted.get_instance_proc_addr());
    CHECK(!compare_on(credulous, asked).passed); // unnoticed without the self-test

    const LimitedDevice device((common + "1" + c.traits).c_str(), corrupted.get_instance_proc_addr());
    CHECK(chosen(device.context(), asked.desc) != c.kernel);
    const Comparison comparison = compare_on(device, asked);
    CHECK_MESSAGE(comparison.passed, comparison.report);
    const vkattn_device_facts facts = device.context().facts();
    // nobody has asked for f32, which coopmat does not serve; it may serve bf16
    if (c.kernel != VKATTN_KERNEL_COOPMAT) CHECK(support_of(facts, c.kernel)->supported == 1u);
    CHECK(names_failure(support_of(facts, c.kernel)->reason));
    vkattn_attention_desc requested = asked.desc;
    requested.kernel = c.kernel;
    try {
        device.context().attention_plan(requested);
        FAIL("accepted");
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
        CHECK(names_failure(error.what()));
    }
}

// Whether it is the check of this name, or that of the same shader for devices with subgroups, or of those that read shared
// memory by halves.
bool is_of(const vkattn_check &check, const std::string &name) {
    const std::string found = check.name;
    const std::size_t comma = name.find(',');
    const std::string shader = name.substr(0, comma), rest = name.substr(comma);
    return found == name || found == shader + "_subgroups" + rest || found == shader + "_split" + rest;
}

} // namespace

TEST_SUITE_BEGIN("self_test");

TEST_CASE_FIXTURE(DeviceTest, "every kernel that the device can run passes") {
    const LimitedDevice device("matrix_units=1");
    const vkattn::List<vkattn_check> checks = device.context().self_test();
    CHECK(checks.size() >= 30);
    for (const vkattn_check &check : checks) CHECK(check.check_count >= checks.size());
    for (const std::string name :
         {"flash, f32", "flash, q8_0", "flash, large heads", "flash, pages", "flash, keys in parts", "decode, q8_0",
          "decode_halves, f16", "merge_parts, keys in parts", "qk_scores, f32", "linear, f16", "linear_vector, f32",
          "rows, q8_0", "sort_lists, f32", "merge_lists, f32", "select, f32", "sort_selected, f32", "mask_indices, f32",
          "index_scores, f32"})
        CHECK_MESSAGE(std::ranges::any_of(checks, [&](const vkattn_check &check) { return is_of(check, name); }), name);
    for (const vkattn_check &check : checks)
        CHECK_MESSAGE(check.passed, std::string(check.name) << ": " << std::string(check.reason));
    for (const vkattn_check &check : checks) CHECK(check.milliseconds > 0.0);
    const vkattn_device_facts before = test_device().facts(), after = device.context().facts();
    for (std::uint32_t i = 0; i < after.kernel_count; ++i)
        CHECK(after.kernels[i].supported == before.kernels[i].supported);
}

TEST_CASE_FIXTURE(DeviceTest, "a kernel that computes something else is off, and the next one takes over") {
    if (skips_corruption()) return;
    for (const Case &c : kCases) check_takes_over(c);
}

TEST_CASE_FIXTURE(DeviceTest, "the checks are told one by one, those of the list") {
    const LimitedDevice device(kFewShaders);
    std::vector<std::string> told;
    const auto tell = [](void *user, const vkattn_check *check) {
        static_cast<std::vector<std::string> *>(user)->emplace_back(check->name);
    };
    vkattn_list checks = nullptr;
    REQUIRE(vkattn_self_test(device.context().get(), tell, &told, &checks) == VKATTN_SUCCESS);
    std::vector<std::string> listed;
    for (const vkattn_check &check : vkattn::List<vkattn_check>(checks)) listed.emplace_back(check.name);
    CHECK(told == listed);
    CHECK(vkattn_self_test(device.context().get(), nullptr, nullptr, nullptr) == VKATTN_SUCCESS);
}

TEST_CASE_FIXTURE(DeviceTest, "a layer's workspace is told without a test of its kernels") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_FLASH});
    const LimitedDevice device("matrix_units=0,scalar_address_loads=0,self_test=1", corrupted.get_instance_proc_addr());
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = 64;
    config.num_heads = 4;
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 40, 64});
    CHECK(device.context().measure(config, call).workspace_bytes > 0);
    const auto reason = [&] { return std::string(support_of(device.context().facts(), VKATTN_KERNEL_FLASH)->reason); };
    CHECK(reason() == ""); // nobody has found out
    CHECK(chosen(device.context(), Asked(kCases[0]).desc) != VKATTN_KERNEL_FLASH);
    CHECK(names_failure(reason()));
}

TEST_CASE_FIXTURE(DeviceTest, "a matrix shape that computes something else is off, and the next one takes over") {
    if (skips_corruption()) return;
    const Case c = {VKATTN_KERNEL_COOPMAT, 40, ""};
    const Asked asked(c);
    const std::string common = "matrix_units=1,scalar_address_loads=0,self_test=";
    std::optional<CorruptedDevice> corrupted(Corruption{.kernel = c.kernel});
    const LimitedDevice alone((common + "1").c_str(), corrupted->get_instance_proc_addr());
    const vkattn_device_facts own = alone.context().facts();
    if (support_of(own, c.kernel)->supported == 0 || own.matrix_shape_count != 1) {
        skip("no coopmat with a single matrix shape");
        return;
    }
    CHECK(chosen(alone.context(), asked.desc) == VKATTN_KERNEL_FLASH); // the only shape was that one
    CHECK(names_failure(support_of(alone.context().facts(), c.kernel)->reason));
    CHECK(compare_on(alone, asked).passed);

    const std::string two_shapes = ",matrix_m=16,matrix_n=16,matrix_k=16";
    const auto has_flexible_dimensions = [&] {
        try {
            return LimitedDevice((common + "0" + two_shapes).c_str()).context().facts().matrix_shape_count == 2;
        } catch (const vkattn::Error &error) {
            CHECK(std::string(error.what()).find("flexible dimensions") != std::string::npos);
            return false;
        }
    };
    if (!has_flexible_dimensions()) {
        skip("no matrices with flexible dimensions");
        return;
    }
    const vkattn_matrix_shape first = {16, 16, 16, VKATTN_TYPE_F16};
    corrupted.emplace(Corruption{.kernel = c.kernel, .shape = first});
    const LimitedDevice credulous((common + "0" + two_shapes).c_str(), corrupted->get_instance_proc_addr());
    CHECK(chosen(credulous.context(), asked.desc) == VKATTN_KERNEL_COOPMAT);
    CHECK(!compare_on(credulous, asked).passed);

    const LimitedDevice device((common + "1" + two_shapes).c_str(), corrupted->get_instance_proc_addr());
    CHECK(chosen(device.context(), asked.desc) == VKATTN_KERNEL_COOPMAT);
    const Comparison comparison = compare_on(device, asked);
    CHECK_MESSAGE(comparison.passed, comparison.report);
    const vkattn_device_facts facts = device.context().facts();
    CHECK(support_of(facts, c.kernel)->supported == 1);
    const std::string reason = support_of(facts, c.kernel)->reason; // of coopmat or coopmat_rolled
    CHECK(reason.starts_with("self-test: coopmat"));
    CHECK(reason.find(", 16x16x16, f16: wrong numbers") != std::string::npos);
    for (const vkattn_kernel_support &support : std::span(facts.kernels, facts.kernel_count))
        CHECK(names_failure(support.reason) == (support.kernel == c.kernel));

    ContextRequest request(with_whole_modules(common + "1" + two_shapes).c_str());
    const std::vector<std::uint8_t> saved = device.context().save();
    request.info.saved_data = saved.data();
    request.info.saved_bytes = saved.size();
    const vkattn::Context restored(request.info);
    const vkattn_device_facts later = restored.facts();
    const vkattn_device_facts now = device.context().facts();
    CHECK(std::string(support_of(later, c.kernel)->reason) == support_of(now, c.kernel)->reason);
}

TEST_CASE_FIXTURE(DeviceTest, "where addresses lead astray, attention does without") {
    if (skips_corruption()) return;
    const Asked asked(Case{VKATTN_KERNEL_ADDRESSES, 40, ""});
    const auto reads_addresses = [&](const LimitedDevice &device) {
        const std::string reason = device.context().attention_plan(asked.desc).report().reason;
        return reason.find("through device addresses") != std::string::npos;
    };
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_ADDRESSES});
    const LimitedDevice credulous("matrix_units=0,scalar_address_loads=1,self_test=0",
                                  corrupted.get_instance_proc_addr());
    if (!reads_addresses(credulous)) {
        skip("attention reads through no addresses");
        return;
    }
    CHECK(!compare_on(credulous, asked).passed);

    const LimitedDevice device("matrix_units=0,scalar_address_loads=1,self_test=1", corrupted.get_instance_proc_addr());
    CHECK(!reads_addresses(device));
    const Comparison comparison = compare_on(device, asked);
    CHECK_MESSAGE(comparison.passed, comparison.report);
    CHECK(chosen(device.context(), asked.desc) == VKATTN_KERNEL_FLASH);
}

TEST_CASE_FIXTURE(DeviceTest, "where addresses lead astray, linear layers do without") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.shaders = "linear_addresses linear_addresses_quantised"});
    const LimitedDevice device("self_test=0,matrix_units=0,most_addressed_linear_rows=64,scalar_address_loads=0",
                               corrupted.get_instance_proc_addr());
    vkattn_linear_desc desc{};
    desc.input = vkattn::tensor(VKATTN_TYPE_F16, {1, 19, 72});
    desc.weight = vkattn::tensor(VKATTN_TYPE_F16, {45, 72});
    desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 19, 45});
    const auto reads_addresses = [&] {
        const std::string reason = device.context().linear_plan(desc).report().reason;
        return reason.find("linear_addresses") == 0;
    };
    if (!reads_addresses()) {
        skip("linear layers read through no addresses");
        return;
    }
    std::size_t failed = 0, passed = 0;
    for (const vkattn_check &check : device.context().self_test()) {
        const std::string name = check.name;
        if (!name.starts_with("linear") || name.starts_with("linear_attention")) continue;
        const bool addressed = name.find("linear_addresses") == 0;
        CHECK_MESSAGE((check.passed == 0) == addressed, name << ": " << std::string(check.reason));
        const auto begins = [&](const char *shader) { return name.starts_with(shader); };
        if (!begins("linear_coopmat") && !begins("linear_dots") && !begins("linear_transposed"))
            ++(addressed ? failed : passed);
    }
    const std::size_t weights = 3 + quantised_weight_types().size(); // f32, f16 and bf16, and blocks
    CHECK(failed == weights);
    CHECK(passed == 2 * weights);
    CHECK(!reads_addresses());
}

TEST_CASE_FIXTURE(DeviceTest, "a full self-test names what fails") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_UNFUSED, .shaders = "linear"});
    const LimitedDevice device("self_test=0", corrupted.get_instance_proc_addr());
    std::size_t failed = 0;
    for (const vkattn_check &check : device.context().self_test()) {
        if (check.passed) continue;
        if (std::string(check.name).starts_with("linear, ")) continue;
        ++failed;
        CHECK(std::string(check.name) == "masked_softmax, f32");
        CHECK(std::string(check.reason).find("wrong numbers") == 0);
    }
    CHECK(failed == 1);
    CHECK(support_of(device.context().facts(), VKATTN_KERNEL_UNFUSED)->supported == 0);
}

namespace {

constexpr const char *kPlain = "matrix_units=0,scalar_address_loads=0,parallel_workgroups=64,gpu_class=0,self_test=";

// A problem of some types, of one query over keys that are split.
AttentionProblem decode_of(vkattn_type query, vkattn_type stored) {
    std::mt19937 random(112);
    AttentionProblem problem;
    problem.query = normal_tensor(query, {1, 4, 1, 64}, random);
    problem.key = normal_tensor(stored, {1, 2, 2000, 64}, random);
    problem.value = normal_tensor(stored, {1, 2, 2000, 64}, random);
    return problem;
}

struct Planned {
    vkattn_kernel kernel;
    bool is_right;
};

// What the device makes of it.
Planned plan_and_run(const LimitedDevice &device, const AttentionProblem &problem) {
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {1, 4, 1, 64});
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    const Comparison comparison =
        compare("output", results.output.shape(), reference_attention(problem).output,
                device.run(problem, desc, results.output), nmse_bound({problem.query.type(), problem.key.type()}));
    return {chosen(device.context(), desc), comparison.passed};
}

std::string with_self_test(int tests) { return kPlain + std::to_string(tests); }

struct OneShader {
    Corruption corruption;
    vkattn_type query, stored;             // of the problem that it spoils
    vkattn_type other_query, other_stored; // of one that it does not, by the same kernel
    vkattn_kernel taken;                   // for the first
    const char *reason;                    // what decode's facts say
};

const OneShader kOneShader[] = {
    {{.shaders = "decode", .key_type = VKATTN_TYPE_F32},
     VKATTN_TYPE_F32,
     VKATTN_TYPE_F32,
     VKATTN_TYPE_F16,
     VKATTN_TYPE_Q8_0,
     VKATTN_KERNEL_FLASH,
     "self-test: decode, f32: wrong numbers"},
    {{.shaders = "decode", .key_type = VKATTN_TYPE_Q8_0},
     VKATTN_TYPE_F16,
     VKATTN_TYPE_Q8_0,
     VKATTN_TYPE_F32,
     VKATTN_TYPE_F32,
     VKATTN_KERNEL_FLASH,
     "self-test: decode, q8_0: wrong numbers"},
    {{.shaders = "decode_halves"},
     VKATTN_TYPE_F16,
     VKATTN_TYPE_F16,
     VKATTN_TYPE_F32,
     VKATTN_TYPE_F32,
     VKATTN_KERNEL_DECODE,
     "self-test: decode_halves, f16: wrong numbers"},
};

void check_one_shader(const OneShader &c) {
    INFO(c.reason);
    const AttentionProblem spoilt = decode_of(c.query, c.stored), other = decode_of(c.other_query, c.other_stored);
    const CorruptedDevice corrupted(c.corruption);
    const LimitedDevice credulous(with_self_test(0).c_str(), corrupted.get_instance_proc_addr());
    CHECK(!plan_and_run(credulous, spoilt).is_right); // or nothing was spoilt
    const LimitedDevice device(with_self_test(1).c_str(), corrupted.get_instance_proc_addr());
    const Planned instead = plan_and_run(device, spoilt);
    CHECK(instead.is_right);
    CHECK(kernel_text(instead.kernel) == kernel_text(c.taken));
    const Planned untouched = plan_and_run(device, other);
    CHECK(untouched.is_right);
    CHECK(untouched.kernel == VKATTN_KERNEL_DECODE);
    const vkattn_device_facts facts = device.context().facts();
    CHECK_MESSAGE(std::string(support_of(facts, VKATTN_KERNEL_DECODE)->reason).starts_with(c.reason),
                  support_of(facts, VKATTN_KERNEL_DECODE)->reason);
    CHECK(std::string(support_of(facts, VKATTN_KERNEL_FLASH)->reason) == "");
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "each shader is judged by itself, for each storage type by itself") {
    if (skips_corruption()) return;
    for (const OneShader &c : kOneShader) check_one_shader(c);
}

TEST_CASE_FIXTURE(DeviceTest, "a merge that is wrong puts off what is split, and not the shader before it") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.shaders = "merge_parts"});
    const LimitedDevice device(with_self_test(1).c_str(), corrupted.get_instance_proc_addr());
    const Planned instead = plan_and_run(device, decode_of(VKATTN_TYPE_F32, VKATTN_TYPE_F32));
    CHECK(instead.is_right);
    CHECK(instead.kernel == VKATTN_KERNEL_FLASH);
    const vkattn_device_facts facts = device.context().facts();
    const std::string reason = support_of(facts, VKATTN_KERNEL_DECODE)->reason;
    CHECK_MESSAGE(reason.starts_with("self-test: merge_parts, keys in parts: wrong numbers"), reason);
    CHECK(support_of(facts, VKATTN_KERNEL_DECODE)->supported == 0);
}

TEST_CASE_FIXTURE(DeviceTest, "where pages alone are wrong, dense keys stay with the shader") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.shaders = "decode_halves", .pages = true});
    const LimitedDevice device(with_self_test(1).c_str(), corrupted.get_instance_proc_addr());
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 4, 1, 64});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F16, {128, 2, 16, 64});
    desc.block_table = vkattn::tensor(VKATTN_TYPE_I32, {1, 128});
    desc.key_lengths = vkattn::tensor(VKATTN_TYPE_I32, {1});
    const auto reason = [&] { return std::string(support_of(device.context().facts(), VKATTN_KERNEL_DECODE)->reason); };
    const AttentionProblem dense = decode_of(VKATTN_TYPE_F16, VKATTN_TYPE_F16);
    CHECK(plan_and_run(device, dense).kernel == VKATTN_KERNEL_DECODE);
    CHECK(reason() == "");
    CHECK(chosen(device.context(), desc) == VKATTN_KERNEL_DECODE); // by its other shader
    CHECK_MESSAGE(reason().starts_with("self-test: decode_halves, pages: wrong numbers"), reason());
    for (const vkattn_check &check : device.context().self_test())
        CHECK_MESSAGE((check.passed == 0) == (std::string(check.name) == "decode_halves, pages"),
                      check.name << ": " << std::string(check.reason));
    CHECK(plan_and_run(device, dense).is_right);
}

TEST_CASE_FIXTURE(DeviceTest, "of unfused, of copies and of linear layers the shader that is wrong is named") {
    if (skips_corruption()) return;
    constexpr const char *kShaders[] = {"qk_scores", "rows", "linear_vector"};
    const CorruptedDevice corrupted({.shaders = "qk_scores rows linear_vector"});
    const LimitedDevice device(with_self_test(0).c_str(), corrupted.get_instance_proc_addr());
    std::map<std::string, std::size_t> failed;
    for (const vkattn_check &check : device.context().self_test()) {
        const std::string name = check.name;
        if (check.passed == 0) ++failed[name.substr(0, name.find(','))];
    }
    CHECK(failed.size() == std::size(kShaders));
    for (const char *shader : kShaders) CHECK_MESSAGE(failed[shader] >= 3, std::string(shader));
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a shader of lists of keys that is wrong is named and not used, nor is what it computes for") {
    if (skips_corruption()) return;
    vkattn_attention_desc attention{};
    attention.query = attention.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 2, 64});
    attention.key = attention.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 75, 64});
    attention.key_indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 2, 7});
    vkattn_index_desc index{};
    index.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 2, 64});
    index.key = attention.key;
    index.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 2, 7});
    {
        const CorruptedDevice corrupted({.shaders = "sort_lists sort_selected index_addresses"});
        const LimitedDevice device("self_test=1", corrupted.get_instance_proc_addr());
        CHECK_THROWS_WITH_AS(device.context().attention_plan(attention),
                             doctest::Contains("self-test: sort_lists, f32: wrong numbers"), vkattn::Error);
        vkattn_top_k_desc top_k{};
        top_k.input = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 75});
        top_k.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 7});
        CHECK_THROWS_WITH_AS(device.context().top_k_plan(top_k),
                             doctest::Contains("self-test: sort_selected, f32: wrong numbers"), vkattn::Error);
        CHECK(std::string(device.context().index_plan(index).report().reason).starts_with("index_scores"));
    }
    const CorruptedDevice corrupted({.shaders = "select"});
    const LimitedDevice device("self_test=1", corrupted.get_instance_proc_addr());
    CHECK_THROWS_WITH_AS(device.context().index_plan(index), doctest::Contains("self-test: select, f32: wrong numbers"),
                         vkattn::Error);
    CHECK_NOTHROW(device.context().attention_plan(attention));
}

TEST_CASE_FIXTURE(DeviceTest, "what loses the device is remembered, so that the next start does without") {
    if (skips_corruption()) return;
    const AttentionProblem problem = decode_of(VKATTN_TYPE_F32, VKATTN_TYPE_F32);
    const CorruptedDevice deadly({.shaders = "decode", .effect = Corruption::Effect::kLosesDevice});
    std::vector<std::uint8_t> saved;
    {
        const LimitedDevice device(with_self_test(1).c_str(), deadly.get_instance_proc_addr());
        try {
            plan_and_run(device, problem);
            FAIL("accepted");
        } catch (const vkattn::Error &error) {
            CHECK(error.result() == VKATTN_ERROR_DEVICE_LOST);
        }
        saved = device.context().save();
    }
    ContextRequest request(with_whole_modules(with_self_test(1)).c_str());
    request.info.saved_data = saved.data();
    request.info.saved_bytes = saved.size();
    const vkattn::Context next(request.info);
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {1, 4, 1, 64});
    CHECK(chosen(next, describe(problem, results, VKATTN_KERNEL_AUTO)) == VKATTN_KERNEL_FLASH);
    const vkattn_device_facts facts = next.facts();
    const std::string reason = support_of(facts, VKATTN_KERNEL_DECODE)->reason;
    CHECK_MESSAGE(reason == "self-test: decode, f32, keys in parts: the device was lost", reason);
}

TEST_CASE_FIXTURE(DeviceTest, "a kernel that is right at first and wrong in its second run is off") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted(
        {.shaders = "flash flash_split flash_halves flash_wide_halves flash_addresses flash_dots",
         .effect = Corruption::Effect::kWrongEverySecondRun});
    const LimitedDevice device(with_self_test(1).c_str(), corrupted.get_instance_proc_addr());
    vkattn_attention_desc asked = Asked(kCases[0]).desc;
    asked.kernel = VKATTN_KERNEL_FLASH;
    CHECK_THROWS_WITH_AS(device.context().attention_plan(asked), doctest::Contains("other bits in a second run"),
                         vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "where constants size no arrays, unfused alone serves, and says why the others do not") {
    const Asked asked(Case{VKATTN_KERNEL_FLASH, 40, ""});
    const LimitedDevice device("specialised_modules=0,specialised_arrays=0");
    CHECK(chosen(device.context(), asked.desc) == VKATTN_KERNEL_UNFUSED);
    CHECK(std::string(support_of(device.context().facts(), VKATTN_KERNEL_FLASH)->reason) ==
          "the driver does not size arrays by specialisation constants");
    const Comparison result = compare_on(device, asked);
    CHECK_MESSAGE(result.passed, result.report);
}

TEST_SUITE_END();
