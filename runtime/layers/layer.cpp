#include "runtime/layers/layer.hpp"

#include "runtime/layers/cache.hpp"
#include "runtime/layers/call.hpp"
#include "runtime/layers/compressed_kv.hpp"
#include "runtime/layers/encoder_layer.hpp"
#include "runtime/layers/indexer.hpp"
#include "runtime/layers/latent_mha.hpp"
#include "runtime/layers/latent_query.hpp"
#include "runtime/layers/layer_backward.hpp"
#include "runtime/layers/mha.hpp"
#include "runtime/layers/mha_backward.hpp"
#include "runtime/layers/mla.hpp"
#include "runtime/layers/mla_backward.hpp"
#include "runtime/layers/mla_block.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/problem/scales.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace vkattn {
namespace {

constexpr uint64_t kWeightAlignment = 16;

} // namespace

vkattn_tensor without_layout(const vkattn_weight &weight) {
    vkattn_tensor tensor = weight.tensor;
    std::fill(std::begin(tensor.strides), std::end(tensor.strides), 0);
    tensor.offset = 0;
    return normalised(tensor, weight.name);
}

std::string place_problem(const Context &context, const vkattn_weight &weight) {
    const uint64_t needed = extent_bytes(without_layout(weight));
    const vkattn_region &region = weight.region;
    if (region.buffer == VK_NULL_HANDLE) {
        const uint64_t stored = bytes_of(weight.tensor.type, extent_elements(without_layout(weight)));
        return weight.bytes >= stored ? "" : text(weight.name, " has ", weight.bytes, " bytes, expected ", stored);
    }
    if (region.offset % kWeightAlignment != 0)
        return text(weight.name, " has offset ", region.offset, ", expected a multiple of ", kWeightAlignment);
    const uint64_t most = context.buffer_bytes(region.buffer).value_or(UINT64_MAX);
    if (region.offset <= most && region.bytes <= most - region.offset && needed <= region.bytes) return "";
    return text(weight.name, " has a region of ", region.bytes, " bytes from ", region.offset, " on, expected ", needed,
                " bytes within its buffer");
}

namespace {

bool matches(const vkattn_tensor &tensor, const WeightSpec &spec) {
    return tensor.rank == spec.shape.size() && std::equal(spec.shape.begin(), spec.shape.end(), tensor.shape);
}

std::string shape_of(const WeightSpec &spec) {
    vkattn_tensor tensor{};
    tensor.rank = static_cast<uint32_t>(spec.shape.size());
    std::copy(spec.shape.begin(), spec.shape.end(), tensor.shape);
    return text(shape_text(tensor));
}

const WeightSpec *find_spec(std::span<const WeightSpec> specs, const std::string &name) {
    const auto found =
        std::find_if(specs.begin(), specs.end(), [&](const WeightSpec &spec) { return spec.name == name; });
    return found == specs.end() ? nullptr : &*found;
}

void add_problem(std::string &problems, const std::string &problem) {
    problems += (problems.empty() ? "weights: " : "; ") + problem;
}

// Why the weight cannot have the type; "": it can.
std::string type_problem(const WeightSpec &spec, vkattn_type type) {
    if (is_weight(type) && type_of(spec, type) == type) return "";
    const bool matrix = spec.use.times > 0 && !spec.use.by_columns;
    return text(spec.name, " has type ", type_name(type), ", expected ", type_names(matrix ? is_weight : is_float),
                spec.use.by_columns ? ", since this layer reads it by columns" : "");
}

void check_weight(const Context &context, const vkattn_weight &weight, std::span<const WeightSpec> specs,
                  std::string &problems) {
    const WeightSpec *spec = find_spec(specs, weight.name);
    const vkattn_type type = weight.tensor.type;
    if (spec == nullptr)
        add_problem(problems, text(weight.name, " is unknown to this layer"));
    else if (!matches(weight.tensor, *spec))
        add_problem(problems,
                    text(weight.name, " has shape ", shape_text(weight.tensor), ", expected ", shape_of(*spec)));
    else if (const std::string problem = type_problem(*spec, type); !problem.empty())
        add_problem(problems, problem);
    else if ((weight.data == nullptr) == (weight.region.buffer == VK_NULL_HANDLE))
        add_problem(problems, text(weight.name,
                                   weight.data == nullptr ? " has neither data nor a region" : " has data and a region",
                                   ", expected one of the two"));
    else if (const std::string place = place_problem(context, weight); !place.empty())
        add_problem(problems, place);
}

void check_weights(const Context &context, std::span<const vkattn_weight> weights, std::span<const WeightSpec> specs) {
    std::string problems;
    std::map<std::string, int> given;
    for (const vkattn_weight &weight : weights) {
        require(weight.name != nullptr, "weights: a name is NULL, expected a string");
        if (++given[weight.name] == 2) add_problem(problems, text(weight.name, " is given twice"));
        check_weight(context, weight, specs, problems);
    }
    for (const WeightSpec &spec : specs)
        if (!spec.optional && !given.contains(spec.name))
            add_problem(problems, text(spec.name, " is missing, expected ", shape_of(spec)));
    for (const WeightSpec &spec : specs) {
        if (!spec.of_optional || !given.contains(spec.name)) continue;
        const std::string matrix = spec.name.substr(0, spec.name.rfind('.')) + ".weight";
        if (!given.contains(matrix)) add_problem(problems, text(spec.name, " is given, expected ", matrix, " with it"));
    }
    require(problems.empty(), problems);
}

bool is_mla(const vkattn_layer_config &config) {
    return config.kind == VKATTN_LAYER_MLA || config.kind == VKATTN_LAYER_MLA_BLOCK;
}

// Elements of a vector that the rotary embedding turns; 0 for none.
uint32_t rope_dims(const vkattn_layer_config &config) {
    if (config.rope_theta <= 0 || config.kind == VKATTN_LAYER_LATENT_MHA || config.kind == VKATTN_LAYER_LATENT_QUERY)
        return 0;
    return is_mla(config) ? config.qk_rope_head_dim : config.rotary_dim;
}

} // namespace

