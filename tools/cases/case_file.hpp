// A case: one attention problem in one file (operation, configuration, tensors, expected answers).
#pragma once

#include "tools/tensors/safetensors.hpp"

#include <vkattn/vkattn.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::tools {

// The factors of LongRoPE, as vkattn_rope_scaling.factors points to them; NULL: none.
using RopeFactors = std::shared_ptr<const std::vector<float>>;

// What every op can hide by its configuration.
struct MaskConfig {
    std::uint32_t flags = 0;                                 // vkattn_mask_flags
    std::optional<vkattn_causal_alignment> causal_alignment; // absent: CaseFile::causal_alignment
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    std::uint32_t block_q_len = 0; // of the tensor block_mask
    std::uint32_t block_kv_len = 0;
};

// The configuration of ops "attention" and "attention_backward".
struct AttentionConfig {
    std::uint32_t q_num_heads = 0; // 0: not said; only 3-D tensors need them
    std::uint32_t kv_num_heads = 0;
    std::optional<float> scale;
    float softcap = 0.0F;
    float dropout_p = 0.0F;
    std::uint64_t dropout_seed = 0;
    vkattn_score_stage score_stage = VKATTN_SCORES_SCALED;
    vkattn_kv_head_mapping kv_head_mapping = VKATTN_KV_HEADS_GROUPED;
    std::optional<vkattn_type> k_dtype; // absent: as stored
    std::optional<vkattn_type> v_dtype;
    vkattn_rotation kv_rotation = VKATTN_ROTATION_NONE;
    std::string functions; // GLSL of a variant; "": none
    std::array<float, VKATTN_CAPTURED_NUMBERS> captured_numbers{};
    vkattn_type query_rounding = VKATTN_TYPE_NONE;
    std::uint32_t key_block_len = 0; // of the tensor key_indices; 0: not said
};

// The configuration of op "index"; scale, k_dtype and key_block_len are in AttentionConfig.
struct IndexConfig {
    std::uint32_t top_k = 0;
    vkattn_index_activation activation = VKATTN_INDEX_RELU;
    vkattn_index_reduce head_reduce = VKATTN_INDEX_SUM;
    vkattn_index_reduce block_reduce = VKATTN_INDEX_MAX;
    std::uint32_t forced_first = 0;
    std::uint32_t forced_last = 0;
};

// The configuration of op "linear".
struct LinearConfig {
    std::optional<vkattn_type> weight_dtype; // absent: as stored
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
};

// The configuration of op "linear_attention".
struct LinearAttentionConfig {
    vkattn_linear_attention_rule rule = VKATTN_RULE_DELTA;
    std::optional<float> scale;
    std::uint32_t qk_l2norm = 0;
};

struct CaseFile {
    std::string file; // as given, for messages
    std::string op;
    MaskConfig mask;
    AttentionConfig attention;              // ops "attention" and "attention_backward"
    LinearConfig linear;                    // op "linear"; of op "causal_conv1d" its activation
    LinearAttentionConfig linear_attention; // op "linear_attention"
    IndexConfig index;                      // op "index"
    vkattn_layer_config layer{};            // every other op
    RopeFactors rope_factors{};             // what layer.rope_scaling.factors points to
    std::uint32_t start_pos = 0;            // tokens before the first, where the op knows it
    TensorMap tensors;                      // inputs and weights
    TensorMap expected;                     // by output name, without "expected."

    // What the configuration says; else of op "attention" ONNX's rule: bottom right beside nonpad_kv_seqlen without a
    // past; else top left, since a layer's queries are its keys' tokens.
    vkattn_causal_alignment causal_alignment() const;

    // Linear attention and the convolution beside it.
    bool is_recurrence() const { return op == "linear_attention" || op == "causal_conv1d"; }
    bool is_attention() const { return op == "attention" || op == "attention_backward"; }
    bool is_layer() const { return !is_attention() && op != "index" && op != "linear" && !is_recurrence(); }
    std::string name() const { return std::filesystem::path(file).stem().string(); }

    // Returns the tensor, or NULL if the case has none of that name.
    const HostTensor *find(const std::string &tensor_name) const;
};

// Reads and checks a case: unknown keys and values of the wrong type are named. Throws InputError.
CaseFile read_case(const std::filesystem::path &path);

// Makes a case of a file's content that is already in memory. Throws InputError.
CaseFile parse_case(const std::string &file, Safetensors content);

} // namespace vkattn::tools
