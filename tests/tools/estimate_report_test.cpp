// The estimate of the command line: against the reference cases' own tensors, and what it prints; no device is needed.
#include "lines.hpp"
#include "tools/cases/case_file.hpp"
#include "tools/estimate/cache_choice.hpp"
#include "tools/estimate/model.hpp"
#include "tools/estimate/report.hpp"
#include "tools/io/input_error.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

using namespace vkattn::tools;

namespace {

std::vector<CaseFile> layer_cases() {
    std::vector<CaseFile> cases;
    for (const auto &entry : std::filesystem::directory_iterator(VKATTN_TEST_DATA)) {
        if (entry.path().extension() != ".safetensors") continue;
        CaseFile read = read_case(entry.path());
        if (read.is_layer()) cases.push_back(std::move(read));
    }
    return cases;
}

std::uint64_t values_in(const HostTensor &tensor) {
    std::uint64_t count = 1;
    for (const std::uint64_t size : tensor.shape) count *= size;
    return count;
}

struct WeightCount {
    std::uint64_t without_biases = 0;
    std::uint64_t with_biases = 0;
};

WeightCount count_weights(const CaseFile &read) {
    static const std::set<std::string> kInputs{
        "query",    "key",        "value",         "hidden_states", "attn_mask",
        "past_key", "past_value", "past_k_latent", "past_v_latent", "key_padding_mask"};
    WeightCount count;
    for (const auto &[name, tensor] : read.tensors) {
        if (kInputs.contains(name)) continue;
        count.with_biases += values_in(tensor);
        if (!name.ends_with(".bias")) count.without_biases += values_in(tensor);
    }
    return count;
}

bool every_matrix_has_a_bias(const CaseFile &read) {
    return std::ranges::all_of(read.tensors, [&read](const auto &entry) {
        const auto &[name, tensor] = entry;
        if (!name.ends_with(".weight") || tensor.shape.size() != 2) return true;
        return read.tensors.contains(name.substr(0, name.size() - 6) + "bias");
    });
}

vkattn_estimate_info f32_use() {
    vkattn_estimate_info use{};
    use.weight_type = VKATTN_TYPE_F32;
    return use;
}

Estimate estimate_case(const CaseFile &read, const vkattn_estimate_info &use) {
    EstimateModel model;
    model.name = read.name();
    model.config = read.layer;
    return estimate_all({&model, 1}, use).front();
}

// A file that is gone when the test is over.
class TemporaryFile {
  public:
    TemporaryFile(const std::string &name, const std::string &text)
        : path_(std::filesystem::temp_directory_path() /
                ("vkattn_estimate_test_" + std::to_string(std::random_device{}()) + "_" + name)) {
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~TemporaryFile() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;
    std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

EstimateModel model_of(const std::string &text) {
    const TemporaryFile file("config.json", text);
    return read_model(file.path());
}

std::string error_of(const std::string &text) {
    try {
        model_of(text);
    } catch (const InputError &error) {
        return error.what();
    }
    return "no error";
}

std::vector<Estimate> usual_estimates(std::uint64_t memory_bytes, std::uint64_t context_len) {
    vkattn_estimate_info use{};
    use.memory_bytes = memory_bytes;
    use.context_len = context_len;
    return estimate_all(usual_models(4096, 32), use);
}

std::string verdict_text(const std::vector<Estimate> &estimates) {
    std::string text;
    for (const std::string &sentence : verdict(estimates)) text += sentence + "\n";
    return text;
}

std::vector<Estimate> named_estimates(const std::vector<std::string> &names, const vkattn_estimate_info &use,
                                      std::uint32_t d_model = 4096) {
    std::vector<EstimateModel> models;
    for (const std::string &name : names) models.push_back(named_model(name, d_model, 32));
    return estimate_all(models, use);
}

std::string advice_text(const std::vector<Estimate> &estimates) {
    std::string text;
    for (const std::string &sentence : cache_advice(estimates)) text += sentence + "\n";
    return text;
}

const CacheChoice &choice_in(const std::vector<CacheChoice> &choices, vkattn_type key, vkattn_type value,
                             bool rotated) {
    return *std::ranges::find_if(choices, [&](const CacheChoice &choice) {
        return choice.cost.key_type == key && choice.cost.value_type == value && choice.cost.rotated == rotated;
    });
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("estimate");

TEST_CASE("parameters are the values in the tensors of the reference layers") {
    std::set<std::string> ops;
    std::set<std::string> ops_with_biases;
    for (const CaseFile &read : layer_cases()) {
        INFO(read.file);
        const WeightCount counted = count_weights(read);
        vkattn_estimate_info use = f32_use();
        CHECK(estimate_case(read, use).result.parameters == counted.without_biases);
        use.with_biases = 1;
        if (every_matrix_has_a_bias(read)) {
            CHECK(estimate_case(read, use).result.parameters == counted.with_biases);
            ops_with_biases.insert(read.op);
        }
        ops.insert(read.op);
    }
    CHECK(ops.size() == VKATTN_LAYER_KIND_COUNT);
    CHECK(ops_with_biases.size() == VKATTN_LAYER_KIND_COUNT - 1); // not compressed_kv
}

TEST_CASE("cache bytes are those of the reference layers' caches") {
    std::set<std::string> ops;
    for (const CaseFile &read : layer_cases()) {
        std::uint64_t bytes = 0;
        std::uint64_t tokens = 0;
        for (const char *name : {"present_key", "present_value", "present_k_latent", "present_v_latent"}) {
            const auto found = read.expected.find(name);
            if (found == read.expected.end()) continue;
            const HostTensor &cache = found->second;
            bytes += 4 * values_in(cache);
            tokens = cache.shape.front() * cache.shape[cache.shape.size() - 2];
        }
        if (tokens == 0) continue;
        INFO(read.file);
        CHECK(estimate_case(read, f32_use()).result.cache_bytes_per_token * tokens == bytes);
        ops.insert(read.op);
    }
    CHECK(ops == std::set<std::string>{"compressed_kv", "mha"});
}

TEST_CASE("a Hugging Face configuration gives the layer's sizes") {
    const EstimateModel llama = model_of(R"({"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "torch_dtype": "bfloat16", "head_dim": null, "sliding_window": null})");
    CHECK(llama.config.kind == VKATTN_LAYER_MHA);
    CHECK(llama.config.num_kv_heads == 8);
    CHECK(llama.num_layers == 32);
    CHECK(llama.weight_type == VKATTN_TYPE_BF16);
    CHECK(llama.notes.empty());
    const EstimateModel deepseek = model_of(R"({"hidden_size": 7168, "num_attention_heads": 128,
        "num_key_value_heads": 128, "num_hidden_layers": 61, "kv_lora_rank": 512, "q_lora_rank": null,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})");
    CHECK(deepseek.config.kind == VKATTN_LAYER_MLA);
    CHECK(deepseek.config.q_lora_rank == 0);
    CHECK(deepseek.config.kv_lora_rank == 512);
}

TEST_CASE("a configuration without KV heads is MHA, one with multi_query MQA") {
    CHECK(model_of(R"({"n_embd": 768, "n_head": 12, "n_layer": 12})").config.num_kv_heads == 12);
    CHECK(model_of(R"({"hidden_size": 64, "num_attention_heads": 4, "multi_query": true})").config.num_kv_heads == 1);
    CHECK(model_of(R"({"text_config": {"hidden_size": 64, "num_attention_heads": 4}})").config.embed_dim == 64);
}

TEST_CASE("a sliding window is told of, since it is not applied") {
    const std::string sizes = R"({"hidden_size": 64, "num_attention_heads": 4, "sliding_window": 16)";
    CHECK(model_of(sizes + "}").notes.size() == 1);
    CHECK(model_of(sizes + R"(, "use_sliding_window": false})").notes.empty());
}

TEST_CASE("states of linear attention are counted, whatever the context") {
    const std::string sizes =
        R"({"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
        "num_hidden_layers": 48, )";
    const EstimateModel next = model_of(sizes + R"("full_attention_interval": 4, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128})");
    CHECK(next.state_bytes == 36 * 4 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)));
    const std::uint64_t of_channels = 36 * 4 * (8 * 64 * 64 + 2 * 3 * 8 * 64);
    CHECK(model_of(sizes + R"("full_attention_interval": 4, "linear_num_heads": 8, "linear_head_dim": 64,
        "linear_conv_kernel_dim": 3})")
              .state_bytes == of_channels);
    const EstimateModel kimi = model_of(sizes + R"("linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 28,
        32, 36, 40, 44, 48], "num_heads": 8, "head_dim": 64, "short_conv_kernel_size": 3}})");
    CHECK(kimi.num_layers == 12);
    const EstimateModel gated = model_of(sizes + R"("model_type": "qwen3_next"})");
    REQUIRE(gated.notes.size() == 1);
    CHECK(contains(gated.notes[0], "the gate of attention's output, of as many weights as q_proj, is not counted"));
    CHECK(kimi.state_bytes == of_channels);
    vkattn_estimate_info use{};
    use.batch = 3;
    use.memory_bytes = std::uint64_t{8} << 30;
    Estimate shorter, longer;
    for (const std::uint64_t length : {1000, 100000}) {
        use.context_len = length;
        (length == 1000 ? shorter : longer) = estimate_all({&next, 1}, use).front();
    }
    CHECK(shorter.state_bytes() == 3 * next.state_bytes);
    CHECK(shorter.state_bytes() == longer.state_bytes());
    CHECK(longer.bytes_needed() - shorter.bytes_needed() == longer.result.cache_bytes - shorter.result.cache_bytes);
    for (const bool over : {false, true}) { // as long as it may be, and a token longer
        use.context_len = shorter.result.max_context_len + over;
        CHECK(estimate_all({&next, 1}, use).front().fits() == !over);
    }
    for (const bool over : {false, true}) {
        use.context_len = 1000;
        use.batch = static_cast<std::uint32_t>(shorter.result.max_sequences + over);
        CHECK(estimate_all({&next, 1}, use).front().fits() == !over);
    }
}

