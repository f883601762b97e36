// The same again and again: no memory is lost, and the last answer has the bits of the first. VKATTN_LONG_RUN
// multiplies the rounds: 500 makes a million calls, 20 a hundred thousand steps, 50 a thousand contexts.
#include "skips.hpp"
#include "small_decoder.hpp"

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
    if (late == 0) skip("the system does not tell the memory in use");
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
    const vkattn::Context context(ContextRequest().info);
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
    constexpr std::uint32_t kCapacity = 48;
    const vkattn::Context context(ContextRequest().info);
    const vkattn::Layer layer = small_layer(context);
    SmallDecoder decoder(context, layer, kCapacity);
    std::mt19937 random(7);
    const HostTensor token = normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth}, random);
    std::vector<std::vector<std::uint32_t>> first(kCapacity);
    repeat("steps", rounds(5000), kAllowed, [&](std::uint64_t i) {
        const std::uint64_t position = i % kCapacity;
        if (position == 0) decoder.rewind();
        const std::vector<std::uint32_t> bits = decoder.step(token.bytes());
        if (first[position].empty()) first[position] = bits;
        REQUIRE(bits == first[position]);
    });
}

TEST_CASE("contexts made and destroyed") {
    // what the driver keeps is its own: lavapipe's compiler keeps some tens of KiB a device
    const std::uint64_t count = rounds(20);
    repeat("contexts", count, kAllowed + count * 128 * 1024, [&](std::uint64_t) {
        const vkattn::Context context(ContextRequest().info);
        Buffers buffers(context);
        buffers.run(context.attention_plan(small_problem(5, 40)), 5);
    });
}

TEST_SUITE_END();
