// rotary_embedding against float64: both pairings, part of a row, every type, pasts, given positions and their sections, packed rows,
// scalings, and its inverse.
#include "compare.hpp"
#include "device.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

struct Call {
    HostTensor input, output, positions, past_lengths, cu_seqlens;
    vkattn_rotary_embedding_desc desc{}; // numbers alone
};

// [2,heads,len,dims] with gaps behind rows and heads.
Call drawn_call(vkattn_type type, std::uint64_t heads, std::uint64_t len, std::uint64_t dims, std::mt19937 &random) {
    Call call;
    const std::uint64_t row = dims + 3, head = len * row + 1;
    call.input = normal_tensor(type, {2, heads, len, dims}, {heads * head, head, row, 1}, random);
    call.output =
        HostTensor(type, {2, heads, len, dims}, {len * heads * (dims + 1), dims + 1, heads * (dims + 1), 1}, 1);
    call.desc.rope_theta = 10000.0f;
    return call;
}

HostTensor words(const Shape &shape, const std::vector<int> &values) {
    HostTensor tensor(VKATTN_TYPE_I32, shape);
    for (std::uint64_t i = 0; i < values.size(); ++i) tensor.set(i, static_cast<float>(values[i]));
    return tensor;
}

vkattn_rotary_embedding_desc described(const Call &call) {
    vkattn_rotary_embedding_desc desc = call.desc;
    desc.input = call.input.view();
    desc.output = call.output.view();
    desc.positions = call.positions.view();
    desc.past_lengths = call.past_lengths.view();
    desc.cu_seqlens = call.cu_seqlens.view();
    return desc;
}

std::uint64_t dims_of(const Call &call) {
    return call.desc.rotary_dim != 0 ? call.desc.rotary_dim : call.input.shape()[3];
}

// Radians a position.
double frequency_of(const Call &call, std::uint64_t pair) {
    const vkattn_rope_scaling &scaling = call.desc.rope_scaling;
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(dims_of(call));
    const double plain = std::pow(static_cast<double>(call.desc.rope_theta), exponent);
    if (scaling.kind == VKATTN_ROPE_LINEAR) return plain / static_cast<double>(scaling.factor);
    if (scaling.kind == VKATTN_ROPE_LONGROPE) return plain / static_cast<double>(scaling.factors[pair]);
    return plain;
}

double factor_of(const Call &call) {
    const bool is_longrope = call.desc.rope_scaling.kind == VKATTN_ROPE_LONGROPE;
    return is_longrope ? static_cast<double>(call.desc.rope_scaling.attention_factor) : 1.0;
}

// Of the first pairs stream 0, and so on.
std::uint64_t stream_of(const Call &call, std::uint64_t pair) {
    std::uint64_t end = 0;
    for (std::uint64_t stream = 0; stream < VKATTN_ROPE_SECTIONS; ++stream)
        if (pair < (end += call.desc.rope_sections[stream])) return stream;
    return 0;
}

// Where row l of entry b stands; below 0: of no sequence.
double position_of(const Call &call, std::uint64_t b, std::uint64_t l, std::uint64_t stream) {
    const Shape &shape = call.input.shape();
    std::uint64_t sequence = b, first = 0;
    if (call.cu_seqlens.present()) {
        const std::vector<double> begins = call.cu_seqlens.values();
        sequence = begins.size();
        for (std::uint64_t s = 0; s + 1 < begins.size(); ++s)
            if (static_cast<double>(l) >= begins[s] && static_cast<double>(l) < begins[s + 1]) {
                sequence = s;
                first = static_cast<std::uint64_t>(begins[s]);
            }
        if (sequence == begins.size()) return -1;
    }
    if (call.positions.present())
        return std::max(static_cast<double>(call.positions.get((stream * shape[0] + b) * shape[2] + l)), 0.0);
    const double past = call.past_lengths.present() ? static_cast<double>(call.past_lengths.get(sequence))
                                                    : static_cast<double>(call.desc.past_len);
    return past + static_cast<double>(l - first);
}

void turn(const Call &call, double *row, std::uint64_t b, std::uint64_t l) {
    const std::uint64_t dims = dims_of(call);
    for (std::uint64_t pair = 0; pair < dims / 2; ++pair) {
        double angle = position_of(call, b, l, stream_of(call, pair)) * frequency_of(call, pair);
        if (call.desc.inverse != 0) angle = -angle;
        double &x = row[call.desc.rope_interleaved != 0 ? 2 * pair : pair];
        double &y = row[call.desc.rope_interleaved != 0 ? 2 * pair + 1 : pair + dims / 2];
        const double turned = x * std::cos(angle) - y * std::sin(angle);
        y = factor_of(call) * (x * std::sin(angle) + y * std::cos(angle));
        x = factor_of(call) * turned;
    }
}