TEST_CASE("of a hybrid the layers are counted that attend") {
    const std::string sizes = R"({"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2,
        "head_dim": 256, "num_hidden_layers": 48)";
    const EstimateModel next = model_of(sizes + R"(, "full_attention_interval": 4, "linear_num_value_heads": 32})");
    CHECK(next.num_layers == 12);
    REQUIRE(next.notes.size() == 1);
    CHECK(contains(next.notes[0], "12 of its 48 layers attend"));
    vkattn_estimate_info use{};
    CHECK(estimate_all({&next, 1}, use).front().result.cache_bytes_per_token == 24 * 1024);
    const auto layers = [&](const std::string &keys) { return model_of(sizes + ", " + keys + "}").num_layers; };
    CHECK(layers(R"("attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16)") == 6);
    CHECK(layers(R"("attn_layer_indices": [9, 18, 27], "mamba_d_state": 16)") == 3);
    CHECK(layers(R"("hybrid_override_pattern": "M-M-M-MM-M-M*-M-M*-M")") == 2);
    CHECK(layers(R"("block_types": ["recurrent", "recurrent", "attention"], "lru_width": 64)") == 16);
    CHECK(layers(R"("layer_types": ["sliding_attention", "full_attention"])") == 48);
    const auto error = [&](const std::string &keys) { return error_of(sizes + ", " + keys + "}"); };
    CHECK(contains(error(R"("mamba_d_state": 16)"), "'mamba_d_state' is of layers that do not attend"));
    CHECK(contains(error(R"("layers_block_type": ["mamba", "hybrid"])"), "has 'hybrid' for layer 1"));
    CHECK(contains(error(R"("layer_types": ["mamba"])"), "none of its 48 layers attends"));
    CHECK(contains(error(R"("layer_types": [])"), "no list of layers' kinds"));
}

