// Lengths, block tables and boundaries of packed sequences that say anything: what lies around the tensors is neither
// written nor taken for a key or a value. Needs a device.
#include "tests/fuzz/expect.hpp"

#include <vkattn/vkattn.hpp>

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr std::uint64_t kSequences = 3, kHeads = 4, kKvHeads = 2, kSize = 16, kPage = 8, kPages = 3, kPool = 7;
constexpr std::uint64_t kRows = 20, kLongest = 9, kKeys = kPage * kPages; // of packed queries, of a sequence's keys
constexpr std::size_t kGuard = 256;
constexpr std::uint8_t kNothing = 0xff; // NaN, and -1

// A region between guards of NaN, in host memory and on the device.
class Region {
  public:
    Region(const vkattn::Context &context, vkattn_role role, std::size_t size)
        : role_(role), bytes_(size + 2 * kGuard, kNothing), buffer_(context.buffer(bytes_.size())) {}

    std::uint8_t *contents() { return bytes_.data() + kGuard; }
    std::size_t size() const { return bytes_.size() - 2 * kGuard; }
    float number(std::size_t i) const {
        float value = 0.0f;
        std::memcpy(&value, bytes_.data() + kGuard + 4 * i, sizeof value);
        return value;
    }
    vkattn_binding binding() const { return vkattn::bind(role_, buffer_, kGuard); }
    void poison() { std::fill_n(contents(), size(), kNothing); }
    void fill(std::mt19937 &random) {
        std::uniform_real_distribution<float> any(-1.0f, 1.0f);
        for (std::size_t i = 0; i < size() / 4; ++i) {
            const float value = any(random);
            std::memcpy(contents() + 4 * i, &value, sizeof value);
        }
    }
    void fill(FuzzedDataProvider &data) {
        for (std::size_t i = 0; i < size() / 4; ++i) {
            // mostly near what would be right
            const auto value = data.ConsumeBool() ? data.ConsumeIntegralInRange<std::int32_t>(-3, kKeys + 3)
                                                  : data.ConsumeIntegral<std::int32_t>();
            std::memcpy(contents() + 4 * i, &value, sizeof value);
        }
    }
    void upload() { buffer_.write(bytes_); }
    void download() {
        buffer_.read(bytes_);
        const auto is_guard = [](std::uint8_t byte) { return byte == kNothing; };
        expect(std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_guard), "nothing is written before a tensor");
        expect(std::all_of(bytes_.end() - kGuard, bytes_.end(), is_guard), "nothing is written after a tensor");
    }

  private:
    vkattn_role role_;
    std::vector<std::uint8_t> bytes_;
    vkattn::Buffer buffer_;
};

// A plan and its regions.
struct Target {
    vkattn::Plan plan;
    std::vector<Region> integers, inputs, outputs;
};

enum class Keys { kDense, kPacked, kPaged };

// queries: of a sequence, dense; 0: packed
Target attention(const vkattn::Context &context, Keys keys, std::uint64_t queries, vkattn_kernel kernel,
                 std::uint32_t mask) {
    const vkattn_type f32 = VKATTN_TYPE_F32, i32 = VKATTN_TYPE_I32;
    vkattn_attention_desc desc{};
    desc.query = desc.output = queries == 0 ? vkattn::tensor(f32, {1, kHeads, kRows, kSize})
                                            : vkattn::tensor(f32, {kSequences, kHeads, queries, kSize});
    desc.key = desc.value = keys == Keys::kPaged    ? vkattn::tensor(f32, {kPool, kKvHeads, kPage, kSize})
                            : keys == Keys::kPacked ? vkattn::tensor(f32, {1, kKvHeads, kKeys, kSize})
                                                    : vkattn::tensor(f32, {kSequences, kKvHeads, kKeys, kSize});
    desc.mask_flags = mask;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    desc.window_left = 5;
    desc.window_right = 3;
    desc.kernel = kernel;
    std::vector<Region> integers;
    const auto wants = [&](vkattn_tensor &tensor, vkattn_role role, std::initializer_list<std::uint64_t> shape) {
        tensor = vkattn::tensor(i32, shape);
        integers.emplace_back(context, role, vkattn_tensor_bytes(&tensor));
    };
    if (queries == 0) {
        wants(desc.cu_seqlens_q, VKATTN_ROLE_CU_SEQLENS_Q, {kSequences + 1});
        desc.max_seqlen_q = kLongest;
    }
    if (keys == Keys::kPacked) wants(desc.cu_seqlens_k, VKATTN_ROLE_CU_SEQLENS_K, {kSequences + 1});
    if (keys == Keys::kPaged) wants(desc.block_table, VKATTN_ROLE_BLOCK_TABLE, {kSequences, kPages});
    wants(desc.key_lengths, VKATTN_ROLE_KEY_LENGTHS, {kSequences});
    if (keys == Keys::kDense && queries != 1) {
        desc.block_q_len = 4;
        desc.block_kv_len = 8;
        wants(desc.block_mask, VKATTN_ROLE_BLOCK_MASK,
              {1, kHeads, ((queries == 0 ? kLongest : queries) + 3) / 4, (kKeys + 7) / 8});
    }
    constexpr std::uint64_t kTreeWords = (kLongest + 31) / 32;
    if (queries == 0)
        wants(desc.tree_mask, VKATTN_ROLE_TREE_MASK, {kRows, kTreeWords});
    else
        wants(desc.tree_mask, VKATTN_ROLE_TREE_MASK, {kSequences, queries, (queries + 31) / 32});
    if (mask != VKATTN_MASK_NONE) wants(desc.past_lengths, VKATTN_ROLE_PAST_LENGTHS, {kSequences});
    Target target{context.attention_plan(desc), std::move(integers), {}, {}};
    const auto bytes = [](const vkattn_tensor &tensor) { return vkattn_tensor_bytes(&tensor); };
    target.inputs.emplace_back(context, VKATTN_ROLE_QUERY, bytes(desc.query));
    target.inputs.emplace_back(context, VKATTN_ROLE_KEY, bytes(desc.key));
    target.inputs.emplace_back(context, VKATTN_ROLE_VALUE, bytes(desc.value));
    target.outputs.emplace_back(context, VKATTN_ROLE_OUTPUT, bytes(desc.output));
    return target;
}