std::string try_call(Call &call) {
    const Shape &shape = call.input.shape();
    std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &call.input, Access::kRead},
                                   {VKATTN_ROLE_OUTPUT, &call.output, Access::kWrite}};
    if (call.positions.present()) regions.push_back({VKATTN_ROLE_POSITIONS, &call.positions, Access::kRead});
    if (call.past_lengths.present()) regions.push_back({VKATTN_ROLE_PAST_LENGTHS, &call.past_lengths, Access::kRead});
    if (call.cu_seqlens.present()) regions.push_back({VKATTN_ROLE_CU_SEQLENS_Q, &call.cu_seqlens, Access::kRead});
    std::string wrong = test_device().try_run(test_device().context().rotary_embedding_plan(described(call)), regions);
    std::vector<double> expected = call.input.values();
    std::vector<float> made = call.output.floats();
    for (std::uint64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
        const std::uint64_t b = row / (shape[1] * shape[2]), l = row % shape[2];
        const bool is_lone = position_of(call, b, l, 0) < 0;
        if (!is_lone) turn(call, &expected[row * shape[3]], b, l);
        for (std::uint64_t i = row * shape[3]; is_lone && i < (row + 1) * shape[3]; ++i) {
            if (!std::isnan(made[i])) wrong += "a row of no sequence was written\n"; // poison is no number
            expected[i] = made[i] = 0;
        }
    }
    if (expected.empty()) return wrong;
    const Comparison result =
        compare("output", shape, expected, made, nmse_bound({call.input.type(), call.output.type()}));
    return result.passed ? wrong : wrong + result.report;
}

} // namespace

TEST_SUITE_BEGIN("operators");

TEST_CASE_FIXTURE(DeviceTest,
                  "rotary_embedding in every type, of both pairings, of whole rows and of parts, and its inverse") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const std::uint32_t interleaved : {0u, 1u})
            for (const std::uint32_t inverse : {0u, 1u})
                for (const auto &sizes : {std::pair(2, 0), std::pair(64, 0), std::pair(66, 0), std::pair(128, 32),
                                          std::pair(37, 10), std::pair(256, 0)}) {
                    const auto dims = static_cast<std::uint64_t>(sizes.first);
                    const auto rotary = static_cast<std::uint32_t>(sizes.second);
                    INFO(type_name(type), ", interleaved ", interleaved, ", inverse ", inverse, ", ", dims, " ",
                         rotary);
                    Call call = drawn_call(type, 3, 11, dims, random);
                    call.desc.rotary_dim = rotary;
                    call.desc.rope_interleaved = interleaved;
                    call.desc.inverse = inverse;
                    call.desc.past_len = 1000;
                    CHECK(try_call(call) == "");
                }
}