TEST_CASE("BERT keeps no cache, and its feed-forward is counted") {
    const std::string bert = R"({"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12,
        "num_hidden_layers": 12, "intermediate_size": 3072, "architectures": ["BertForMaskedLM"])";
    const std::vector<EstimateModel> models{model_of(bert + "}")};
    CHECK(models[0].notes.empty());
    vkattn_estimate_info use{};
    use.context_len = 512;
    use.causal = 1;
    const std::vector<Estimate> estimates = estimate_all(models, use);
    CHECK(estimates[0].result.parameters == 85054464); // as bert-base-uncased has, without its embeddings and pooler
    CHECK_FALSE(estimates[0].has_cache());
    CHECK(estimates[0].info.causal == 0);
    std::ostringstream text;
    print_table(text, estimates);
    CHECK(contains(text.str(), "parameters without embeddings"));
    CHECK(contains(text.str(), "Not counted: embeddings and activations."));
    CHECK(model_of(bert + R"(, "is_decoder": true})").config.kind == VKATTN_LAYER_MHA);
}

TEST_CASE("other encoders are refused by name, other decoders are told of") {
    const std::string sizes = R"({"hidden_size": 64, "num_attention_heads": 4)";
    CHECK(contains(error_of(sizes + R"(, "architectures": ["ModernBertForMaskedLM"]})"), "'ModernBertForMaskedLM'"));
    CHECK(contains(error_of(sizes + R"(, "is_encoder_decoder": true})"), "is_encoder_decoder"));
    CHECK(contains(error_of(sizes + R"(, "use_bidirectional_attention": true})"), "use_bidirectional_attention"));
    const EstimateModel model = model_of(sizes + R"(, "model_type": "newest"})");
    REQUIRE(model.notes.size() == 1);
    CHECK(contains(model.notes[0], "model_type 'newest' is not known"));
}