Layer::Layer(Context &context, const vkattn_layer_config &config, std::span<const vkattn_weight> weights)
    : context_(context), config_(checked_config(config)) {
    check_weights(context, weights, weight_specs(config_));
    upload(weights);
    config_.rope_scaling.factors = nullptr; // read already
}

Layer::Layer(Context &context, const vkattn_layer_config &config, bool has_biases)
    : context_(context), config_(checked_config(config)) {
    const auto add = [&](const std::string &name, const std::vector<uint64_t> &shape) {
        vkattn_tensor tensor{};
        tensor.type = VKATTN_TYPE_F32;
        tensor.rank = static_cast<uint32_t>(shape.size());
        std::copy(shape.begin(), shape.end(), tensor.shape);
        weights_[name] = {normalised(tensor, name.c_str()), {Source::Kind::kOwned}};
    };
    for (const WeightSpec &spec : weight_specs(config_))
        if (is_counted(spec, has_biases)) add(spec.name, spec.shape);
    if (rope_dims(config_) > 0) add(kRopeFrequencies, {4 * uint64_t{rope_dims(config_) / 2}});
    place_weights();
    config_.rope_scaling.factors = nullptr; // read already
}

// Gives weights without a buffer their places in the layer's own, matrices before vectors: projections of one input, and their
// biases, then lie behind each other (add_projections). Returns its bytes.
uint64_t Layer::place_weights() {
    uint64_t bytes = 0;
    const auto place = [&](const std::string &name) {
        const auto found = weights_.find(name);
        if (found == weights_.end() || found->second.source.buffer != VK_NULL_HANDLE) return;
        found->second.source.offset = bytes;
        bytes += round_up(extent_bytes(found->second.tensor), kWeightAlignment);
    };
    const std::vector<WeightSpec> specs = weight_specs(config_);
    for (const WeightSpec &spec : specs)
        if (spec.shape.size() > 1) place(spec.name);
    for (const WeightSpec &spec : specs)
        if (spec.shape.size() == 1) place(spec.name);
    place(kRopeFrequencies);
    return bytes;
}

