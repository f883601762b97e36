// Tensors that a device cannot bind whole, on a context whose limit is lowered.
#include "compare.hpp"
#include "limited_device.hpp"
#include "runtime/device/bindable.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

using namespace vkattn_test;

namespace {

AttentionProblem random_problem() {
    std::mt19937 random(101);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {3, 4, 5, 32}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {3, 2, 60, 32}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {3, 2, 60, 32}, random);
    problem.attn_mask = normal_tensor(VKATTN_TYPE_F32, {3, 4, 5, 60}, random);
    problem.block_mask = HostTensor(VKATTN_TYPE_I32, {3, 4, 3, 4});
    for (std::uint64_t i = 0; i < problem.block_mask.elements(); ++i)
        problem.block_mask.set(i, static_cast<float>((i + i / 12) % 3));
    problem.block_q_len = 2;
    problem.block_kv_len = 16;
    problem.alibi_slopes = normal_tensor(VKATTN_TYPE_F32, {4}, random);
    problem.key_lengths = tensor_of(VKATTN_TYPE_I32, {3}, std::vector<float>{60, 31, 2});
    problem.dropout_p = 0.25f;
    problem.dropout_seed = 7;
    return problem;
}

} // namespace

TEST_SUITE_BEGIN("split");

TEST_CASE_FIXTURE(DeviceTest, "tensors above the storage buffer range are taken in parts, with the same answer") {
    const AttentionProblem problem = random_problem();
    AttentionProblem turns = problem;
    std::mt19937 random(102);
    turns.attn_mask = normal_tensor(VKATTN_TYPE_F32, {3, 2, 5, 60}, random); // each of two heads
    turns.alibi_slopes = {};
    const std::array<std::pair<const AttentionProblem *, AttentionReference>, 2> problems = {
        {{&problem, reference_attention(problem)}, {&turns, reference_attention(turns)}}};
    // K takes 46080 bytes, a batch entry of it 15360, a head 7680
    for (const char *traits :
         {"max_storage_buffer_range=32768,self_test=0", // whose problems a device of many cores does not fit
          "max_storage_buffer_range=10240,self_test=0",
          "max_storage_buffer_range=10240,self_test=0,push_descriptors=0"}) {
        const LimitedDevice device(traits);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_UNFUSED}) {
            for (const auto &[given, reference] : problems) {
                const bool in_turn = given == &turns;
                INFO(traits, ", ", kernel_text(kernel), ", mask in turn ", in_turn);
                AttentionResults results;
                results.output = HostTensor(VKATTN_TYPE_F32, {3, 4, 5, 32});
                const vkattn_attention_desc desc = describe(*given, results, kernel);
                CHECK(std::string(device.context().attention_plan(desc).report().reason).find("parts") !=
                      std::string::npos);
                const Comparison comparison =
                    compare("output", results.output.shape(), reference.output,
                            device.run(*given, desc, results.output), nmse_bound({VKATTN_TYPE_F32}));
                CHECK_MESSAGE(comparison.passed, comparison.report);
            }
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "where no part is small enough, the tensor and the limit are named") {
    const LimitedDevice device("max_storage_buffer_range=4096,self_test=0");
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {3, 4, 5, 32});
    const AttentionProblem problem = random_problem();
    try {
        device.context().attention_plan(describe(problem, results, VKATTN_KERNEL_FLASH));
        FAIL("accepted");
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
        CHECK(std::string(error.what()).find("key: 7680 bytes, expected at most 3840") == 0);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a context that is split leaves no more states than the device can bind") {
    std::mt19937 random(103);
    AttentionProblem problem; // whose states take 557,056 bytes in the 16 parts that bounded loops ask for
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 128, 1, 64}, random);
    problem.key = normal_tensor(VKATTN_TYPE_Q8_0, {1, 1, 4096, 64}, random);
    problem.value = first_columns(problem.key, 64);
    problem.value_in_key = true;
    const AttentionReference reference = reference_attention(problem);
    const LimitedDevice device("max_storage_buffer_range=300000");
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {1, 128, 1, 64});
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    const vkattn::Plan plan = device.context().attention_plan(desc);
    CHECK(std::string(plan.report().reason).find("parts, for tensors above") == std::string::npos);
    const Comparison comparison = compare("output", results.output.shape(), reference.output,
                                          device.run(problem, desc, results.output), nmse_bound({VKATTN_TYPE_Q8_0}));
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