TEST_CASE("a checkpoint's folder stands for its config.json; other formats are named") {
    const std::filesystem::path folder = std::filesystem::path(VKATTN_TEST_DATA) / "checkpoints" / "llama";
    for (const std::filesystem::path &path : {folder, folder / "model.safetensors", folder / "config.json"}) {
        const EstimateModel model = read_model(path.string());
        CHECK(model.name == "llama");
        CHECK(model.config.embed_dim == 64);
    }
    CHECK(contains(error_of("GGUF\x03"), "is a GGUF file"));
    CHECK(contains(error_of("PK\x03\x04 and so on"), "is a ZIP file"));
}

TEST_CASE("the table says in the lines that count what they count") {
    std::ostringstream text;
    print_table(text, usual_estimates(0, 4096));
    CHECK(contains(text.str(), "parameters of attention alone"));
    CHECK(contains(text.str(), "weights of attention alone"));
    CHECK(contains(text.str(), "Not counted: feed-forward layers, embeddings and activations."));
}

TEST_CASE("an object with \"op\" gives the layer of a case file") {
    const EstimateModel model = model_of(R"({"op": "latent_mha", "embed_dim": 64, "num_heads": 4, "latent_dim": 16})");
    CHECK(model.config.kind == VKATTN_LAYER_LATENT_MHA);
    CHECK(contains(error_of(R"({"op": "latent_mha", "embed_dim": 64, "num_heads": 4})"), "'latent_dim' is missing"));
    CHECK(contains(error_of(R"({"op": "attention"})"), "expected the configuration of a layer"));
}

TEST_CASE("a configuration that says too little or nonsense is refused with the key's name") {
    CHECK(contains(error_of("{}"), "'hidden_size' is missing, expected a Hugging Face config.json or an object with"));
    CHECK(contains(error_of(R"({"hidden_size": 64})"), "'num_attention_heads' is missing"));
    CHECK(contains(error_of(R"({"hidden_size": -64, "num_attention_heads": 4})"), "is -64"));
    CHECK(contains(error_of(R"({"hidden_size": "64", "num_attention_heads": 4})"), "is \"64\""));
    CHECK(
        contains(error_of(R"({"hidden_size": 64, "num_attention_heads": 4, "kv_lora_rank": 8})"), "qk_nope_head_dim"));
    const std::string hybrid = R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, )";
    CHECK(contains(error_of(hybrid + R"("linear_attn_config": {"full_attn_layers": [1, 2, 3, 4, 5]}})"),
                   "names 5 layers that attend, expected at most its 4"));
    CHECK(contains(error_of(hybrid + R"("linear_attn_config": {"full_attn_layers": 7}})"), "a list of layers"));
    CHECK(contains(error_of(hybrid + R"("full_attention_interval": 4, "linear_num_heads": 4000000000,
        "linear_head_dim": 4000000000})"),
                   "the sizes of its linear attention are beyond 16384"));
    CHECK(contains(error_of("[1]"), "expected a JSON object"));
    CHECK(contains(error_of(""), "not JSON"));
    CHECK_THROWS_AS(read_model("/no/such/config.json"), InputError);
    CHECK_THROWS_AS(read_model(std::filesystem::temp_directory_path().string()), InputError);
}

TEST_CASE("the verdict names the variant with the smallest cache") {
    // Two GiB hold 66 MiB of weights and 123 caches of 16 MiB.
    const std::string text = verdict_text(usual_estimates(2ULL << 30U, 32768));
    INFO(text);
    CHECK(contains(text, "All fit: mha, gqa-8, gqa-4, mqa and mla."));
    CHECK(contains(
        text, "mqa serves the most sequences, 123: it caches 512 B a token, 32 times less than the 16 KiB of mha"));
}