void Layer::upload(std::span<const vkattn_weight> given) {
    std::vector<vkattn_weight> weights(given.begin(), given.end());
    if (rope_dims(config_) > 0) {
        frequencies_ = vkattn::rope_frequencies(rope_dims(config_), config_);
        vkattn_weight &table = weights.emplace_back();
        table.name = kRopeFrequencies;
        table.tensor = contiguous(VKATTN_TYPE_F32, {4 * frequencies_.size()});
        table.data = frequencies_.data();
        table.bytes = frequencies_.size() * sizeof(RopeFrequency);
    }
    for (const vkattn_weight &weight : weights) {
        View &view = weights_[weight.name];
        view.tensor = without_layout(weight);
        view.source.kind = Source::Kind::kOwned;
        view.source.buffer = weight.region.buffer;
        view.source.offset = weight.region.offset;
    }
    const uint64_t bytes = place_weights();
    if (bytes == 0) return;
    buffer_ = std::make_unique<Buffer>(context_, bytes, "vkattn weights");
    for (const vkattn_weight &weight : weights) {
        if (weight.data == nullptr) continue;
        View &view = weights_[weight.name];
        view.source.buffer = buffer_->handle();
        buffer_->write(view.source.offset, weight.data, bytes_of(view.tensor.type, extent_elements(view.tensor)));
    }
}

View Layer::weight(const std::string &name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? View{} : found->second;
}

Rotation Layer::inverse_rotation(PlanBuilder &builder) const {
    if (frequencies_.empty()) return {};
    std::vector<RopeFrequency> inverse = frequencies_;
    turn_back(inverse);
    return {frequencies_view(builder, inverse), config_.rope_interleaved != 0};
}

vkattn_type type_of(const WeightSpec &spec, vkattn_type type) {
    const bool by_rows = spec.use.times > 0 && !spec.use.by_columns;
    return is_quantised(type) && !by_rows ? VKATTN_TYPE_F32 : type;
}

void add_linear_specs(std::vector<WeightSpec> &specs, const std::string &name, uint64_t out_features,
                      uint64_t in_features, WeightUse use) {
    specs.push_back({name + ".weight", {out_features, in_features}, false, use});
    specs.push_back({name + ".bias", {out_features}, true});
}

void check_size(const char *name, uint32_t size, uint32_t least) {
    require(size >= least, name, ": ", size, ", expected at least ", least);
    require(size <= kLargestSize, name, ": ", size, ", expected at most 2^29");
}

uint32_t checked_rotary_dim(const vkattn_layer_config &config, uint32_t head_dim) {
    require(config.rope_theta > 0 || config.rotary_dim == 0, "rotary_dim: ", config.rotary_dim,
            " without rope_theta, expected 0");
    if (config.rope_theta <= 0) return 0;
    const uint32_t dims = config.rotary_dim != 0 ? config.rotary_dim : head_dim;
    require(config.rotary_dim != 0 || dims % 2 == 0, "rotary_dim: 0, which means the whole head of ", head_dim,
            " elements, expected an even number");
    require(dims % 2 == 0 && dims <= head_dim, "rotary_dim: ", dims, ", expected an even number up to the head size ",
            head_dim);
    return dims;
}

namespace {

// What each kind of layer consists of.
struct LayerKind {
    vkattn_layer_config (*check)(const vkattn_layer_config &);
    std::vector<WeightSpec> (*weights)(const vkattn_layer_config &);
    AttentionSizes (*attention)(const vkattn_layer_config &);
    void (*plan)(PlanBuilder &, const Layer &, const LayerCall &);
    CacheSizes (*cache)(const vkattn_layer_config &);  // heads and widths; NULL: keeps none
    CacheSizes (*decode)(const vkattn_layer_config &); // of what decode steps keep; NULL: it takes none
    // Rooms of what the backward pass reads, and that pass; NULL: it has no gradients.
    void (*reserve)(PlanBuilder &, const Layer &, const LayerCall &, ActivationRooms &) = nullptr;
    void (*backward)(const LayerBackward &) = nullptr;
};

std::vector<WeightSpec> mha_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    add_mha_weights(specs, config, "");
    return specs;
}

std::vector<WeightSpec> mla_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    add_mla_weights(specs, config, "");
    return specs;
}

CacheSizes head_cache(const vkattn_layer_config &config) {
    CacheSizes sizes{};
    sizes.heads = config.num_kv_heads;
    sizes.key_width = sizes.value_width = config.head_dim;
    return sizes;
}

CacheSizes latent_cache(const vkattn_layer_config &config) {
    CacheSizes sizes{};
    sizes.heads = 1;
    sizes.key_width = config.kv_lora_rank + config.qk_rope_head_dim;
    if (has_indexer(config)) sizes.value_width = config.index_head_dim;
    return sizes;
}

CacheSizes two_latents_cache(const vkattn_layer_config &config) {
    CacheSizes sizes{};
    sizes.heads = 1;
    sizes.key_width = sizes.value_width = config.latent_dim;
    return sizes;
}

