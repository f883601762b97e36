// kv_append alone: every cache type to the bit, positions from the host and from the device, and what must stay as it
// was.
#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>

using namespace vkattn_test;

namespace {

const std::vector<vkattn_type> kCacheTypes = cached_types();

struct Sizes {
    std::uint64_t batch, heads, positions, head_dim, capacity;
};

// Writes one row of [B,H,capacity,D] as the reference rounds it.
void write_row(HostTensor &cache, std::uint64_t row, std::span<const float> values) {
    const std::uint64_t first = row * values.size();
    if (!is_quantised(cache.type())) {
        for (std::size_t i = 0; i < values.size(); ++i) cache.set(first + i, values[i]);
        return;
    }
    for (std::size_t i = 0; i < values.size(); i += kBlockElements)
        cache.set_block(first + i, std::span<const float, kBlockElements>(&values[i], kBlockElements));
}

void append_on_host(const HostTensor &source, const Sizes &s, std::span<const std::int32_t> past, HostTensor &cache) {
    const std::vector<float> values = source.floats();
    for (std::uint64_t plane = 0; plane < s.batch * s.heads; ++plane)
        for (std::uint64_t token = 0; token < s.positions; ++token) {
            const auto position = static_cast<std::uint64_t>(std::max(past[plane / s.heads], 0)) + token;
            if (position >= s.capacity) continue;
            write_row(cache, plane * s.capacity + position,
                      std::span(values).subspan((plane * s.positions + token) * s.head_dim, s.head_dim));
        }
}

void check_append(HostTensor source, const Sizes &s, HostTensor cache, std::span<const std::int32_t> past,
                  bool on_device) {
    std::ranges::fill(cache.bytes(), kGapByte); // rows that are not written must keep it
    HostTensor expected = cache;
    append_on_host(source, s, past, expected);
    HostTensor past_lengths(VKATTN_TYPE_I32, {s.batch});
    for (std::uint64_t b = 0; b < s.batch; ++b) past_lengths.set(b, static_cast<float>(past[b]));

    vkattn_kv_append_desc desc{};
    desc.source = source.view();
    desc.cache = cache.view();
    if (on_device)
        desc.past_lengths = past_lengths.view();
    else
        desc.offset = static_cast<std::uint32_t>(past[0]);
    std::vector<Region> regions = {{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                                   {VKATTN_ROLE_CACHE, &cache, Access::kReadWrite}};
    if (on_device) regions.push_back({VKATTN_ROLE_PAST_LENGTHS, &past_lengths, Access::kRead});
    test_device().run(test_device().context().kv_append_plan(desc), regions);
    CHECK(std::ranges::equal(cache.bytes(), expected.bytes()));
}

HostTensor cache_of(vkattn_type type, const Sizes &s) { return {type, {s.batch, s.heads, s.capacity, s.head_dim}}; }

} // namespace

TEST_SUITE_BEGIN("kv_append");

TEST_CASE_FIXTURE(DeviceTest, "every type of source into every type of cache, to the bit") {
    constexpr std::array<Sizes, 3> kSizes = {{{2, 3, 5, 64, 11}, {1, 1, 7, 32, 9}, {1, 2, 1, 96, 4}}}; // in turn
    std::mt19937 random(3);
    std::size_t number = 0;
    for (const vkattn_type from : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16})
        for (const vkattn_type to : kCacheTypes) {
            const Sizes &s = kSizes[number++ % kSizes.size()];
            CAPTURE(type_name(from));
            CAPTURE(type_name(to));
            CAPTURE(s.head_dim);
            const HostTensor source = normal_tensor(from, {s.batch, s.heads, s.positions, s.head_dim}, random);
            check_append(source, s, cache_of(to, s), std::vector<std::int32_t>(s.batch, 2), false);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "odd rows of 16-bit caches") {
    std::mt19937 random(4);
    const Sizes s{2, 3, 3, 7, 5};
    for (const vkattn_type to : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16})
        check_append(normal_tensor(VKATTN_TYPE_F32, {s.batch, s.heads, s.positions, s.head_dim}, random), s,
                     cache_of(to, s), std::vector<std::int32_t>(2, 1), false);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "positions read on the device, where they lie within the capacity and where they do not") {
    std::mt19937 random(5);
    const Sizes s{5, 2, 3, 64, 8};
    const std::vector<std::int32_t> past = {0, 6, 8, -3, 1 << 30};
    for (const vkattn_type to : kCacheTypes) {
        CAPTURE(type_name(to));
        check_append(normal_tensor(VKATTN_TYPE_F32, {s.batch, s.heads, s.positions, s.head_dim}, random), s,
                     cache_of(to, s), past, true);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "quantised blocks of zeros, ties, subnormal scales and negative extremes") {
    const Sizes s{1, 1, 8, 32, 8};
    HostTensor source(VKATTN_TYPE_F32, {1, 1, 8, 32});
    for (std::uint64_t i = 0; i < 32; ++i) {
        const float wave = std::sin(static_cast<float>(i));
        source.set(i, 0.0f);
        source.set(32 + i, i == 3 ? 2.0f : i == 5 ? -2.0f : wave);          // equal magnitudes, positive first
        source.set(64 + i, i == 3 ? -2.0f : i == 5 ? 2.0f : wave);          // negative first
        source.set(96 + i, std::ldexp(wave, -22));                          // the scale is a subnormal f16
        source.set(128 + i, static_cast<float>(static_cast<int>(i) - 127)); // whole and half steps
        source.set(160 + i, 1000.0f * wave - 2000.0f);
        source.set(192 + i,
                   std::ldexp(static_cast<float>(i) - 16.0f, -10)); // subnormal floats of 8 bits and their ties
        source.set(224 + i, std::ldexp(static_cast<float>(i) - 16.0f, -17));
    }
    for (const vkattn_type to : quantised_types()) {
        CAPTURE(type_name(to));
        check_append(source, s, cache_of(to, s), std::vector<std::int32_t>(1, 0), false);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "caches with strides and an offset of their own") {
    std::mt19937 random(6);
    const Sizes s{2, 2, 3, 32, 4};
    const HostTensor source = normal_tensor(VKATTN_TYPE_F32, {2, 2, 3, 32}, random);
    for (const vkattn_type to : kCacheTypes) {
        CAPTURE(type_name(to));
        // [B,capacity,H,D] with a block between heads
        check_append(source, s, HostTensor(to, {2, 2, 4, 32}, {4 * 2 * 64, 64, 2 * 64, 1}, 32),
                     std::vector<std::int32_t>(2, 1), false);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "wrong appends are named") {
    const vkattn::Context &context = test_device().context();
    const auto fails = [&](vkattn_kv_append_desc desc, const char *message) {
        std::string actual = "no error";
        try {
            context.kv_append_plan(desc);
        } catch (const vkattn::Error &error) {
            actual = error.what();
        }
        CHECK_MESSAGE(actual.find(message) != std::string::npos, actual);
    };
    vkattn_kv_append_desc desc{};
    desc.source = HostTensor(VKATTN_TYPE_F32, {1, 2, 3, 64}).view();
    desc.cache = HostTensor(VKATTN_TYPE_Q8_0, {1, 2, 8, 64}).view();
    fails({}, "source: absent");
    desc.offset = 6;
    fails(desc, "offset: 6 with 3 rows, expected at most the capacity of cache, 8");
    desc.offset = 0xffffffffu; // with 3 rows 2 in 32 bits
    fails(desc, "offset: 4294967295 with 3 rows, expected at most the capacity of cache, 8");
    desc.offset = 0;
    desc.source.shape[2] = (std::uint64_t{1} << 32) + 3;
    fails(desc, "source: shape [1,2,4294967299,64], expected sizes of at most 2^29");
    desc.source.shape[2] = 3;
    desc.cache.shape[3] = 48;
    fails(desc, "cache: type Q8_0, shape [1,2,8,48]: expected contiguous rows");
    desc.cache.shape[3] = 96;
    fails(desc, "cache: shape [1,2,8,96], expected 1 sequences, 2 heads and head size 64 as in source");
    desc.cache.shape[3] = 64;
    desc.source.type = VKATTN_TYPE_Q4_0;
    fails(desc, "source: type Q4_0, expected F32, F16 or BF16");
    desc.source.type = VKATTN_TYPE_F32;
    desc.past_lengths = HostTensor(VKATTN_TYPE_I32, {2}).view();
    fails(desc, "past_lengths: shape [2], expected [1]");
    desc.past_lengths = HostTensor(VKATTN_TYPE_F32, {1}).view();
    fails(desc, "past_lengths: type F32, expected I32");
    desc.past_lengths = {};
    desc.block_table = vkattn::tensor(VKATTN_TYPE_I32, {1, 1u << 29}); // of 8 positions: 0 in 32 bits
    fails(desc, "block_table: 4294967296 positions a sequence, expected at most 2^29");
}

TEST_CASE_FIXTURE(
    DeviceTest, "a NaN makes the scale of its quantised block NaN, if it has one, and leaves the other blocks alone") {
    std::mt19937 random(9);
    for (const vkattn_type type : quantised_types())
        for (const vkattn_type from : {VKATTN_TYPE_F32, VKATTN_TYPE_F16})
            for (const std::uint64_t at : {0, 17, 31}) {
                CAPTURE(type_name(type));
                CAPTURE(at);
                HostTensor source = normal_tensor(from, {1, 1, 2, 64}, random);
                const float signs[] = {NAN, -NAN};
                source.set(64 + 32 + at, signs[at % 2]); // the last of four blocks
                source.set(64 + 32 + (at + 1) % 32, HUGE_VALF);
                HostTensor cache(type, {1, 1, 2, 64});
                std::ranges::fill(cache.bytes(), kGapByte);
                vkattn_kv_append_desc desc{};
                desc.source = source.view();
                desc.cache = cache.view();
                const std::vector<Region> regions = {{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                                                     {VKATTN_ROLE_CACHE, &cache, Access::kReadWrite}};
                test_device().run(test_device().context().kv_append_plan(desc), regions);
                const bool has_scale = type != VKATTN_TYPE_F8_E4M3 && type != VKATTN_TYPE_F8_E5M2;
                for (std::uint64_t i = 0; i < 128; ++i)
                    CHECK(std::isnan(cache.get(i)) == (has_scale ? i >= 96 : i == 96 + at));
            }
}

TEST_CASE_FIXTURE(DeviceTest, "packed rows go where their sequences are, and those of none nowhere") {
    constexpr std::uint64_t kTotal = 23, kCapacity = 9, kDim = 64;
    const std::vector<std::int32_t> begins = {2, 2, 7, 8, 8, 19, 19}; // rows 0, 1 and 19 to 22 are of nobody
    const std::uint64_t batch = begins.size() - 1;
    std::mt19937 random(10);
    for (const std::uint32_t longest : {0u, 4u})
        for (const vkattn_type type : kCacheTypes) {
            CAPTURE(longest);
            CAPTURE(type_name(type));
            HostTensor source = normal_tensor(VKATTN_TYPE_F32, {1, 2, kTotal, kDim}, random);
            HostTensor cu_seqlens(VKATTN_TYPE_I32, {batch + 1}), past(VKATTN_TYPE_I32, {batch});
            for (std::uint64_t b = 0; b <= batch; ++b) cu_seqlens.set(b, static_cast<float>(begins[b]));
            for (std::uint64_t b = 0; b < batch; ++b) past.set(b, static_cast<float>(b));
            HostTensor cache(type, {batch, 2, kCapacity, kDim});
            std::ranges::fill(cache.bytes(), kGapByte);
            HostTensor expected = cache;
            for (std::uint64_t b = 0; b < batch; ++b)
                for (std::uint64_t h = 0; h < 2; ++h)
                    for (auto row = static_cast<std::uint64_t>(begins[b]), token = std::uint64_t{0};
                         row < static_cast<std::uint64_t>(begins[b + 1]); ++row, ++token) {
                        if ((longest != 0 && token >= longest) || b + token >= kCapacity) continue;
                        const std::vector<float> values = source.floats();
                        write_row(expected, (b * 2 + h) * kCapacity + b + token,
                                  std::span(values).subspan((h * kTotal + row) * kDim, kDim));
                    }
            vkattn_kv_append_desc desc{};
            desc.source = source.view();
            desc.cache = cache.view();
            desc.cu_seqlens = cu_seqlens.view();
            desc.past_lengths = past.view();
            desc.max_seqlen = longest;
            const std::vector<Region> regions = {{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                                                 {VKATTN_ROLE_CACHE, &cache, Access::kReadWrite},
                                                 {VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                                                 {VKATTN_ROLE_PAST_LENGTHS, &past, Access::kRead}};
            test_device().run(test_device().context().kv_append_plan(desc), regions);
            CHECK(std::ranges::equal(cache.bytes(), expected.bytes()));
        }
}

TEST_SUITE_END();