Target append(const vkattn::Context &context) {
    const vkattn_type f32 = VKATTN_TYPE_F32, i32 = VKATTN_TYPE_I32;
    vkattn_kv_append_desc desc{};
    desc.source = vkattn::tensor(f32, {1, kKvHeads, kRows, kSize});
    desc.cache = vkattn::tensor(f32, {kPool, kKvHeads, kPage, kSize});
    desc.past_lengths = vkattn::tensor(i32, {kSequences});
    desc.cu_seqlens = vkattn::tensor(i32, {kSequences + 1});
    desc.block_table = vkattn::tensor(i32, {kSequences, kPages});
    desc.max_seqlen = kLongest;
    Target target{context.kv_append_plan(desc), {}, {}, {}};
    target.integers.emplace_back(context, VKATTN_ROLE_PAST_LENGTHS, vkattn_tensor_bytes(&desc.past_lengths));
    target.integers.emplace_back(context, VKATTN_ROLE_CU_SEQLENS_Q, vkattn_tensor_bytes(&desc.cu_seqlens));
    target.integers.emplace_back(context, VKATTN_ROLE_BLOCK_TABLE, vkattn_tensor_bytes(&desc.block_table));
    target.inputs.emplace_back(context, VKATTN_ROLE_SOURCE, vkattn_tensor_bytes(&desc.source));
    target.outputs.emplace_back(context, VKATTN_ROLE_CACHE, vkattn_tensor_bytes(&desc.cache));
    return target;
}

std::vector<Target> make_targets() {
    static const vkattn::Context context;
    std::mt19937 random(5);
    std::vector<Target> targets;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE})
        for (const Keys keys : {Keys::kDense, Keys::kPacked, Keys::kPaged})
            for (const std::uint64_t queries : {0, 1, 9}) {
                const bool masks = (queries == 0) == (keys == Keys::kPaged);
                targets.push_back(attention(context, keys, queries, kernel,
                                            masks ? VKATTN_MASK_CAUSAL | VKATTN_MASK_WINDOW : VKATTN_MASK_NONE));
            }
    targets.push_back(append(context));
    for (Target &target : targets)
        for (Region &input : target.inputs) {
            input.fill(random);
            input.upload();
        }
    return targets;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
    static std::vector<Target> targets = make_targets();
    FuzzedDataProvider data(bytes, size);
    Target &target = targets[data.ConsumeIntegralInRange<std::size_t>(0, targets.size() - 1)];
    std::vector<vkattn_binding> bindings;
    for (Region &region : target.integers) {
        region.fill(data);
        region.upload();
    }
    for (Region &region : target.outputs) {
        region.poison();
        region.upload();
    }
    for (const auto *regions : {&target.integers, &target.inputs, &target.outputs})
        for (const Region &region : *regions) bindings.push_back(region.binding());
    target.plan.run(bindings);
    for (Region &region : target.outputs) {
        region.download();
        for (std::size_t i = 0; i < region.size() / 4; ++i) {
            // not written, as rows are that no sequence has; or made of numbers that lie between -1 and 1
            std::uint32_t bits = 0;
            std::memcpy(&bits, region.contents() + 4 * i, sizeof bits);
            expect(bits == 0xffffffffu || std::fabs(region.number(i)) <= 1.0001f,
                   "what is written comes of the inputs");
        }
    }
    return 0;
}