// In the order of vkattn_layer_kind. The two caches differ where a layer cannot do what its kind is for: LATENT_MHA takes
// no cache here, yet its latents are what the method keeps; ENCODER takes one, but is meant for whole sequences.
constexpr LayerKind kKinds[] = {
    {checked_mha_config, mha_weights, mha_attention, plan_mha, head_cache, head_cache, reserve_mha_activations,
     add_mha_backward},
    {checked_latent_mha_config, latent_mha_weights, latent_mha_attention, plan_latent_mha, nullptr, two_latents_cache},
    {checked_latent_query_config, latent_query_weights, latent_query_attention, plan_latent_query, nullptr, nullptr},
    {checked_mla_config, mla_weights, mla_attention, plan_mla, latent_cache, latent_cache, reserve_mla_activations,
     add_mla_backward},
    {checked_compressed_kv_config, compressed_kv_weights, compressed_kv_attention, plan_compressed_kv,
     two_latents_cache, two_latents_cache},
    {checked_encoder_config, encoder_weights, mha_attention, plan_encoder, head_cache, nullptr},
    {checked_mla_block_config, mla_block_weights, mla_attention, plan_mla_block, latent_cache, latent_cache},
};
static_assert(std::size(kKinds) == VKATTN_LAYER_KIND_COUNT);

const LayerKind &kind_of(const vkattn_layer_config &config) {
    require(config.kind >= VKATTN_LAYER_MHA && config.kind < VKATTN_LAYER_KIND_COUNT,
            "kind: ", static_cast<int>(config.kind), ", expected a vkattn_layer_kind");
    return kKinds[config.kind];
}

} // namespace

vkattn_layer_config checked_config(const vkattn_layer_config &config) {
    require(is_mla(config) || !has_indexer(config), "config: with an indexer, expected none but for MLA and "
                                                    "MLA_BLOCK");
    const LayerKind &kind = kind_of(config);
    require(config.rope_theta >= 0 && config.rope_theta < 1e30f, "rope_theta: ", config.rope_theta,
            ", expected a finite number >= 0, 0 for no rotary embedding");
    finite_or(config.scale, 0, "scale");
    require(std::isfinite(config.softcap) && config.softcap >= 0, "softcap: ", config.softcap,
            ", expected a finite number >= 0, 0 for none");
    epsilon_or(config.norm_epsilon, 0, "norm_epsilon");
    vkattn_layer_config checked = kind.check(config);
    check_rope_scaling(checked.rope_scaling, rope_dims(checked) / 2);
    check_rope_sections(checked, rope_dims(checked) / 2);
    return checked;
}

std::vector<WeightSpec> weight_specs(const vkattn_layer_config &config) { return kind_of(config).weights(config); }

AttentionSizes attention_sizes(const vkattn_layer_config &config) { return kind_of(config).attention(config); }

std::optional<CacheSizes> decode_cache_sizes(const vkattn_layer_config &config) {
    const auto decode = kind_of(config).decode;
    return decode == nullptr ? std::optional<CacheSizes>() : decode(config);
}

namespace {

void require_positions_to_turn(const Layer &layer, const LayerCall &call) {
    require(!present(call.positions) || rope_dims(layer.config()) > 0,
            "positions: given, expected none of a layer without a rotary embedding");
}

void require_gradients(const Layer &layer, const LayerCall &call) {
    require_positions_to_turn(layer, call);
    const auto refuse = [](bool given, auto... what) {
        if (given) fail(VKATTN_ERROR_UNSUPPORTED, what..., " has no gradients yet");
    };
    refuse(kind_of(layer.config()).backward == nullptr, "layer: of another kind than MHA and MLA, which");
    refuse(has_indexer(layer.config()), "layer: with an indexer, which");
    refuse(call.object != nullptr, "cache: given, expected none, which");
    for (const vkattn_tensor *tensor : {&call.past_key, &call.past_value, &call.present_key, &call.present_value})
        refuse(present(*tensor), "past_key, past_value, present_key, present_value: given, expected none: a cache");
}

} // namespace

vkattn_tensor layer_activations(const Layer &layer, const LayerCall &call) {
    require_gradients(layer, call);
    PlanBuilder builder(layer.context(), PlanBuilder::Purpose::kMeasure);
    ActivationRooms rooms(builder, true);
    kind_of(layer.config()).reserve(builder, layer, call, rooms);
    return rooms.tensor();
}

