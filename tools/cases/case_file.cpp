#include "tools/cases/case_file.hpp"

#include "tools/cases/config_reader.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"
#include "tools/tensors/safetensors_file.hpp"

#include <array>
#include <string_view>

namespace vkattn::tools {
namespace {

constexpr std::string_view kExpectedPrefix = "expected.";

void read_mask(ConfigReader &config, MaskConfig &mask) {
    std::uint32_t is_causal = 0;
    config.read_flag("is_causal", is_causal);
    if (is_causal != 0) mask.flags |= VKATTN_MASK_CAUSAL;
    std::uint32_t mask_times_slopes = 0;
    config.read_flag("mask_times_slopes", mask_times_slopes);
    if (mask_times_slopes != 0) mask.flags |= VKATTN_MASK_TIMES_SLOPES;
    if (config.has("window_left") || config.has("window_right")) mask.flags |= VKATTN_MASK_WINDOW;
    config.read("window_left", mask.window_left);
    config.read("window_right", mask.window_right);
    config.read("block_q_len", mask.block_q_len);
    config.read("block_kv_len", mask.block_kv_len);
    config.read_choice<std::optional<vkattn_causal_alignment>>(
        "causal_alignment", {{"top_left", VKATTN_CAUSAL_TOP_LEFT}, {"bottom_right", VKATTN_CAUSAL_BOTTOM_RIGHT}},
        mask.causal_alignment);
}

void read_dropout(ConfigReader &config, CaseFile &read) {
    config.read("dropout_p", read.attention.dropout_p);
    config.read("dropout_seed", read.attention.dropout_seed);
    if (read.is_layer() && read.attention.dropout_p != 0.0F)
        config.fail("config key 'dropout_p' is not 0, expected 0: layers have no dropout");
}

// One of the types that the device converts to, of which is_one is not 0.
std::optional<vkattn_type> read_storage(ConfigReader &config, const char *key, uint32_t vkattn_type_info::*is_one) {
    vkattn_type type = VKATTN_TYPE_NONE;
    std::vector<std::pair<std::string_view, vkattn_type>> choices;
    for (const vkattn_type_info &info : enumerate_types())
        if (info.cache != 0 && info.*is_one != 0) choices.emplace_back(info.name, info.type);
    config.read_choice(key, choices, type);
    return type == VKATTN_TYPE_NONE ? std::nullopt : std::optional(type);
}

void read_head_mapping(ConfigReader &config, vkattn_kv_head_mapping &mapping) {
    config.read_choice("kv_head_mapping", {{"grouped", VKATTN_KV_HEADS_GROUPED}, {"modulo", VKATTN_KV_HEADS_MODULO}},
                       mapping);
}

// Each text names its own lines.
void read_functions(ConfigReader &config, std::string &functions) {
    for (const char *key : {"score_mod", "score_mod_grad", "mask_mod", "lse_mod", "output_mod"}) {
        std::string text;
        config.read(key, text);
        if (!text.empty()) functions += std::string("#line 1 \"") + key + "\"\n" + text + "\n";
    }
}

void read_attention(ConfigReader &config, CaseFile &read) {
    AttentionConfig &attention = read.attention;
    config.read_size("q_num_heads", attention.q_num_heads);
    config.read_size("kv_num_heads", attention.kv_num_heads);
    if (config.has("scale")) config.read("scale", attention.scale.emplace());
    config.read("softcap", attention.softcap);
    std::uint32_t stage = VKATTN_SCORES_SCALED;
    config.read("qk_matmul_output_mode", stage);
    if (stage > VKATTN_SCORES_WEIGHTS)
        config.fail("config key 'qk_matmul_output_mode' is " + std::to_string(stage) + ", expected 0, 1, 2 or 3");
    attention.score_stage = static_cast<vkattn_score_stage>(stage);
    read_head_mapping(config, attention.kv_head_mapping);
    attention.k_dtype = read_storage(config, "k_dtype", &vkattn_type_info::key_value);
    attention.v_dtype = read_storage(config, "v_dtype", &vkattn_type_info::key_value);
    config.read_choice("kv_rotation", {{"none", VKATTN_ROTATION_NONE}, {"hadamard", VKATTN_ROTATION_HADAMARD}},
                       attention.kv_rotation);
    read_functions(config, attention.functions);
    for (std::size_t i = 0; i < attention.captured_numbers.size(); ++i)
        config.read(("captured_number." + std::to_string(i)).c_str(), attention.captured_numbers[i]);
    config.read_choice("query_rounding", {{"f16", VKATTN_TYPE_F16}, {"bf16", VKATTN_TYPE_BF16}},
                       attention.query_rounding);
    config.read_size("key_block_len", attention.key_block_len);
}

void read_index(ConfigReader &config, CaseFile &read) {
    IndexConfig &index = read.index;
    config.require("top_k", index.top_k);
    config.read_size("key_block_len", read.attention.key_block_len);
    if (config.has("scale")) config.read("scale", read.attention.scale.emplace());
    config.read_choice("activation", {{"relu", VKATTN_INDEX_RELU}, {"none", VKATTN_INDEX_IDENTITY}}, index.activation);
    config.read_choice("head_reduce", {{"sum", VKATTN_INDEX_SUM}, {"max", VKATTN_INDEX_MAX}}, index.head_reduce);
    config.read_choice("block_reduce", {{"max", VKATTN_INDEX_MAX}, {"mean", VKATTN_INDEX_MEAN}}, index.block_reduce);
    config.read("forced_first", index.forced_first);
    config.read("forced_last", index.forced_last);
    read.attention.k_dtype = read_storage(config, "k_dtype", &vkattn_type_info::key_value);
}

void read_rope(ConfigReader &config, vkattn_layer_config &layer) {
    config.require("rope_theta", layer.rope_theta);
    config.require_flag("rope_interleaved", layer.rope_interleaved);
}

void read_sections(ConfigReader &config, vkattn_layer_config &layer) {
    for (std::uint32_t i = 0; i < VKATTN_ROPE_SECTIONS; ++i)
        config.read(("rope_sections." + std::to_string(i)).c_str(), layer.rope_sections[i]);
    config.read_flag("rope_sections_interleaved", layer.rope_sections_interleaved);
}

void read_mha(ConfigReader &config, CaseFile &read) {
    read.layer.kind = VKATTN_LAYER_MHA;
    config.require("embed_dim", read.layer.embed_dim);
    config.require("num_heads", read.layer.num_heads);
    config.read_size("num_kv_heads", read.layer.num_kv_heads);
    config.read_size("head_dim", read.layer.head_dim);
    read_head_mapping(config, read.layer.kv_head_mapping);
    config.read("rope_theta", read.layer.rope_theta);
    config.read_flag("rope_interleaved", read.layer.rope_interleaved);
    config.read_size("rotary_dim", read.layer.rotary_dim);
    read_sections(config, read.layer);
}

void read_latent_mha(ConfigReader &config, CaseFile &read) {
    read.layer.kind = VKATTN_LAYER_LATENT_MHA;
    config.require("embed_dim", read.layer.embed_dim);
    config.require("num_heads", read.layer.num_heads);
    config.require("latent_dim", read.layer.latent_dim);
}

void read_latent_query(ConfigReader &config, CaseFile &read) {
    read.layer.kind = VKATTN_LAYER_LATENT_QUERY;
    config.require("input_dim", read.layer.input_dim);
    config.require("latent_dim", read.layer.latent_dim);
    config.require("num_latents", read.layer.num_latents);
    config.require("num_heads", read.layer.num_heads);
}

// Sparse attention as DeepSeek-V3.2 has it.
void read_indexer(ConfigReader &config, vkattn_layer_config &layer) {
    const bool is_asked = config.has("index_topk") || config.has("index_n_heads") || config.has("index_head_dim");
    if (!is_asked) return;
    config.require("index_n_heads", layer.index_n_heads);
    config.require("index_head_dim", layer.index_head_dim);
    config.require("index_topk", layer.index_topk);
    config.read_flag("index_rope_interleaved", layer.index_rope_interleaved);
}

void read_mla(ConfigReader &config, CaseFile &read) {
    vkattn_layer_config &layer = read.layer;
    layer.kind = VKATTN_LAYER_MLA;
    config.require("dim", layer.embed_dim);
    config.require("n_heads", layer.num_heads);
    config.require("qk_nope_head_dim", layer.qk_nope_head_dim);
    config.require("qk_rope_head_dim", layer.qk_rope_head_dim);
    config.require("v_head_dim", layer.v_head_dim);
    config.read("q_lora_rank", layer.q_lora_rank);
    config.require("kv_lora_rank", layer.kv_lora_rank);
    config.check_present("attn_impl");
    config.read_choice("attn_impl", {{"naive", VKATTN_MLA_NAIVE}, {"absorb", VKATTN_MLA_ABSORB}}, layer.mla_form);
    read_rope(config, layer);
    read_sections(config, layer);
    read_indexer(config, layer);
    config.read("start_pos", read.start_pos);
}

void read_mla_block(ConfigReader &config, CaseFile &read) {
    read_mla(config, read);
    read.layer.kind = VKATTN_LAYER_MLA_BLOCK;
    config.require("mlp_ratio", read.layer.mlp_ratio);
}

void read_compressed_kv(ConfigReader &config, CaseFile &read) {
    read.layer.kind = VKATTN_LAYER_COMPRESSED_KV;
    config.require("d_model", read.layer.embed_dim);
    config.require("num_heads", read.layer.num_heads);
    config.require("latent_dim", read.layer.latent_dim);
    config.read("decompress_lora_rank", read.layer.decompress_lora_rank);
    read_rope(config, read.layer);
    config.read_size("rotary_dim", read.layer.rotary_dim);
    read_sections(config, read.layer);
    config.read("start_pos", read.start_pos);
}

void read_activation(ConfigReader &config, vkattn_activation &activation) {
    config.read_choice("activation",
                       {{"relu", VKATTN_ACTIVATION_RELU},
                        {"gelu", VKATTN_ACTIVATION_GELU},
                        {"silu", VKATTN_ACTIVATION_SILU},
                        {"leaky_relu", VKATTN_ACTIVATION_LEAKY_RELU},
                        {"gelu_tanh", VKATTN_ACTIVATION_GELU_TANH},
                        {"sigmoid", VKATTN_ACTIVATION_SIGMOID},
                        {"softplus", VKATTN_ACTIVATION_SOFTPLUS}},
                       activation);
}

void read_linear(ConfigReader &config, CaseFile &read) {
    read.linear.weight_dtype = read_storage(config, "weight_dtype", &vkattn_type_info::weight);
    read_activation(config, read.linear.activation);
}

void read_linear_attention(ConfigReader &config, CaseFile &read) {
    LinearAttentionConfig &linear = read.linear_attention;
    config.check_present("rule");
    config.read_choice("rule", {{"delta", VKATTN_RULE_DELTA}, {"decay", VKATTN_RULE_DECAY}}, linear.rule);
    if (config.has("scale")) config.read("scale", linear.scale.emplace());
    config.read_flag("qk_l2norm", linear.qk_l2norm);
}

void read_causal_conv1d(ConfigReader &config, CaseFile &read) {
    config.read_choice("activation", {{"none", VKATTN_ACTIVATION_NONE}, {"silu", VKATTN_ACTIVATION_SILU}},
                       read.linear.activation);
}

void read_encoder(ConfigReader &config, CaseFile &read) {
    read_mha(config, read);
    read.layer.kind = VKATTN_LAYER_ENCODER;
    config.require("ffn_dim", read.layer.ffn_dim);
    config.check_present("activation");
    read_activation(config, read.layer.activation);
    config.require_flag("norm_first", read.layer.norm_first);
}

struct OpReader {
    std::string_view op;
    void (*read)(ConfigReader &, CaseFile &);
};

constexpr std::array<OpReader, 13> kOps{{{"attention", read_attention},
                                         {"attention_backward", read_attention},
                                         {"linear", read_linear},
                                         {"linear_attention", read_linear_attention},
                                         {"causal_conv1d", read_causal_conv1d},
                                         {"index", read_index},
                                         {"mha", read_mha},
                                         {"latent_mha", read_latent_mha},
                                         {"latent_query", read_latent_query},
                                         {"mla", read_mla},
                                         {"compressed_kv", read_compressed_kv},
                                         {"encoder_layer", read_encoder},
                                         {"mla_block", read_mla_block}}};

const OpReader &find_op(const std::string &file, const nlohmann::json &config) {
    const auto op = config.find("op");
    if (op == config.end() || !op->is_string())
        throw InputError(file, "the metadata 'vkattn' has no \"op\", expected the name of an op");
    std::string expected;
    for (const OpReader &known : kOps) {
        if (op->get_ref<const std::string &>() == known.op) return known;
        expected += (expected.empty() ? "" : " ") + std::string(known.op);
    }
    throw InputError(file,
                     "unknown op " + quote_name(op->get_ref<const std::string &>()) + ", expected one of " + expected);
}

void split_tensors(TensorMap all, CaseFile &read) {
    for (auto &[name, tensor] : all) {
        if (name.starts_with(kExpectedPrefix))
            read.expected[name.substr(kExpectedPrefix.size())] = std::move(tensor);
        else
            read.tensors[name] = std::move(tensor);
    }
}

// A case without its tensors.
CaseFile read_configuration(const std::string &file, const std::map<std::string, std::string> &all) {
    const auto metadata = all.find("vkattn");
    if (metadata == all.end())
        throw InputError(file, "has no metadata 'vkattn', expected a JSON object with \"op\" and its configuration");
    nlohmann::json json = parse_strict_json(metadata->second, file, "metadata 'vkattn'", 1);
    const OpReader &op = find_op(file, json);
    CaseFile read;
    read.file = file;
    read.op = op.op;
    ConfigReader config(file, read.op, std::move(json));
    op.read(config, read);
    if (read.op != "linear" && !read.is_recurrence()) {
        read_mask(config, read.mask);
        read_dropout(config, read);
    }
    config.finish();
    return read;
}

} // namespace

const HostTensor *CaseFile::find(const std::string &tensor_name) const {
    const auto found = tensors.find(tensor_name);
    return found == tensors.end() ? nullptr : &found->second;
}

vkattn_causal_alignment CaseFile::causal_alignment() const {
    if (mask.causal_alignment) return *mask.causal_alignment;
    const bool has_lengths_alone = find("nonpad_kv_seqlen") != nullptr && find("past_key") == nullptr;
    return !is_layer() && has_lengths_alone ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_TOP_LEFT;
}

CaseFile parse_case(const std::string &file, Safetensors content) {
    CaseFile read = read_configuration(file, content.metadata);
    split_tensors(std::move(content.tensors), read);
    return read;
}

CaseFile read_case(const std::filesystem::path &path) {
    SafetensorsFile file(path);
    CaseFile read = read_configuration(path.string(), file.metadata()); // before gigabytes of what is no case
    split_tensors(file.read_all(), read);
    return read;
}

} // namespace vkattn::tools
