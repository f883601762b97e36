#include "decoder.hpp"

#include "tools/cases/case_problem.hpp"
#include "tools/checkpoints/checkpoint_case.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"

#include <deque>
#include <set>
#include <string>

using namespace vkattn::tools;

namespace {

// A tensor on the device.
struct Weight {
    vkattn_tensor tensor{};
    vkattn::Buffer buffer;
};

struct Block {
    Weight input_norm, post_norm;
    Weight gate_and_up; // [2,hidden,width]
    Weight down;
    vkattn::Layer attention;
    vkattn::Cache cache;
};

struct ModelConfig {
    std::filesystem::path file;
    std::uint32_t width, layers, hidden, vocabulary;
    float epsilon;
    bool tied;
};

std::uint32_t number(const nlohmann::json &json, const std::filesystem::path &file, const char *key) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_unsigned() || *found < 1 || *found > (1u << 24))
        throw InputError(file.string(), std::string("'") + key + "': expected a whole number from 1");
    return found->get<std::uint32_t>();
}

// What may be absent; expected: of the type.
template <class T>
T value_or(const nlohmann::json &json, const std::filesystem::path &file, const char *key, T fallback,
           const char *expected) {
    try {
        return json.value(key, fallback);
    } catch (const nlohmann::json::type_error &) {
        throw InputError(file.string(), std::string("'") + key + "': expected " + expected);
    }
}

// What would be computed wrongly rather than not at all.
void check_architecture(const nlohmann::json &json, const std::filesystem::path &file) {
    const std::string type = value_or(json, file, "model_type", std::string(), "a name");
    if (type != "llama" && type != "deepseek_v3")
        throw InputError(file.string(), "'model_type': " + quote_name(type) + ", expected 'llama' or 'deepseek_v3'");
    if (const auto found = json.find("quantization_config"); found != json.end() && !found->is_null())
        throw InputError(file.string(), "'quantization_config': given, expected weights in F32, F16 or BF16");
    if (value_or(json, file, "mlp_bias", false, "true or false"))
        throw InputError(file.string(), "'mlp_bias': true, expected false");
    const std::string activation = value_or(json, file, "hidden_act", std::string("silu"), "a name");
    if (activation != "silu")
        throw InputError(file.string(), "'hidden_act': " + quote_name(activation) + ", expected 'silu'");
}

ModelConfig read_config(const std::filesystem::path &folder) {
    ModelConfig config{};
    config.file = folder / "config.json";
    const nlohmann::json json = read_strict_json(config.file, "config", 1 << 20, 8);
    check_architecture(json, config.file);
    config.width = number(json, config.file, "hidden_size");
    config.layers = number(json, config.file, "num_hidden_layers");
    config.hidden = number(json, config.file, "intermediate_size");
    config.vocabulary = number(json, config.file, "vocab_size");
    config.epsilon = value_or(json, config.file, "rms_norm_eps", 1e-6f, "a number");
    config.tied = value_or(json, config.file, "tie_word_embeddings", false, "true or false");
    return config;
}

vkattn_tensor tokens_of(vkattn_type type, std::uint64_t len, std::uint64_t width, std::uint64_t first = 0) {
    return vkattn::tensor(type, {1, len, width}, {}, first * width);
}

} // namespace

struct Decoder::Model {
    Model(const vkattn::Context &on, const DecoderOptions &wanted)
        : context(on), config(read_config(wanted.model)), options(wanted), checkpoint(wanted.model),
          embedding(read("model.embed_tokens.weight", {config.vocabulary, config.width})),
          final_norm(read("model.norm.weight", {config.width})) {
        if (!config.tied) separate_head = read("lm_head.weight", {config.vocabulary, config.width});
        for (std::uint32_t layer = 0; layer < config.layers; ++layer) blocks.push_back(read_block(layer));
        check_names();
    }

    const Weight &head() const { return separate_head ? *separate_head : embedding; }

    const vkattn::Context &context;
    ModelConfig config;
    DecoderOptions options;
    std::uint64_t parameters = 0;
    std::set<std::string> known; // of the tensors, but those of the attention, which are checked where they are read
    Checkpoint checkpoint;
    Weight embedding, final_norm;
    std::optional<Weight> separate_head; // else the embedding serves
    std::deque<Block> blocks;

    // A tensor that is left over does something that this decoder does not.
    void check_names() const {
        for (const std::string &name : checkpoint.names()) {
            const bool is_tied_head = config.tied && name == "lm_head.weight";
            if (!is_tied_head && !known.contains(name) && name.find(".self_attn.") == std::string::npos)
                throw InputError(checkpoint.source(), "has a tensor " + quote_name(name) +
                                                          ", expected those of a decoder of Llama's or DeepSeek V3's "
                                                          "kind alone");
        }
    }

    Weight read(const std::string &name, std::initializer_list<std::uint64_t> shape) {
        return upload(read_values(name, shape), std::span(shape.begin(), shape.size()));
    }