void plan_layer_backward(PlanBuilder &builder, const Layer &layer, const LayerCall &call,
                         const vkattn_layer_backward_desc &desc) {
    require_gradients(layer, call);
    LayerBackward backward(builder, layer, call, desc);
    kind_of(layer.config()).backward(backward);
}

void plan_layer(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const vkattn_layer_kind kind = layer.config().kind;
    require(!present(call.residual) || kind == VKATTN_LAYER_MHA || kind == VKATTN_LAYER_MLA,
            "residual: given, expected none but for MHA and MLA");
    require(!present(call.norm_weight) || kind == VKATTN_LAYER_MHA || kind == VKATTN_LAYER_MLA,
            "norm_weight: given, expected none but for MHA and MLA");
    if (present(call.activations)) require_gradients(layer, call);
    require_positions_to_turn(layer, call);
    kind_of(layer.config()).plan(builder, layer, call);
    require(call.object == nullptr || kind_of(layer.config()).cache != nullptr,
            "cache: given, expected none: this kind of layer keeps no cache");
}

CacheSizes cache_sizes(const vkattn_layer_config &config) {
    const LayerKind &kind = kind_of(config);
    require(kind.cache != nullptr, "layer: of a kind that keeps no cache, expected MHA, MLA, COMPRESSED_KV, ENCODER or "
                                   "MLA_BLOCK");
    return kind.cache(config);
}

namespace {

void check_scaling(vkattn_scaling scaling, vkattn_type type, const char *part) {
    require(scaling >= VKATTN_SCALING_NONE && scaling <= VKATTN_SCALING_ROW, part,
            "_scaling: ", static_cast<int>(scaling), ", expected a vkattn_scaling");
    require(scaling == VKATTN_SCALING_NONE || is_scaled(type), part, "_scaling: given beside ", type_name(type),
            ", expected ", type_names(is_scaled), ", which have no scales of their own");
}

} // namespace

void check_scalings(vkattn_scaling key, vkattn_scaling value, const CacheSizes &sizes) {
    require(sizes.value_width > 0 || value == VKATTN_SCALING_NONE,
            "value_scaling: given, expected none: this cache keeps the values as a part of the keys");
    check_scaling(key, sizes.key_type, "key");
    check_scaling(value, sizes.value_type, "value");
}

namespace {

PartScales scales_of_part(vkattn_scaling scaling, std::span<const float> numbers, uint32_t heads, const char *part) {
    const bool is_given = scaling == VKATTN_SCALING_TENSOR || scaling == VKATTN_SCALING_HEAD;
    const uint32_t count = !is_given ? 0 : scaling == VKATTN_SCALING_TENSOR ? 1 : heads;
    require(numbers.size() == count && (numbers.data() != nullptr || count == 0), part,
            "_scales: ", numbers.data() != nullptr ? numbers.size() : 0, " numbers, expected ", count);
    for (const float number : numbers)
        require(std::isfinite(number) && number > 0, part, "_scales: ", number, ", expected finite numbers above 0");
    return {scaling, {numbers.begin(), numbers.end()}};
}

void set_scales(const vkattn_cache_info &info, CacheSizes &sizes) {
    check_scalings(info.key_scaling, info.value_scaling, sizes);
    sizes.key_scales = scales_of_part(info.key_scaling, {info.key_scales, info.key_scale_count}, sizes.heads, "key");
    sizes.value_scales =
        scales_of_part(info.value_scaling, {info.value_scales, info.value_scale_count}, sizes.heads, "value");
}

} // namespace

CacheSizes cache_sizes(const vkattn_cache_info &info, const Layer *layer, const Context &context) {
    CacheSizes sizes{};
    if (layer != nullptr) {
        require(&layer->context() == &context, "layer: of another context, expected one of this context");
        sizes = cache_sizes(layer->config());
    } else {
        sizes.heads = info.kv_heads;
        sizes.key_width = info.head_dim;
        sizes.value_width = info.v_head_dim;
    }
    sizes.batch = info.batch;
    sizes.capacity = info.capacity;
    sizes.key_type = info.key_type;
    sizes.value_type = info.value_type;
    sizes.page_len = info.page_len;
    sizes.page_count = info.page_count;
    sizes.rotation = rotation_of(info);
    set_scales(info, sizes);
    return sizes;
}

} // namespace vkattn