TEST_CASE("the verdict says why a variant does not fit") {
    const std::string text = verdict_text(usual_estimates(300ULL << 20U, 32768));
    INFO(text);
    CHECK(contains(text, "gqa-8, gqa-4, mqa and mla fit."));
    // 172 MiB beside the weights, at 16 KiB a token.
    CHECK(contains(
        text,
        "mha does not fit: it needs 640 MiB (weights 128 MiB, cache 512 MiB); its longest context is 11,008 tokens."));
}

TEST_CASE("the verdict admits that nothing fits") {
    const std::string text = verdict_text(usual_estimates(1ULL << 20U, 32768));
    INFO(text);
    CHECK(contains(text, "None of them fits."));
    CHECK(contains(text, "None serves a sequence of 32k tokens."));
}

TEST_CASE("types of K and V are compared by bytes and by what they cost") {
    vkattn_estimate_info use{};
    use.context_len = 32768;
    const std::vector<Estimate> estimates = named_estimates({"gqa-8"}, use);
    const std::vector<CacheChoice> choices = cache_choices(estimates.front());
    REQUIRE(choices.size() > 10);
    CHECK(choices.front().cost.key_type == VKATTN_TYPE_F16);
    CHECK(choices.front().bytes == estimates.front().result.cache_bytes);
    for (const CacheChoice &choice : choices) {
        std::uint64_t bytes = 0;
        for (const vkattn_type type : {choice.cost.key_type, choice.cost.value_type}) {
            use.cache_type = type;
            bytes += named_estimates({"gqa-8"}, use).front().result.cache_bytes / 2;
        }
        CHECK(choice.bytes == bytes);
        CHECK(choice.bytes <= choices.front().bytes);
        CHECK_FALSE(choice.fits);
    }
    const CacheChoice &plain = choice_in(choices, VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q4_0, false);
    const CacheChoice &rotated = choice_in(choices, VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q4_0, true);
    CHECK(rotated.bytes == plain.bytes);
    CHECK(rotated.cost.percent < plain.cost.percent);
    std::ostringstream text;
    print_table(text, estimates);
    CHECK(contains(text.str(), "with them rotated (SmolLM2-135M"));
    CHECK(contains(text.str(), "\nq8_0 "));
    CHECK(contains(text.str(), "\nq8_0, iq4_nl "));
}

TEST_CASE("the cheapest type that fits a memory is advised") {
    vkattn_estimate_info use{};
    use.context_len = 32768;
    use.memory_bytes = 210ULL << 20U; // 80 MiB of weights, 128 of f16
    CHECK_FALSE(contains(advice_text(named_estimates({"gqa-8"}, use)), "gqa-8"));
    use.memory_bytes = 160ULL << 20U;
    CHECK(contains(advice_text(named_estimates({"gqa-8"}, use)),
                   "gqa-8 fits with K and V in q8_0, whose cache is 68 MiB rather than 128 MiB: no cost"));
    use.memory_bytes = 120ULL << 20U;
    CHECK(contains(advice_text(named_estimates({"gqa-8"}, use)), "gqa-8 fits with rotated K and V in iq4_nl"));
    use.memory_bytes = 100ULL << 20U;
    CHECK(contains(advice_text(named_estimates({"gqa-8"}, use)), "gqa-8 fits with no type of K and V"));
    use.memory_bytes = 60ULL << 20U; // less than the weights
    CHECK_FALSE(contains(advice_text(named_estimates({"gqa-8"}, use)), "gqa-8"));
}

TEST_CASE("a type that takes as much and costs less is advised") {
    vkattn_estimate_info use{};
    use.context_len = 1024;
    use.cache_type = VKATTN_TYPE_Q4_0;
    CHECK(contains(advice_text(named_estimates({"gqa-8"}, use)), "rotated K and V in iq4_nl take as much"));
    use.cache_type = VKATTN_TYPE_Q8_0;
    CHECK_FALSE(contains(advice_text(named_estimates({"gqa-8"}, use)), "gqa-8"));
}