    // Two tensors of one shape as one [2,...].
    Weight read_pair(const std::string &first, const std::string &second, std::initializer_list<std::uint64_t> shape) {
        HostTensor values = read_values(first, shape);
        const HostTensor behind = read_values(second, shape);
        if (behind.dtype != values.dtype)
            throw InputError(checkpoint.source(), quote_name(second) + " is " + std::string(dtype_name(behind.dtype)) +
                                                      ", expected " + std::string(dtype_name(values.dtype)) + " as " +
                                                      quote_name(first));
        values.bytes.insert(values.bytes.end(), behind.bytes.begin(), behind.bytes.end());
        std::vector<std::uint64_t> both{2};
        both.insert(both.end(), shape.begin(), shape.end());
        return upload(values, both);
    }

    Weight upload(const HostTensor &values, std::span<const std::uint64_t> shape) {
        const vkattn_tensor tensor = vkattn::tensor(type_of(values.dtype), shape);
        Weight weight{tensor, context.buffer(tensor)};
        weight.buffer.write(values.bytes);
        count(values);
        return weight;
    }

    HostTensor read_values(const std::string &name, std::initializer_list<std::uint64_t> shape) {
        if (!checkpoint.names().contains(name))
            throw InputError(checkpoint.source(), "has no tensor " + quote_name(name) + ", expected it by the config");
        known.insert(name);
        HostTensor values = checkpoint.read(name);
        const std::vector<std::uint64_t> expected(shape);
        if (values.shape != expected || !is_float(values.dtype) || values.dtype == Dtype::kF64)
            throw InputError(checkpoint.source(), quote_name(name) + " is " + std::string(dtype_name(values.dtype)) +
                                                      " " + shape_text(values.shape) + ", expected F32, F16 or BF16 " +
                                                      shape_text(expected));
        return values;
    }

    Block read_block(std::uint32_t layer) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        vkattn::Layer attention = read_attention(layer);
        vkattn_cache_info info{};
        info.layer = attention.get();
        info.batch = 1;
        info.capacity = options.capacity;
        info.key_type = info.value_type = options.cache_type;
        return {
            read(prefix + "input_layernorm.weight", {config.width}),
            read(prefix + "post_attention_layernorm.weight", {config.width}),
            read_pair(prefix + "mlp.gate_proj.weight", prefix + "mlp.up_proj.weight", {config.hidden, config.width}),
            read(prefix + "mlp.down_proj.weight", {config.width, config.hidden}),
            std::move(attention),
            context.cache(info)};
    }

    vkattn::Layer read_attention(std::uint32_t layer) {
        ModelAttention attention = read_model_attention(config.file, layer, options.capacity);
        attention.layer.mla_form = VKATTN_MLA_ABSORB; // a step then reads the latents, not heads made of them
        const TensorMap tensors = read_attention_weights(checkpoint, attention, layer);
        std::vector<vkattn_weight> weights;
        for (const auto &[name, values] : tensors) {
            const vkattn_tensor layout = vkattn::tensor(type_of(values.dtype), values.shape);
            weights.push_back(vkattn::weight(name.c_str(), layout, values.bytes.data(), values.bytes.size()));
            count(values);
        }
        return context.layer(attention.layer, weights);
    }

    void count(const HostTensor &values) { parameters += values.bytes.size() / dtype_bytes(values.dtype); }
};

// The whole model for so many tokens: plans, their buffers, and the program that they are recorded as.
class Decoder::Pass {
  public:
    Pass(const Model &model, std::uint32_t len, bool all_logits)
        : model_(model), len_(len), rows_(all_logits ? len : 1),
          between_(model.context.facts().half_workspaces != 0 ? VKATTN_TYPE_F16 : VKATTN_TYPE_F32),
          tokens_(model.context.buffer(vkattn::tensor(VKATTN_TYPE_I32, {1, len}))),
          stream_(model.context.buffer(stream())), normed_(model.context.buffer(normed())),
          hidden_(model.context.buffer(tokens_of(between_, len, model.config.hidden))),
          logits_(model.context.buffer(tokens_of(VKATTN_TYPE_F32, rows_, model.config.vocabulary))) {
        add_embedding();
        for (const Block &block : model.blocks) add_block(block);
        add_norm(model.final_norm);
        add_logits();
        std::vector<vkattn_bound_plan> plans;
        for (const BoundPlan &bound : bound_) plans.push_back(vkattn::bind(bound.plan, bound.bindings));
        program_ = model.context.program(plans);
        bound_.clear(); // the program keeps what it needs
    }

    std::vector<float> run(std::span<const std::int32_t> tokens) {
        tokens_.write(tokens);
        program_.run();
        std::vector<float> logits(std::size_t{rows_} * model_.config.vocabulary);
        logits_.read(logits);
        return logits;
    }

  private:
    struct BoundPlan {
        vkattn::Plan plan;
        std::vector<vkattn_binding> bindings;
    };

    void add(vkattn::Plan plan, std::vector<vkattn_binding> bindings) {
        bound_.push_back({std::move(plan), std::move(bindings)});
    }

