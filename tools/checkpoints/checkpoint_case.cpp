#include "tools/checkpoints/checkpoint_case.hpp"

#include "tools/io/input_error.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace vkattn::tools {
namespace {

// A module of the checkpoint and what the library calls it. A linear has .weight and perhaps .bias, a norm .weight.
struct ModuleName {
    std::string_view theirs;
    std::string_view ours;
    bool required = true;
    bool is_norm = false;
};

constexpr std::array<ModuleName, 6> kSeparateModules{{{"q_proj", "q_proj"},
                                                      {"k_proj", "k_proj"},
                                                      {"v_proj", "v_proj"},
                                                      {"o_proj", "out_proj"},
                                                      {"q_norm", "q_norm", false, true},
                                                      {"k_norm", "k_norm", false, true}}};
constexpr std::array<ModuleName, 4> kBertModules{
    {{"self.query", "q_proj"}, {"self.key", "k_proj"}, {"self.value", "v_proj"}, {"output.dense", "out_proj"}}};
constexpr std::array<ModuleName, 8> kLatentModules{{{"q_proj", "wq", false},
                                                    {"q_a_proj", "wq_a", false},
                                                    {"q_a_layernorm", "q_norm", false, true},
                                                    {"q_b_proj", "wq_b", false},
                                                    {"kv_a_proj_with_mqa", "wkv_a"},
                                                    {"kv_a_layernorm", "kv_norm", true, true},
                                                    {"kv_b_proj", "wkv_b"},
                                                    {"o_proj", "wo"}}};
constexpr std::array<ModuleName, 4> kIndexerModules{{{"indexer.wq_b", "indexer.wq_b"},
                                                     {"indexer.wk", "indexer.wk"},
                                                     {"indexer.k_norm", "indexer.k_norm"},
                                                     {"indexer.weights_proj", "indexer.weights_proj"}}};
constexpr std::array<ModuleName, 2> kFusedModules{{{"qkv_proj", "qkv_proj"}, {"o_proj", "out_proj"}}};

// Tensors of an attention module that do not change its output as the library computes it: buffers that older files
// kept, and the LayerNorm that stands after BERT's attention.
constexpr std::array<std::string_view, 5> kPassedOver{"rotary_emb.inv_freq", "self.position_ids",
                                                      "output.LayerNorm.weight", "output.LayerNorm.bias",
                                                      "self.distance_embedding.weight"};

constexpr std::array<std::string_view, 6> kInputs{"hidden_states", "attn_mask",  "key_padding_mask",
                                                  "past_key",      "past_value", "nonpad_kv_seqlen"};

std::span<const ModuleName> modules_of(TensorNames names) {
    switch (names) {
    case TensorNames::kFused:
        return kFusedModules;
    case TensorNames::kLatent:
        return kLatentModules;
    case TensorNames::kBert:
        return kBertModules;
    default:
        return kSeparateModules;
    }
}

// "model.layers.3.self_attn." : what the names of the layer's attention begin with.
std::string find_prefix(const Checkpoint &checkpoint, TensorNames names, std::uint32_t layer) {
    const bool is_bert = names == TensorNames::kBert;
    const std::string middle =
        (is_bert ? "layer." : "layers.") + std::to_string(layer) + (is_bert ? ".attention." : ".self_attn.");
    const std::string last = middle + (is_bert ? "output.dense.weight" : "o_proj.weight");
    for (const std::string &name : checkpoint.names()) {
        const std::size_t place = name.size() - std::min(name.size(), last.size());
        const bool is_whole_word = place == 0 || name[place - 1] == '.';
        if (name.ends_with(last) && is_whole_word) return name.substr(0, place) + middle;
    }
    throw InputError(checkpoint.source(), "has no tensor that ends in " + quote_name(last) +
                                              ", expected the attention of layer " + std::to_string(layer));
}

class WeightReader {
  public:
    WeightReader(Checkpoint &checkpoint, std::string prefix, const ModelAttention &attention)
        : checkpoint_(checkpoint), prefix_(std::move(prefix)), attention_(attention) {}

    TensorMap read() {
        for (const ModuleName &module : modules_of(attention_.names)) read_module(module);
        if (attention_.layer.index_topk != 0)
            for (const ModuleName &module : kIndexerModules) read_module(module);
        check_names();
        if (attention_.names == TensorNames::kFused) split_fused();
        return std::move(weights_);
    }

  private:
    void read_module(const ModuleName &module) {
        const std::string theirs(module.theirs);
        const bool needed = module.required || (module.is_norm && attention_.head_norms != HeadNorms::kNone);
        if (!read_tensor(theirs + ".weight", std::string(module.ours) + ".weight", module.is_norm) && needed)
            missing_ += " " + prefix_ + theirs + ".weight";
        const bool needs_bias = attention_.biases == Biases::kAll ||
                                (attention_.biases == Biases::kQueryKeyValue && module.ours != "out_proj");
        if (!module.is_norm && !read_tensor(theirs + ".bias", std::string(module.ours) + ".bias", false) && needs_bias)
            missing_ += " " + prefix_ + theirs + ".bias";
    }