TEST_CASE_FIXTURE(DeviceTest, "rotary_embedding of input and output of different types") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type from : kFloats)
        for (const vkattn_type to : kFloats) {
            Call call = drawn_call(from, 2, 5, 24, random);
            call.output = HostTensor(to, {2, 2, 5, 24});
            CHECK(try_call(call) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "rotary_embedding by pasts, by positions, by their sections") {
    std::mt19937 random(std::random_device{}());
    Call by_lengths = drawn_call(VKATTN_TYPE_F32, 2, 7, 32, random);
    by_lengths.past_lengths = words({2}, {5, 100000});
    CHECK(try_call(by_lengths) == "");
    std::uniform_int_distribution<int> drawn(-3, 50000);
    for (const std::uint64_t streams : {1u, 3u})
        for (const std::uint32_t interleaved : {0u, 1u}) {
            Call call = drawn_call(VKATTN_TYPE_F32, 2, 7, 32, random);
            std::vector<int> values(streams * 14);
            for (int &value : values) value = drawn(random);
            call.positions = words({streams, 2, 7}, values);
            call.desc.rope_interleaved = interleaved;
            if (streams == 3) {
                call.desc.rope_sections[0] = 4;
                call.desc.rope_sections[1] = 7;
                call.desc.rope_sections[2] = 5;
            }
            CHECK(try_call(call) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "rotary_embedding of packed rows") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const bool with_past : {false, true}) {
            Call call;
            call.input = normal_tensor(type, {1, 3, 40, 48}, random);
            call.output = HostTensor(type, {1, 3, 40, 48});
            call.desc.rope_theta = 500000.0f;
            call.cu_seqlens = words({5}, {0, 7, 7, 30, 37}); // the last rows are of no sequence
            if (with_past) call.past_lengths = words({4}, {3, 9, 0, 70});
            CHECK(try_call(call) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "rotary_embedding with scalings, and turned back") {
    std::mt19937 random(std::random_device{}());
    std::vector<float> factors(16);
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0f + static_cast<float>(i) / 4;
    for (const std::uint32_t inverse : {0u, 1u}) {
        Call call = drawn_call(VKATTN_TYPE_F32, 2, 9, 32, random);
        call.desc.inverse = inverse;
        call.desc.rope_scaling.kind = VKATTN_ROPE_LINEAR;
        call.desc.rope_scaling.factor = 4.0f;
        CHECK(try_call(call) == "");
        call.desc.rope_scaling.kind = VKATTN_ROPE_LONGROPE;
        call.desc.rope_scaling.original_max_position = 4096;
        call.desc.rope_scaling.attention_factor = 1.25f;
        call.desc.rope_scaling.factors = factors.data();
        call.desc.rope_scaling.factor_count = 16;
        CHECK(try_call(call) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "rotary_embedding without rows") {
    std::mt19937 random(1);
    for (const Shape &shape : {Shape{0, 2, 5, 8}, Shape{2, 0, 5, 8}, Shape{2, 2, 0, 8}}) {
        Call call;
        call.input = HostTensor(VKATTN_TYPE_F32, shape);
        call.output = HostTensor(VKATTN_TYPE_F32, shape);
        call.desc.rope_theta = 10000.0f;
        CHECK(try_call(call) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what rotary_embedding refuses") {
    std::mt19937 random(1);
    const Call good = drawn_call(VKATTN_TYPE_F32, 2, 5, 24, random);
    const auto refused = [&](const std::function<void(vkattn_rotary_embedding_desc &)> &spoil) {
        vkattn_rotary_embedding_desc desc = described(good);
        spoil(desc);
        return message_of([&] { test_device().context().rotary_embedding_plan(desc); });
    };
    CHECK(refused([](auto &d) { d.rope_theta = 0; }) == "rope_theta: 0, expected a finite number above 0");
    CHECK(refused([](auto &d) { d.rotary_dim = 26; }) ==
          "rotary_dim: 26, expected an even number up to the row's size, 24");
    CHECK(refused([](auto &d) { d.rotary_dim = 7; }) ==
          "rotary_dim: 7, expected an even number up to the row's size, 24");
    CHECK(refused([](auto &d) {
              for (vkattn_tensor *tensor : {&d.input, &d.output})
                  *tensor = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 1, 70000});
          }) == "rotary_dim: 70000, expected at most 65536");
    CHECK(refused([](auto &d) { d.rope_interleaved = 2; }) == "rope_interleaved: 2, expected 0 or 1");
    CHECK(refused([](auto &d) { d.inverse = 3; }) == "inverse: 3, expected 0 or 1");
    CHECK(refused([](auto &d) {
              d.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 5, 23});
          }) == "output: shape [2,2,5,23], expected [2,2,5,24]");
    CHECK(refused([](auto &d) {
              d.input = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 5, 24}, {480, 240, 48, 2});
          }) == "input: shape [2,2,5,24], expected [B,H,L,D] with D at least 1, last stride 1");
    CHECK(refused([](auto &d) {
              d.positions = vkattn::tensor(VKATTN_TYPE_I32, {2, 2, 5});
          }) == "positions: shape [2,2,5], expected [1,2,5]");
    CHECK(refused([](auto &d) { d.rope_sections[0] = d.rope_sections[1] = 6; }) ==
          "positions: absent, expected [2,2,5] with rope_sections");
    CHECK(refused([](auto &d) { d.past_len = 1u << 30; }) == "past_len: 1073741824, expected at most 2^29");
    CHECK(refused([](auto &d) { d.max_seqlen = 3; }) == "max_seqlen: 3 without cu_seqlens, expected 0");
    CHECK(refused([](auto &d) { d.rope_scaling.kind = static_cast<vkattn_rope_scaling_kind>(9); }) ==
          "rope_scaling: kind 9, expected a vkattn_rope_scaling_kind");
}

TEST_SUITE_END();
