// A small layer that decodes token by token with a cache, for tests of what stays the same over many steps.
#pragma once

#include "device.hpp"

namespace vkattn_test {

inline constexpr std::uint64_t kDecoderWidth = 32;

// mha, two heads, the same weights whenever it is made.
inline vkattn::Layer small_layer(const vkattn::Context &context) {
    std::mt19937 random(8);
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kDecoderWidth;
    config.num_heads = 2;
    config.rope_theta = 10000.0f;
    std::map<std::string, HostTensor> tensors;
    for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"})
        tensors[name] = normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth, kDecoderWidth}, random, 0.2f);
    std::vector<vkattn_weight> weights;
    for (const auto &[name, tensor] : tensors)
        weights.push_back(vkattn::weight(name.c_str(), tensor.view(), tensor.bytes().data(), tensor.bytes().size()));
    return context.layer(config, weights);
}

class SmallDecoder {
  public:
    SmallDecoder(const vkattn::Context &context, const vkattn::Layer &layer, std::uint32_t capacity)
        : cache_(make_cache(context, layer, capacity)), plan_(make_plan(layer, cache_)),
          in_(context.buffer(4 * kDecoderWidth)), out_(context.buffer(4 * kDecoderWidth)) {}

    // token: kDecoderWidth f32. Returns the bits of the output.
    std::vector<std::uint32_t> step(std::span<const std::uint8_t> token) {
        in_.write(token);
        plan_.run({vkattn::bind(VKATTN_ROLE_QUERY, in_), vkattn::bind(VKATTN_ROLE_OUTPUT, out_)});
        std::vector<std::uint32_t> bits(kDecoderWidth);
        out_.read(bits);
        return bits;
    }
    void rewind() { cache_.rewind(0, 0); }

  private:
    static vkattn::Cache make_cache(const vkattn::Context &context, const vkattn::Layer &layer,
                                    std::uint32_t capacity) {
        vkattn_cache_info info{};
        info.layer = layer.get();
        info.batch = 1;
        info.capacity = capacity;
        info.key_type = info.value_type = VKATTN_TYPE_F16;
        return context.cache(info);
    }
    static vkattn::Plan make_plan(const vkattn::Layer &layer, const vkattn::Cache &cache) {
        vkattn_layer_call call{};
        call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kDecoderWidth});
        call.mask_flags = VKATTN_MASK_CAUSAL;
        call.cache = cache.get();
        return layer.plan(call);
    }

    vkattn::Cache cache_;
    vkattn::Plan plan_;
    vkattn::Buffer in_, out_;
};

} // namespace vkattn_test
