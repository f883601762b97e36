// The self-test: right kernels pass, a wrong one is off, with the reason, and the next one gives right answers.
#include "compare.hpp"
#include "corrupted_device.hpp"
#include "limited_device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

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
    CHECK(support_of(facts, c.kernel)->supported == 0);
    CHECK(std::string(support_of(facts, c.kernel)->reason).find("self-test: wrong numbers") == 0);
    vkattn_attention_desc insisted = asked.desc;
    insisted.kernel = c.kernel;
    try {
        device.context().attention_plan(insisted);
        FAIL("accepted");
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
        CHECK(std::string(error.what()).find("self-test: wrong numbers") != std::string::npos);
    }
}

} // namespace

TEST_SUITE_BEGIN("self_test");

TEST_CASE_FIXTURE(DeviceTest, "every kernel that the device can run passes") {
    const LimitedDevice device("matrix_units=1");
    const std::vector<vkattn::Check> checks = device.context().self_test();
    CHECK(checks.size() >= 2 * 3);
    for (const std::string name : {"unfused, one query", "linear, one row", "linear, many rows"})
        CHECK(
            std::any_of(checks.begin(), checks.end(), [&](const vkattn::Check &check) { return check.name == name; }));
    for (const vkattn::Check &check : checks) CHECK_MESSAGE(check.passed, check.name << ": " << check.reason);
    for (const vkattn::Check &check : checks) CHECK(check.milliseconds > 0.0);
    const vkattn_device_facts before = test_device().facts(), after = device.context().facts();
    for (std::uint32_t i = 0; i < after.kernel_count; ++i)
        CHECK(after.kernels[i].supported == before.kernels[i].supported);
}

TEST_CASE_FIXTURE(DeviceTest, "a kernel that computes something else is off, and the next one takes over") {
    if (skips_corruption()) return;
    for (const Case &c : kCases) check_takes_over(c);
}

TEST_CASE_FIXTURE(DeviceTest, "the checks are told one by one, those of the list") {
    const LimitedDevice device("matrix_units=1");
    std::vector<std::string> told;
    const auto tell = [](void *user, const vkattn_check *check) {
        static_cast<std::vector<std::string> *>(user)->emplace_back(check->name);
    };
    REQUIRE(vkattn_self_test_each(device.context().get(), tell, &told) == VKATTN_SUCCESS);
    std::vector<std::string> listed;
    for (const vkattn::Check &check : device.context().self_test()) listed.emplace_back(check.name);
    CHECK(told == listed);
    CHECK(vkattn_self_test_each(device.context().get(), nullptr, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
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
    CHECK(device.context().layer_workspace(config, call) > 0);
    CHECK(support_of(device.context().facts(), VKATTN_KERNEL_FLASH)->supported == 1); // nobody has found out
    CHECK(chosen(device.context(), Asked(kCases[0]).desc) != VKATTN_KERNEL_FLASH);
    CHECK(support_of(device.context().facts(), VKATTN_KERNEL_FLASH)->supported == 0);
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
    CHECK(std::string(support_of(alone.context().facts(), c.kernel)->reason).find("self-test: wrong numbers") == 0);
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
    CHECK(std::string(support_of(facts, c.kernel)->reason)
              .find("self-test: coopmat, many queries, 16x16x16 f16: wrong numbers") == 0);

    for (const vkattn::Check &check : device.context().self_test())
        CHECK((check.passed == 0) == (std::string(check.name) == "coopmat, 16x16x16 f16"));

    ContextRequest request((common + "1" + two_shapes).c_str());
    const std::vector<std::uint8_t> saved = device.context().save();
    request.info.saved_data = saved.data();
    request.info.saved_bytes = saved.size();
    const vkattn::Context restored(request.info);
    const vkattn_device_facts later = restored.facts();
    CHECK(std::string(support_of(later, c.kernel)->reason) == support_of(facts, c.kernel)->reason);
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
    const CorruptedDevice corrupted({.linear_addresses = true});
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
    for (const vkattn::Check &check : device.context().self_test()) {
        const std::string name = check.name;
        if (name.find("linear") != 0) continue;
        const bool addressed = name.find("through addresses") != std::string::npos;
        CHECK_MESSAGE((check.passed == 0) == addressed, name << ": " << check.reason);
        ++(addressed ? failed : passed);
    }
    CHECK(failed == 2);
    CHECK(passed == 2);
    CHECK(!reads_addresses());
}

TEST_CASE_FIXTURE(DeviceTest, "a full self-test names what fails") {
    if (skips_corruption()) return;
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_UNFUSED});
    const LimitedDevice device("self_test=0", corrupted.get_instance_proc_addr());
    std::size_t failed = 0;
    for (const vkattn::Check &check : device.context().self_test()) {
        if (check.passed) continue;
        ++failed;
        CHECK(std::string(check.name).find("unfused") == 0);
        CHECK(std::string(check.reason).find("wrong numbers") == 0);
    }
    CHECK(failed == 2);
}

TEST_CASE_FIXTURE(DeviceTest, "where constants size no arrays, unfused alone serves, and says why the others do not") {
    const Asked asked(Case{VKATTN_KERNEL_FLASH, 40, ""});
    const LimitedDevice device("specialised_arrays=0");
    CHECK(chosen(device.context(), asked.desc) == VKATTN_KERNEL_UNFUSED);
    CHECK(std::string(support_of(device.context().facts(), VKATTN_KERNEL_FLASH)->reason) ==
          "the driver does not size arrays by specialisation constants");
    const Comparison result = compare_on(device, asked);
    CHECK_MESSAGE(result.passed, result.report);
}

TEST_SUITE_END();