TEST_CASE("a scale of each cached row takes four bytes, of latents one scale") {
    vkattn_estimate_info use{};
    use.context_len = 4096;
    use.cache_type = VKATTN_TYPE_F8_E4M3;
    const std::vector<EstimateModel> models = {named_model("gqa-8", 4096, 32), named_model("mla", 4096, 32)};
    const std::vector<Estimate> plain = estimate_all(models, use), scaled = estimate_all(models, use, true);
    CHECK(plain[0].result.cache_bytes_per_token == 2 * 8 * 128);
    CHECK(scaled[0].result.cache_bytes_per_token == 2 * 8 * (128 + 4));
    CHECK(scaled[0].result.cache_bytes == 4096 * scaled[0].result.cache_bytes_per_token);
    CHECK(scaled[1].result.cache_bytes_per_token == plain[1].result.cache_bytes_per_token + 4);
    CHECK(cache_table(scaled) == cache_table(plain)); // as they were measured
    std::ostringstream table;
    print_table(table, scaled);
    CHECK(table.str().find(", a scale of each cached row\n") != std::string::npos);
    use.cache_type = VKATTN_TYPE_Q8_0;
    CHECK_THROWS_WITH_AS(estimate_all(models, use, true),
                         "gqa-8: key_scaling: given beside Q8_0, expected F8_E4M3 or F8_E5M2, which have no scales of "
                         "their own",
                         InputError);
}

TEST_CASE("what a type costs is said of keys and values, not of latents, and of sizes of heads that a type takes") {
    vkattn_estimate_info use{};
    use.context_len = 1024;
    CHECK(cache_choices(named_estimates({"mla"}, use).front()).empty());
    CHECK(advice_text(named_estimates({"mla", "latent_query"}, use)).empty());
    const std::vector<CacheChoice> choices = cache_choices(named_estimates({"gqa-8"}, use, 32 * 72).front());
    REQUIRE(choices.size() == 1); // a head of 72 values is no whole number of blocks
    CHECK(choices.front().cost.key_type == VKATTN_TYPE_F16);
}

TEST_CASE("JSON and CSV hold the exact figures") {
    const std::vector<Estimate> estimates = usual_estimates(2ULL << 30U, 32768);
    std::ostringstream json_text;
    print_json(json_text, estimates);
    const nlohmann::json json = nlohmann::json::parse(json_text.str());
    REQUIRE(json["estimates"].size() == 5);
    CHECK(json["estimates"][0]["name"] == "mha");
    CHECK(json["estimates"][0]["cache_bytes"] == 536870912);
    CHECK(json["estimates"][3]["max_sequences"] == 123);
    CHECK(json["verdict"].size() >= 2);
    CHECK(json["estimates"][0]["cache_types"].size() > 10);
    CHECK(json["estimates"][0]["cache_types"][0]["cache_bytes"] == 536870912);
    CHECK(json["estimates"][4]["cache_types"].empty()); // of mla
    CHECK(contains(json["advice"][0].get<std::string>(), "Of the bytes of f16, K and V in q8_0 take 53 %"));
    std::ostringstream csv_text;
    print_csv(csv_text, estimates);
    const std::vector<std::string> lines = lines_of(csv_text.str());
    REQUIRE(lines.size() == 6);
    for (const std::string &line : lines)
        CHECK(std::ranges::count(line, ',') == std::ranges::count(lines.front(), ','));
    CHECK(contains(lines[1], ",536870912,"));
}

TEST_CASE("the columns of the table line up") {
    std::ostringstream text;
    print_table(text, usual_estimates(2ULL << 30U, 32768));
    const std::vector<std::string> lines = lines_of(text.str());
    REQUIRE(lines.size() > 12);
    for (std::size_t line = 2; line < 12; ++line) CHECK(lines[line].size() == lines[2].size());
}

TEST_CASE("sizes are read and written in the units people use") {
    CHECK(parse_bytes("--memory", "2GiB") == 2ULL << 30U);
    CHECK(parse_bytes("--memory", "1.5G") == 3ULL << 29U);
    CHECK(parse_bytes("--memory", "24GB") == 24000000000ULL);
    CHECK(parse_tokens("--context", "32k") == 32768);
    for (const char *text : {"", "GiB", "-1", "0", "1.5", "2XB", "nan", "inf", "1e9", "99999999999999999999"}) {
        INFO(text);
        CHECK_THROWS_AS(parse_tokens("--context", text), InputError);
    }
    CHECK(format_value(2147483648.0, Unit::kBytes) == "2 GiB");
    CHECK(format_value(999.96e6, Unit::kCount) == "1.00 G");
    CHECK(format_value(35120, Unit::kTokens) == "35,120");
    CHECK(format_value(32768, Unit::kTokens) == "32k");
}

TEST_SUITE_END();
