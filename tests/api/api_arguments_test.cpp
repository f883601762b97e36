// Every argument of an attention description that breaks its contract gets its named error.
#include "device.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace vkattn_test;

namespace {

vkattn_attention_desc valid_desc() {
    vkattn_attention_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 8});
    desc.key = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 7, 8});
    desc.value = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 7, 6});
    desc.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 6});
    return desc;
}

struct Wrong {
    const char *what;
    const char *named; // must be in the message
    std::function<void(vkattn_attention_desc &)> make;
};

void check_wrong(const Wrong &wrong) {
    INFO(std::string(wrong.what));
    vkattn_attention_desc desc = valid_desc();
    wrong.make(desc);
    auto *plan = reinterpret_cast<vkattn_plan>(&desc);
    const vkattn_result result = vkattn_attention_plan(test_device().context().get(), &desc, &plan);
    CHECK(result == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(plan == nullptr);
    if (result == VKATTN_SUCCESS) vkattn_plan_destroy(plan);
    const std::string message = vkattn_last_error();
    CAPTURE(message);
    CHECK(message.find(wrong.named) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
}

void check_all(std::span<const Wrong> list) {
    for (const Wrong &wrong : list) check_wrong(wrong);
}

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

using Desc = vkattn_attention_desc;

} // namespace

TEST_SUITE_BEGIN("api.arguments");

TEST_CASE_FIXTURE(DeviceTest, "the description that the wrong ones differ from is right") {
    const vkattn::Plan plan = test_device().context().attention_plan(valid_desc());
    CHECK(plan.report().dispatches > 0);
    CHECK(std::string(plan.report().kernel_name) == vkattn_kernel_name(plan.report().kernel));
    CHECK(std::string(plan.report().reason) != "");
}

TEST_CASE_FIXTURE(DeviceTest, "required tensors that are absent") {
    const Wrong list[] = {{"no query", "query", [](Desc &d) { d.query = {}; }},
                          {"no key", "key", [](Desc &d) { d.key = {}; }},
                          {"no value, and no place for it in the keys", "value",
                           [](Desc &d) {
                               d.value = {};
                               d.output.shape[3] = 99;
                           }},
                          {"no output", "output", [](Desc &d) { d.output = {}; }},
                          {"nothing at all", "query", [](Desc &d) { d = {}; }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "ranks") {
    const Wrong list[] = {
        {"query of rank 3", "query",
         [](Desc &d) {
             d.query = vkattn::tensor(VKATTN_TYPE_F32, {4, 5, 8});
         }},
        {"key of rank 0", "key", [](Desc &d) { d.key.rank = 0; }},
        {"value of rank 5", "value", [](Desc &d) { d.value.rank = 5; }},
        {"output of rank 2", "output",
         [](Desc &d) {
             d.output = vkattn::tensor(VKATTN_TYPE_F32, {4, 5});
         }},
        {"log_sum_exp of rank 2", "log_sum_exp",
         [](Desc &d) {
             d.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {8, 5});
         }},
        {"attn_mask of rank 1", "attn_mask", [](Desc &d) { d.attn_mask = vkattn::tensor(VKATTN_TYPE_F32, {7}); }},
        {"key_lengths of rank 2", "key_lengths", [](Desc &d) {
             d.key_lengths = vkattn::tensor(VKATTN_TYPE_I32, {2, 1});
         }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "a size of zero in one tensor alone") {
    // the tensor that then differs is named; head sizes are never 0
    constexpr const char *kOfQuery[] = {"key", "output", "output", "query"};
    constexpr const char *kOfKey[] = {"key", "value", "value", "key"};
    for (std::size_t dimension = 0; dimension < 4; ++dimension) {
        CAPTURE(dimension);
        const Wrong list[] = {{"query", kOfQuery[dimension], [&](Desc &d) { d.query.shape[dimension] = 0; }},
                              {"key", kOfKey[dimension], [&](Desc &d) { d.key.shape[dimension] = 0; }},
                              {"value", "value", [&](Desc &d) { d.value.shape[dimension] = 0; }},
                              {"output", "output", [&](Desc &d) { d.output.shape[dimension] = 0; }}};
        check_all(list);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "shapes that do not fit together") {
    const Wrong list[] = {
        {"query heads no multiple of KV heads", "key", [](Desc &d) { d.key.shape[1] = d.value.shape[1] = 3; }},
        {"more KV heads than query heads", "key", [](Desc &d) { d.key.shape[1] = d.value.shape[1] = 8; }},
        {"key of another batch", "key", [](Desc &d) { d.key.shape[0] = 3; }},
        {"key of another head size", "key", [](Desc &d) { d.key.shape[3] = 9; }},
        {"value of another batch", "value", [](Desc &d) { d.value.shape[0] = 1; }},
        {"value of other heads", "value", [](Desc &d) { d.value.shape[1] = 4; }},
        {"value of another length", "value", [](Desc &d) { d.value.shape[2] = 8; }},
        {"output of another batch", "output", [](Desc &d) { d.output.shape[0] = 1; }},
        {"output of other heads", "output", [](Desc &d) { d.output.shape[1] = 2; }},
        {"output of another length", "output", [](Desc &d) { d.output.shape[2] = 7; }},
        {"output of another head size", "output", [](Desc &d) { d.output.shape[3] = 8; }},
        {"head size over 576", "query", [](Desc &d) { d.query.shape[3] = d.key.shape[3] = 577; }},
        {"value head size over 576", "value", [](Desc &d) { d.value.shape[3] = d.output.shape[3] = 577; }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "shapes of the other tensors") {
    const auto f32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_F32, shape); };
    const auto i32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_I32, shape); };
    const Wrong list[] = {{"log_sum_exp", "log_sum_exp",
                           [&](Desc &d) {
                               d.log_sum_exp = f32({2, 4, 6});
                           }},
                          {"attn_weights", "attn_weights",
                           [&](Desc &d) {
                               d.attn_weights = f32({2, 4, 5, 8});
                           }},
                          {"qk_matmul_output", "qk_matmul_output",
                           [&](Desc &d) {
                               d.qk_matmul_output = f32({2, 2, 5, 7});
                           }},
                          {"key_lengths", "key_lengths", [&](Desc &d) { d.key_lengths = i32({3}); }},
                          {"past_lengths", "past_lengths", [&](Desc &d) { d.past_lengths = i32({1}); }},
                          {"alibi_slopes", "alibi_slopes", [&](Desc &d) { d.alibi_slopes = f32({2}); }},
                          {"sinks", "sinks", [&](Desc &d) { d.sinks = f32({5}); }},
                          {"key_padding_mask", "key_padding_mask",
                           [](Desc &d) {
                               d.key_padding_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {2, 6});
                           }},
                          {"key_padding_mask for all sequences", "key_padding_mask", [](Desc &d) {
                               d.key_padding_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {1, 7});
                           }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "masks that do not broadcast") {
    const auto mask = [](std::initializer_list<std::uint64_t> shape) {
        return
            [shape = std::vector(shape)](Desc &d) { d.attn_mask = vkattn::tensor(VKATTN_TYPE_F32, std::span(shape)); };
    };
    const Wrong list[] = {{"query length", "attn_mask", mask({4, 7})},
                          {"longer than the keys", "attn_mask", mask({5, 8})},
                          {"batch", "attn_mask", mask({3, 5, 7})},
                          {"heads where rank 3 has the batch", "attn_mask", mask({4, 5, 7})},
                          {"heads", "attn_mask", mask({2, 3, 5, 7})},
                          {"batch of rank 4", "attn_mask", mask({4, 4, 5, 7})},
                          {"query length of rank 4", "attn_mask", mask({2, 4, 7, 7})}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "block masks") {
    const auto blocks = [](std::initializer_list<std::uint64_t> shape, vkattn_type type = VKATTN_TYPE_I32) {
        return [shape = std::vector(shape), type](Desc &d) {
            d.block_mask = vkattn::tensor(type, std::span(shape));
            d.block_q_len = 2;  // 3 blocks
            d.block_kv_len = 4; // 2 blocks
        };
    };
    const auto sizes = [&](std::uint32_t q_len, std::uint32_t kv_len) {
        return [=](Desc &d) {
            blocks({3, 2})(d);
            d.block_q_len = q_len;
            d.block_kv_len = kv_len;
        };
    };
    const Wrong list[] = {{"type", "block_mask", blocks({3, 2}, VKATTN_TYPE_BOOL)},
                          {"rank", "block_mask", blocks({2})},
                          {"blocks of queries", "block_mask", blocks({2, 2})},
                          {"fewer blocks of keys", "block_mask", blocks({3, 1})},
                          {"more blocks of keys", "block_mask", blocks({3, 3})},
                          {"heads", "block_mask", blocks({2, 2, 3, 2})},
                          {"no queries a block", "block_q_len", sizes(0, 4)},
                          {"no keys a block", "block_kv_len", sizes(2, 0)},
                          {"another number of keys a block", "block_mask", sizes(2, 3)}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "strides") {
    const Wrong list[] = {{"mask whose last stride is not 1", "attn_mask",
                           [](Desc &d) {
                               d.attn_mask = vkattn::tensor(VKATTN_TYPE_F32, {5, 7}, {14, 2});
                           }},
                          {"output broadcast", "output",
                           [](Desc &d) {
                               d.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 6}, {0, 30, 6, 1});
                           }},
                          {"log_sum_exp not contiguous", "log_sum_exp",
                           [](Desc &d) {
                               d.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5}, {24, 6, 1});
                           }},
                          {"attn_weights not contiguous", "attn_weights",
                           [](Desc &d) {
                               d.attn_weights = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 7}, {160, 40, 8, 1});
                           }},
                          {"qk_matmul_output not contiguous", "qk_matmul_output", [](Desc &d) {
                               d.qk_matmul_output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 7}, {160, 40, 8, 1});
                           }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "types") {
    const auto tensor = [](vkattn_type type, std::initializer_list<std::uint64_t> shape) {
        return vkattn::tensor(type, shape);
    };
    const Wrong list[] = {
        {"query", "query", [](Desc &d) { d.query.type = VKATTN_TYPE_I32; }},
        {"key", "key", [](Desc &d) { d.key.type = VKATTN_TYPE_BOOL; }},
        {"value", "value", [](Desc &d) { d.value.type = static_cast<vkattn_type>(77); }},
        {"output", "output", [](Desc &d) { d.output.type = VKATTN_TYPE_I32; }},
        {"log_sum_exp", "log_sum_exp",
         [&](Desc &d) {
             d.log_sum_exp = tensor(VKATTN_TYPE_F16, {2, 4, 5});
         }},
        {"attn_mask i32", "attn_mask",
         [&](Desc &d) {
             d.attn_mask = tensor(VKATTN_TYPE_I32, {5, 7});
         }},
        {"attn_mask bf16", "attn_mask",
         [&](Desc &d) {
             d.attn_mask = tensor(VKATTN_TYPE_BF16, {5, 7});
         }},
        {"padding", "key_padding_mask",
         [&](Desc &d) {
             d.key_padding_mask = tensor(VKATTN_TYPE_F32, {2, 7});
         }},
        {"key_lengths", "key_lengths", [&](Desc &d) { d.key_lengths = tensor(VKATTN_TYPE_F32, {2}); }},
        {"past_lengths", "past_lengths", [&](Desc &d) { d.past_lengths = tensor(VKATTN_TYPE_BOOL, {2}); }},
        {"alibi_slopes", "alibi_slopes", [&](Desc &d) { d.alibi_slopes = tensor(VKATTN_TYPE_F16, {4}); }},
        {"sinks", "sinks", [&](Desc &d) { d.sinks = tensor(VKATTN_TYPE_BF16, {4}); }},
        {"attn_weights", "attn_weights",
         [&](Desc &d) {
             d.attn_weights = tensor(VKATTN_TYPE_F16, {2, 4, 5, 7});
         }},
        {"qk_matmul_output", "qk_matmul_output", [&](Desc &d) {
             d.qk_matmul_output = tensor(VKATTN_TYPE_BF16, {2, 4, 5, 7});
         }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "numbers and choices") {
    const Wrong list[] = {{"scale NaN", "scale", [](Desc &d) { d.scale = NAN; }},
                          {"scale infinite", "scale", [](Desc &d) { d.scale = HUGE_VALF; }},
                          {"softcap NaN", "softcap", [](Desc &d) { d.softcap = NAN; }},
                          {"softcap infinite", "softcap", [](Desc &d) { d.softcap = HUGE_VALF; }},
                          {"mask_flags", "mask_flags", [](Desc &d) { d.mask_flags = 16; }},
                          {"query_rounding", "query_rounding", [](Desc &d) { d.query_rounding = VKATTN_TYPE_Q8_0; }},
                          {"region_alignment", "region_alignment", [](Desc &d) { d.region_alignment = 2; }},
                          {"region_alignment of rotated keys", "region_alignment",
                           [](Desc &d) {
                               d.region_alignment = 8;
                               d.key_rotation = VKATTN_ROTATION_HADAMARD;
                           }},
                          {"captured_numbers", "captured_numbers", [](Desc &d) { d.captured_numbers[3] = 1.0f; }},
                          {"a mask times slopes without slopes", "mask_flags",
                           [](Desc &d) {
                               d.mask_flags = VKATTN_MASK_TIMES_SLOPES;
                               d.attn_mask = vkattn::tensor(VKATTN_TYPE_F32, {5, 7});
                           }},
                          {"a boolean mask times slopes", "mask_flags",
                           [](Desc &d) {
                               d.mask_flags = VKATTN_MASK_TIMES_SLOPES;
                               d.attn_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {5, 7});
                               d.alibi_slopes = vkattn::tensor(VKATTN_TYPE_F32, {4});
                           }},
                          {"causal_alignment", "causal_alignment",
                           [](Desc &d) { d.causal_alignment = static_cast<vkattn_causal_alignment>(2); }},
                          {"kv_head_mapping", "kv_head_mapping",
                           [](Desc &d) { d.kv_head_mapping = static_cast<vkattn_kv_head_mapping>(2); }},
                          {"score_stage", "score_stage",
                           [](Desc &d) {
                               d.qk_matmul_output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 7});
                               d.score_stage = static_cast<vkattn_score_stage>(4);
                           }},
                          {"kernel", "kernel", [](Desc &d) { d.kernel = static_cast<vkattn_kernel>(99); }},
                          {"window_left", "window_left",
                           [](Desc &d) {
                               d.mask_flags = VKATTN_MASK_WINDOW;
                               d.window_left = -2;
                           }},
                          {"window_right", "window_right", [](Desc &d) {
                               d.mask_flags = VKATTN_MASK_WINDOW;
                               d.window_right = -7;
                           }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "sizes, strides and offsets whose product leaves 64 bits") {
    const Wrong list[] = {
        {"query and output", "query",
         [](Desc &d) {
             for (vkattn_tensor *t : {&d.query, &d.key, &d.value, &d.output}) t->shape[0] = kHuge;
             d.query.shape[2] = d.output.shape[2] = kHuge;
         }},
        {"key length", "key", [](Desc &d) { d.key.shape[2] = d.value.shape[2] = std::uint64_t{1} << 62; }},
        {"stride", "key",
         [](Desc &d) {
             d.key = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 7, 8}, {std::uint64_t{1} << 63, 56, 8, 1});
         }},
        {"offset", "value", [](Desc &d) { d.value.offset = ~std::uint64_t{0}; }}};
    check_all(list);
}