    // What is added up from block to block, and what products take of it.
    vkattn_tensor stream() const { return tokens_of(VKATTN_TYPE_F32, len_, model_.config.width); }
    vkattn_tensor normed() const { return tokens_of(between_, len_, model_.config.width); }

    void add_embedding() {
        vkattn_embedding_desc desc{};
        desc.tokens = vkattn::tensor(VKATTN_TYPE_I32, {1, len_});
        desc.weight = model_.embedding.tensor;
        desc.output = stream();
        add(model_.context.embedding_plan(desc),
            {vkattn::bind(VKATTN_ROLE_TOKENS, tokens_), vkattn::bind(VKATTN_ROLE_WEIGHT, model_.embedding.buffer),
             vkattn::bind(VKATTN_ROLE_OUTPUT, stream_)});
    }

    // The residual stream, normed.
    void add_norm(const Weight &weight) {
        vkattn_norm_desc desc{};
        desc.input = stream();
        desc.output = normed();
        desc.weight = weight.tensor;
        desc.epsilon = model_.config.epsilon;
        add(model_.context.norm_plan(desc),
            {vkattn::bind(VKATTN_ROLE_INPUT, stream_), vkattn::bind(VKATTN_ROLE_WEIGHT, weight.buffer),
             vkattn::bind(VKATTN_ROLE_OUTPUT, normed_)});
    }

    void add_attention(const Block &block) {
        vkattn_layer_call call{};
        call.query = normed();
        call.output = call.residual = stream();
        call.mask_flags = VKATTN_MASK_CAUSAL;
        call.cache = block.cache.get();
        add(block.attention.plan(call),
            {vkattn::bind(VKATTN_ROLE_QUERY, normed_), vkattn::bind(VKATTN_ROLE_RESIDUAL, stream_),
             vkattn::bind(VKATTN_ROLE_OUTPUT, stream_)});
    }

    void add_linear(const vkattn_linear_desc &desc, const Weight &weight, const vkattn::Buffer &input,
                    const vkattn::Buffer &output) {
        std::vector<vkattn_binding> bindings = {vkattn::bind(VKATTN_ROLE_INPUT, input),
                                                vkattn::bind(VKATTN_ROLE_WEIGHT, weight.buffer),
                                                vkattn::bind(VKATTN_ROLE_OUTPUT, output)};
        if (desc.residual.type != VKATTN_TYPE_NONE) bindings.push_back(vkattn::bind(VKATTN_ROLE_RESIDUAL, output));
        add(model_.context.linear_plan(desc), std::move(bindings));
    }

    // stream += down(silu(gate(normed)) * up(normed))
    void add_feed_forward(const Block &block) {
        vkattn_linear_desc desc{};
        desc.input = normed();
        desc.weight = block.gate_and_up.tensor;
        desc.output = tokens_of(between_, len_, model_.config.hidden);
        desc.activation = VKATTN_ACTIVATION_SILU;
        add_linear(desc, block.gate_and_up, normed_, hidden_);
        vkattn_linear_desc down{};
        down.input = desc.output;
        down.weight = block.down.tensor;
        down.output = down.residual = stream();
        add_linear(down, block.down, hidden_, stream_);
    }

    void add_block(const Block &block) {
        add_norm(block.input_norm);
        add_attention(block);
        add_norm(block.post_norm);
        add_feed_forward(block);
    }

    void add_logits() {
        vkattn_linear_desc desc{};
        desc.input = tokens_of(between_, rows_, model_.config.width, len_ - rows_);
        desc.weight = model_.head().tensor;
        desc.output = tokens_of(VKATTN_TYPE_F32, rows_, model_.config.vocabulary);
        add_linear(desc, model_.head(), normed_, logits_);
    }

    const Model &model_;
    std::uint32_t len_, rows_;
    vkattn_type between_; // of what lies between the steps
    vkattn::Buffer tokens_, stream_, normed_, hidden_, logits_;
    std::vector<BoundPlan> bound_;
    vkattn::Program program_;
};

Decoder::Decoder(const vkattn::Context &context, const DecoderOptions &options)
    : model_(std::make_unique<Model>(context, options)) {}
Decoder::~Decoder() = default;

std::vector<float> Decoder::append(std::span<const std::int32_t> tokens) {
    const auto len = static_cast<std::uint32_t>(tokens.size());
    if (len != 1) return Pass(*model_, len, false).run(tokens);
    if (!step_) step_ = std::make_unique<Pass>(*model_, 1, false);
    return step_->run(tokens);
}

std::vector<float> Decoder::append_for_all(std::span<const std::int32_t> tokens) {
    return Pass(*model_, static_cast<std::uint32_t>(tokens.size()), true).run(tokens);
}

void Decoder::clear() {
    for (const Block &block : model_->blocks) block.cache.rewind(0, 0);
}

std::uint32_t Decoder::vocabulary_size() const { return model_->config.vocabulary; }

std::uint64_t Decoder::parameters() const { return model_->parameters; }

std::uint64_t Decoder::cache_bytes() const {
    std::uint64_t bytes = 0;
    for (const Block &block : model_->blocks) bytes += block.cache.bytes();
    return bytes;
}
