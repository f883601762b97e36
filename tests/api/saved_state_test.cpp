// What a context has learned, saved and taken over; bytes that are not its own are ignored.
#include "compare.hpp"
#include "corrupted_device.hpp"
#include "counted_vulkan.hpp"
#include "limited_device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <span>

using namespace vkattn_test;

namespace {

// Collects what a context warns of, apart from the messages of the suite.
struct Warnings {
    static void receive(void *user, vkattn_severity, const char *message) {
        static_cast<Warnings *>(user)->all.emplace_back(message);
    }
    std::vector<std::string> all;
};

vkattn::Context context_with(const std::vector<std::uint8_t> &saved, Warnings &warnings, const char *traits,
                             PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr) {
    ContextRequest request(traits);
    vkattn_context_info &info = request.info;
    info.get_instance_proc_addr = get_instance_proc_addr;
    info.message_callback = Warnings::receive;
    info.message_user = &warnings;
    info.saved_data = saved.data();
    info.saved_bytes = saved.size();
    return vkattn::Context(info);
}

void run_small(const vkattn::Context &context) {
    std::mt19937 random(121);
    const HostTensor query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, 16}, random);
    const HostTensor key = normal_tensor(VKATTN_TYPE_F32, {1, 2, 9, 16}, random);
    vkattn_attention_desc desc{};
    desc.query = desc.output = query.view();
    desc.key = desc.value = key.view();
    context.attention_plan(desc);
}

} // namespace

TEST_SUITE_BEGIN("saved_state");

TEST_CASE_FIXTURE(DeviceTest, "a state that shrinks while it is saved is as long as it is, and read back") {
    load_vulkan();
    Warnings warnings;
    const vkattn::Context context = context_with({}, warnings, "self_test=0", counted_instance_function);
    run_small(context);
    const std::size_t bytes = context.save().size();
    vulkan_calls().padded_caches = 2; // those of the first call, which asks for the size
    const std::vector<std::uint8_t> saved = context.save();
    CHECK(vulkan_calls().padded_caches == 0);
    CHECK(saved.size() == bytes);
    context_with(saved, warnings, "self_test=0");
    CHECK_MESSAGE(warnings.all.empty(), warnings.all.front());
}

TEST_CASE_FIXTURE(DeviceTest, "verdicts and pipelines are taken over by the same device with the same traits") {
    if (!can_corrupt()) {
        skip("shaders are hidden in a shared library");
        return;
    }
    // whole modules: a CorruptedDevice changes their constants
    const char *traits = "specialised_modules=0,self_test=1,matrix_units=0,scalar_address_loads=0";
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_FLASH});
    Warnings warnings;
    const vkattn::Context first = context_with({}, warnings, traits, corrupted.get_instance_proc_addr());
    run_small(first); // which tests flash
    const auto reason_on = [](const vkattn::Context &context) -> std::string {
        const vkattn_device_facts facts = context.facts();
        for (const vkattn_kernel_support &support : std::span(facts.kernels, facts.kernel_count))
            if (support.kernel == VKATTN_KERNEL_FLASH) return support.reason;
        return "flash is not listed";
    };
    REQUIRE(reason_on(first).starts_with("self-test: flash, f32: wrong numbers"));
    const std::vector<std::uint8_t> saved = first.save();
    CHECK(std::string(saved.begin(), saved.begin() + 6) == "vkattn"); // for those who keep files

    const vkattn::Context second = context_with(saved, warnings, traits); // whose flash is right
    CHECK(reason_on(second) == reason_on(first));                         // without a test
    run_small(second);
    CHECK(warnings.all.empty());

    const vkattn::Context other =
        context_with(saved, warnings, "self_test=1,matrix_units=0,scalar_address_loads=0,parallel_workgroups=7");
    CHECK(reason_on(other) == "");
    REQUIRE(warnings.all.size() == 1);
    CHECK(warnings.all[0] == "vkattn: saved_data: of another device, driver, library or other traits, ignored");
}

TEST_CASE_FIXTURE(DeviceTest, "bytes that are damaged, cut off or of something else are ignored with a warning") {
    Warnings none;
    const vkattn::Context first = context_with({}, none, kFewShaders);
    run_small(first);
    first.self_test();
    const std::vector<std::uint8_t> saved = first.save();
    REQUIRE(saved.size() > 100);
    const auto check_ignored = [&](const std::vector<std::uint8_t> &bytes, const std::string &part) {
        Warnings warnings;
        const vkattn::Context context = context_with(bytes, warnings, kFewShaders);
        run_small(context);
        REQUIRE(warnings.all.size() == 1);
        CHECK_MESSAGE(warnings.all[0].find(part) != std::string::npos, warnings.all[0]);
    };
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{47}, std::size_t{49}, saved.size() / 2, saved.size() - 1})
        check_ignored({saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(size)}, "ignored");
    for (std::size_t place = 0; place < saved.size(); place += 1 + saved.size() / 40) {
        std::vector<std::uint8_t> bytes = saved;
        bytes[place] ^= 0x40;
        check_ignored(bytes, "ignored");
    }
    std::vector<std::uint8_t> longer = saved;
    longer.push_back(0);
    check_ignored(longer, "damaged");
    check_ignored(std::vector<std::uint8_t>(1000, 0xff), "not made by vkattn_context_save");
    Warnings warnings;
    run_small(context_with(saved, warnings, kFewShaders));
    CHECK(warnings.all.empty());
}

TEST_CASE_FIXTURE(DeviceTest, "too little room and missing data are named") {
    Warnings none;
    const vkattn::Context context = context_with({}, none, "");
    std::uint64_t bytes = 3;
    std::uint8_t room[3];
    CHECK(vkattn_context_save(context.get(), room, &bytes) == VKATTN_ERROR_NO_ROOM);
    CHECK(std::string(vkattn_last_error()).find("bytes: 3, expected at least") == 0);
    vkattn_context_info info{};
    info.saved_bytes = 5;
    vkattn_context made = nullptr;
    CHECK(vkattn_context_create(&info, &made) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("saved_data: NULL") == 0);
}

TEST_SUITE_END();