TEST_CASE_FIXTURE(DeviceTest, "weights and scores cannot be had from flash") {
    for (const bool weights : {true, false}) {
        vkattn_attention_desc desc = valid_desc();
        desc.kernel = VKATTN_KERNEL_FLASH;
        (weights ? desc.attn_weights : desc.qk_matmul_output) = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 5, 7});
        vkattn_plan plan = nullptr;
        CHECK(vkattn_attention_plan(test_device().context().get(), &desc, &plan) == VKATTN_ERROR_UNSUPPORTED);
        const std::string message = vkattn_last_error();
        CAPTURE(message);
        CHECK(message.find(weights ? "attn_weights" : "qk_matmul_output") != std::string::npos);
        CHECK(message.find("flash") != std::string::npos);
        vkattn_plan_destroy(plan);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "null pointers") {
    const vkattn_attention_desc desc = valid_desc();
    vkattn_plan plan = nullptr;
    CHECK(vkattn_attention_plan(nullptr, &desc, &plan) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("context") != std::string::npos);
    CHECK(vkattn_attention_plan(test_device().context().get(), nullptr, &plan) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("desc") != std::string::npos);
    CHECK(vkattn_attention_plan(test_device().context().get(), &desc, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("plan") != std::string::npos);
}

TEST_SUITE_END();
