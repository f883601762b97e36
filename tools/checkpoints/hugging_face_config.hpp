// What a Hugging Face config.json says of the attention of one layer.
#pragma once

#include "tools/cases/case_file.hpp"

#include <cstdint>
#include <filesystem>

namespace vkattn::tools {

// How a family of models names the tensors of a layer's attention.
enum class TensorNames {
    kSeparate, // self_attn.q_proj k_proj v_proj o_proj
    kFused,    // self_attn.qkv_proj o_proj
    kLatent,   // self_attn.q_a_proj kv_a_proj_with_mqa kv_b_proj ...
    kBert,     // attention.self.query key value, attention.output.dense
};

// Which linears must have a bias. One that is there is applied in any case.
enum class Biases { kByConfig, kQueryKeyValue, kAll };

// kAsStored: weight * x; kPlusOne: (1 + weight) * x, as Gemma stores it.
enum class HeadNorms { kNone, kAsStored, kPlusOne };

struct ModelAttention {
    TensorNames names = TensorNames::kSeparate;
    Biases biases = Biases::kByConfig;
    HeadNorms head_norms = HeadNorms::kNone;
    bool attention_bias = false; // as the config has it
    vkattn_layer_config layer{};
    RopeFactors rope_factors{}; // what layer.rope_scaling.factors points to
    MaskConfig mask{};
};

// Reads what matters for one layer and sequences of so many tokens. Throws InputError: for a model_type, a RoPE scaling
// or an option that is not known, and for a layer that the model does not have.
ModelAttention read_model_attention(const std::filesystem::path &config, std::uint32_t layer,
                                    std::uint64_t sequence_len);

} // namespace vkattn::tools