    bool read_tensor(const std::string &theirs, const std::string &ours, bool is_norm) {
        if (!checkpoint_.names().contains(prefix_ + theirs)) return false;
        known_.insert(prefix_ + theirs);
        HostTensor tensor = checkpoint_.read(prefix_ + theirs);
        if (!is_float(tensor.dtype))
            throw InputError(checkpoint_.source(), "tensor " + quote_name(prefix_ + theirs) + " is " +
                                                       std::string(dtype_name(tensor.dtype)) +
                                                       ", expected F32, F16 or BF16");
        const bool plus_one = is_norm && attention_.head_norms == HeadNorms::kPlusOne;
        weights_[ours] = plus_one ? one_added(tensor) : std::move(tensor);
        return true;
    }

    static HostTensor one_added(const HostTensor &tensor) {
        std::vector<double> values = values_of(tensor);
        for (double &value : values) value += 1.0;
        return tensor_of(Dtype::kF32, tensor.shape, values);
    }

    void check_names() const {
        std::string unknown;
        for (const std::string &name : checkpoint_.names()) {
            if (!name.starts_with(prefix_) || known_.contains(name)) continue;
            const std::string_view rest = std::string_view(name).substr(prefix_.size());
            if (std::ranges::find(kPassedOver, rest) == kPassedOver.end()) unknown += " " + quote_name(name);
        }
        if (!missing_.empty())
            throw InputError(checkpoint_.source(), "lacks" + missing_ + ", expected them by the model's config");
        if (!unknown.empty())
            throw InputError(checkpoint_.source(),
                             "has unknown tensors" + unknown + ", expected only those of the model's attention");
    }

    // Rows of Q, then K, then V.
    void split_fused() {
        const vkattn_layer_config &layer = attention_.layer;
        const std::uint64_t head_dim = layer.head_dim;
        const std::uint64_t rows[] = {layer.num_heads * head_dim, layer.num_kv_heads * head_dim,
                                      layer.num_kv_heads * head_dim};
        const char *names[] = {"q_proj", "k_proj", "v_proj"};
        for (const std::string suffix : {".weight", ".bias"}) {
            const auto found = weights_.find("qkv_proj" + suffix);
            if (found == weights_.end()) continue;
            const HostTensor fused = std::move(found->second);
            weights_.erase(found);
            if (fused.shape.empty() || fused.shape[0] != rows[0] + rows[1] + rows[2])
                throw InputError(checkpoint_.source(), "tensor " + quote_name(prefix_ + "qkv_proj" + suffix) + " is " +
                                                           shape_text(fused.shape) + ", expected " +
                                                           std::to_string(rows[0] + rows[1] + rows[2]) + " rows");
            const std::size_t row_bytes = fused.bytes.size() / fused.shape[0];
            auto from = fused.bytes.begin();
            for (std::size_t part = 0; part < 3; ++part) {
                HostTensor tensor{fused.dtype, fused.shape, {}};
                tensor.shape[0] = rows[part];
                const auto bytes = static_cast<std::ptrdiff_t>(rows[part] * row_bytes);
                tensor.bytes.assign(from, from + bytes);
                from += bytes;
                weights_[names[part] + suffix] = std::move(tensor);
            }
        }
    }

    Checkpoint &checkpoint_;
    std::string prefix_;
    const ModelAttention &attention_;
    TensorMap weights_;
    std::set<std::string> known_;
    std::string missing_;
};

std::filesystem::path config_of(const CheckpointOptions &options) {
    if (!options.config.empty()) return options.config;
    const std::filesystem::path model(options.model);
    std::error_code error;
    return (std::filesystem::is_directory(model, error) ? model : model.parent_path()) / "config.json";
}

TensorMap read_input(const std::string &file) {
    TensorMap tensors = read_safetensors(file).tensors;
    for (const auto &[name, tensor] : tensors)
        if (std::ranges::find(kInputs, std::string_view(name)) == kInputs.end())
            throw InputError(file, "unknown tensor " + quote_name(name) +
                                       ", expected hidden_states attn_mask key_padding_mask past_key past_value "
                                       "nonpad_kv_seqlen");
    if (!tensors.contains("hidden_states"))
        throw InputError(file, "has no tensor 'hidden_states', expected it as [batch,length,width]");
    return tensors;
}

// With the past.
std::uint64_t sequence_len(const std::string &file, const TensorMap &input) {
    const std::vector<std::uint64_t> &hidden = input.at("hidden_states").shape;
    if (hidden.size() != 3)
        throw InputError(file, "tensor 'hidden_states' is " + shape_text(hidden) + ", expected [batch,length,width]");
    const auto past = input.find("past_key");
    const bool has_past = past != input.end() && past->second.shape.size() >= 2;
    return hidden[1] + (has_past ? *(past->second.shape.end() - 2) : 0);
}

} // namespace

TensorMap read_attention_weights(Checkpoint &checkpoint, const ModelAttention &attention, std::uint32_t layer) {
    return WeightReader(checkpoint, find_prefix(checkpoint, attention.names, layer), attention).read();
}

CaseFile read_checkpoint_case(const CheckpointOptions &options) {
    Checkpoint checkpoint(options.model);
    TensorMap input = read_input(options.input);
    const ModelAttention attention =
        read_model_attention(config_of(options), options.layer, sequence_len(options.input, input));
    CaseFile result;
    result.file = options.input;
    result.op = attention.layer.kind == VKATTN_LAYER_MLA ? "mla" : "mha";
    result.layer = attention.layer;
    result.rope_factors = attention.rope_factors;
    result.mask = attention.mask;
    result.tensors = read_attention_weights(checkpoint, attention, options.layer);
    result.tensors.merge(input);
    return result;
}

} // namespace vkattn::tools