TEST_CASE_FIXTURE(DeviceTest, "a layer whose weights are above the storage buffer range decodes the same tokens") {
    const auto decoded = [](const char *traits) {
        const LimitedDevice device(traits);
        const vkattn::Layer layer =
            small_layer(device.context()); // whose weights take 4096 bytes, those of a head 2048
        SmallDecoder decoder(device.context(), layer, 8);
        std::vector<std::vector<std::uint32_t>> steps;
        for (std::uint8_t i = 0; i < 3; ++i) {
            std::mt19937 random(i);
            steps.push_back(decoder.step(normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth}, random).bytes()));
        }
        return steps;
    };
    CHECK(decoded("max_storage_buffer_range=3000,self_test=0") == decoded("self_test=0"));
}

TEST_CASE_FIXTURE(DeviceTest, "work above what a dispatch may do is shared by several, with the same answer") {
    std::mt19937 random(102);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {2, 4, 150, 16}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {2, 2, 700, 16}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {2, 2, 700, 16}, random);
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    const AttentionReference reference = reference_attention(problem);
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {2, 4, 150, 16});
    const std::string tiles = "scalar_address_loads=0,max_dispatch_megaflops=";
    // 54 million operations in all, in 5 tiles of rows
    for (const auto &work : {std::pair{"20", 3u}, std::pair{"1", 5u}}) {
        const std::string megaflops = work.first;
        const unsigned fewest = work.second;
        const LimitedDevice limited((tiles + megaflops).c_str());
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            INFO(megaflops, ", ", kernel_text(kernel));
            const vkattn_attention_desc desc = describe(problem, results, kernel);
            CHECK(limited.context().attention_plan(desc).report().dispatches >= fewest);
            const Comparison comparison =
                compare("output", results.output.shape(), reference.output, limited.run(problem, desc, results.output),
                        nmse_bound({VKATTN_TYPE_F32}));
            CHECK_MESSAGE(comparison.passed, comparison.report);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a problem that would take too many dispatches is refused at once") { // found by fuzzing
    const LimitedDevice limited("max_storage_buffer_range=1000000");
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1u << 28, 1, 1, 64});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1u << 28, 1, 1, 64}, {0, 64, 64, 1});
    std::string message;
    try {
        limited.context().attention_plan(desc);
    } catch (const vkattn::Error &error) {
        message = error.what();
    }
    CHECK(message.find("268435456 parts are too many, expected at most 4096") != std::string::npos);
}

TEST_CASE("of elements that 32 bits do not count parts are made, though their bytes could be bound") {
    vkattn::DeviceCaps caps{};
    caps.max_storage_buffer_range = 0xffffffffu;
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 1, 1, 64});
    const std::uint64_t keys = 1u << 25, rows = keys * 64; // 2^31 elements a batch entry, 18 bytes for 32 of them
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_Q4_0, {2, 1, keys, 64});
    CHECK(vkattn::split_to_bind(vkattn::check_attention(desc), caps).size() == 1);
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_Q4_0, {2, 1, keys, 64}, {rows + 32, rows, 64, 1});
    CHECK(vkattn::split_to_bind(vkattn::check_attention(desc), caps).size() == 2);
    desc.query.shape[0] = desc.output.shape[0] = 1;
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_Q4_0, {1, 1, keys, 64}, {0, 0, 192, 1});
    CHECK_THROWS_WITH(vkattn::require_bindable(caps, desc.key, "key"),
                      "key: 6442450816 elements, expected at most 2^32");
}

TEST_SUITE_END();
