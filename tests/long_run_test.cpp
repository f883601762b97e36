// The same again and again: no memory is lost, and the last answer has the bits of the first. VKATTN_LONG_RUN multiplies the
// rounds: 500 makes a million calls, 20 a hundred thousand steps, 50 a thousand contexts.
#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

using namespace vkattn_test;

namespace {

std::uint64_t rounds(std::uint64_t count) {
    const char *text = std::getenv("VKATTN_LONG_RUN");
    return count * (text != nullptr ? std::max(1ull, std::strtoull(text, nullptr, 10)) : 1);
}

// Bytes in memory; 0 where the system does not tell.
std::uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0, resident = 0;
    file >> pages >> resident;
    return resident * 4096;
}

// Runs a round again and again; the memory after the last fifth must be that after the first.
template <class Round>
void repeat(const char *what, std::uint64_t count, std::uint64_t allowed_bytes, Round &&round) {
    std::uint64_t early = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        round(i);
        if (i == count / 5) early = resident_bytes();
    }
    const std::uint64_t late = resident_bytes();
    const std::uint64_t grown = late > early ? late - early : 0;
    MESSAGE(std::string(what) << ": " << count << " rounds, memory grew by " << grown / 1024 << " KiB");
    CHECK(grown <= allowed_bytes);
}

constexpr std::uint64_t kAllowed = 4 << 20;

vkattn_attention_desc small_problem(std::uint64_t q_len, std::uint64_t kv_len) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, q_len, 16});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, kv_len, 16});
    return desc;
}

struct Buffers {
    explicit Buffers(const vkattn::Context &context)
        : query(context.buffer(4096)), key(context.buffer(65536)), output(context.buffer(4096)) {
        std::mt19937 random(7);
        query.write(normal_tensor(VKATTN_TYPE_F32, {1024}, random).bytes());
        key.write(normal_tensor(VKATTN_TYPE_F32, {16384}, random).bytes());
    }
    std::vector<std::uint32_t> run(const vkattn::Plan &plan, std::uint64_t q_len) {
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, key),
                  vkattn::bind(VKATTN_ROLE_VALUE, key), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
        std::vector<std::uint32_t> bits(2 * q_len * 16);
        output.read(bits);
        return bits;
    }
    vkattn::Buffer query, key, output;
};

} // namespace

TEST_SUITE_BEGIN("long_run");

TEST_CASE("calls planned, run and forgotten") {
    const vkattn::Context context(device_selector());
    Buffers buffers(context);
    std::vector<std::vector<std::uint32_t>> first(4);
    repeat("calls", rounds(2000), kAllowed, [&](std::uint64_t i) {
        const std::uint64_t kind = i % first.size(), q_len = kind < 2 ? 1 : 5;
        const vkattn::Plan plan = context.attention_plan(small_problem(q_len, kind % 2 == 0 ? 40 : 500));
        const std::vector<std::uint32_t> bits = buffers.run(plan, q_len);
        if (first[kind].empty()) first[kind] = bits;
        REQUIRE(bits == first[kind]);
    });
}

TEST_CASE("decode steps, with a cache that is filled and rewound") {
    constexpr std::uint64_t kWidth = 32, kCapacity = 48;
    const vkattn::Context context(device_selector());
    std::mt19937 random(8);
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kWidth;
    config.num_heads = 2;
    config.rope_theta = 10000.0f;
    std::vector<HostTensor> tensors;
    for (int i = 0; i < 4; ++i) tensors.push_back(normal_tensor(VKATTN_TYPE_F32, {kWidth, kWidth}, random, 0.2f));
    std::vector<vkattn_weight> weights;
    const char *names[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};
    for (std::size_t i = 0; i < 4; ++i) weights.push_back({names[i], tensors[i].view(), tensors[i].bytes().data()});
    const vkattn::Layer layer = context.layer(config, weights);
    vkattn_cache_info info{};
    info.layer = layer.get();
    info.batch = 1;
    info.capacity = kCapacity;
    info.key_type = info.value_type = VKATTN_TYPE_F16;
    const vkattn::Cache cache = context.cache(info);
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kWidth});
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache.get();
    const vkattn::Plan plan = layer.plan(call);
    Buffers buffers(context);
    std::vector<std::vector<std::uint32_t>> first(kCapacity);
    repeat("steps", rounds(5000), kAllowed, [&](std::uint64_t i) {
        const std::uint64_t position = i % kCapacity;
        if (position == 0) cache.rewind(0, 0);
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, buffers.query), vkattn::bind(VKATTN_ROLE_OUTPUT, buffers.output)});
        std::vector<std::uint32_t> bits(kWidth);
        buffers.output.read(bits);
        if (first[position].empty()) first[position] = bits;
        REQUIRE(bits == first[position]);
    });
}

TEST_CASE("contexts made and destroyed") {
    // what the driver keeps is its own: lavapipe's compiler keeps some tens of KiB a device
    const std::uint64_t count = rounds(20);
    repeat("contexts", count, kAllowed + count * 128 * 1024, [&](std::uint64_t) {
        const vkattn::Context context(device_selector());
        Buffers buffers(context);
        buffers.run(context.attention_plan(small_problem(5, 40)), 5);
    });
}

TEST_SUITE_END();
