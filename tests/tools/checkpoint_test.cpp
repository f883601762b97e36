// Hugging Face checkpoints: every family of names against PyTorch's answers (tests/tools/make_checkpoints.py), and what is
// refused.
#include "device.hpp"
#include "tools/cases/case_runner.hpp"
#include "tools/cases/comparison.hpp"
#include "tools/checkpoints/checkpoint.hpp"
#include "tools/checkpoints/checkpoint_case.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

using namespace vkattn::tools;
using vkattn_test::DeviceTest;

namespace {

namespace fs = std::filesystem;

const fs::path kCheckpoints = fs::path(VKATTN_TEST_DATA) / "checkpoints";

CheckpointOptions options_of(const fs::path &folder, std::uint32_t layer = 1) {
    return {folder.string(), "", layer, (folder / "input.safetensors").string()};
}

// A copy of a checkpoint to spoil, removed at the end.
class Copy {
  public:
    explicit Copy(const std::string &name)
        : folder_(fs::temp_directory_path() / ("vkattn-checkpoint-" + std::to_string(std::random_device{}()))) {
        fs::copy(kCheckpoints / name, folder_);
    }
    ~Copy() {
        std::error_code error;
        fs::remove_all(folder_, error);
    }
    Copy(const Copy &) = delete;
    Copy &operator=(const Copy &) = delete;

    const fs::path &folder() const { return folder_; }

    void edit_config(const nlohmann::json &changes) { edit("config.json", changes); }

    void edit(const std::string &file, const nlohmann::json &changes) {
        nlohmann::json content = nlohmann::json::parse(std::ifstream(folder_ / file));
        content.merge_patch(changes);
        std::ofstream(folder_ / file) << content;
    }

    void edit_weights(const std::function<void(TensorMap &)> &change) {
        Safetensors content = read_safetensors(folder_ / "model.safetensors");
        change(content.tensors);
        write_safetensors(folder_ / "model.safetensors", content);
    }

    void check_refused(const std::string &expected, std::uint32_t layer = 1) const {
        std::string actual = "no error";
        try {
            read_checkpoint_case(options_of(folder_, layer));
        } catch (const InputError &error) {
            actual = error.what();
        }
        CHECK_MESSAGE(actual.find(expected) != std::string::npos, actual);
    }

  private:
    fs::path folder_;
};

const std::string kPrefix = "model.layers.1.self_attn.";

} // namespace

TEST_SUITE_BEGIN("checkpoints");

TEST_CASE_FIXTURE(DeviceTest, "every family of names gives PyTorch's answers") {
    std::size_t count = 0;
    for (const fs::directory_entry &entry : fs::directory_iterator(kCheckpoints)) {
        const std::string name = entry.path().filename().string();
        CAPTURE(name);
        const std::uint32_t layer = name == "gemma2" ? 0 : 1;
        const CaseFile input = read_checkpoint_case(options_of(entry.path(), layer));
        const std::vector<std::string> wanted{"output"};
        const CaseResult result = run_case(vkattn_test::test_device().context(), input, wanted, VKATTN_KERNEL_AUTO);
        const HostTensor expected = read_safetensors(entry.path() / "expected.safetensors").tensors.at("output");
        CHECK(compare(result.outputs.at("output"), expected).nmse < 1e-11);
        ++count;
    }
    CHECK(count == 16);
}

TEST_CASE_FIXTURE(DeviceTest, "LongRoPE takes its short factors up to the length of training, its long ones beyond") {
    // Factors that are all 4 are the linear scaling whose answers PyTorch gave; these sequences have 40 tokens.
    const std::vector<float> fours(8, 4.0F), others(8, 1.5F);
    Copy copy("llama_linear");
    for (const bool is_long : {false, true}) {
        CAPTURE(is_long);
        copy.edit_config({{"original_max_position_embeddings", is_long ? 39 : 40},
                          {"rope_scaling",
                           {{"type", "longrope"},
                            {"factor", nullptr},
                            {"attention_factor", 1.0},
                            {"short_factor", is_long ? others : fours},
                            {"long_factor", is_long ? fours : others}}}});
        const CaseFile input = read_checkpoint_case(options_of(copy.folder()));
        CHECK(input.layer.rope_scaling.kind == VKATTN_ROPE_LONGROPE);
        const std::vector<std::string> wanted{"output"};
        const CaseResult result = run_case(vkattn_test::test_device().context(), input, wanted, VKATTN_KERNEL_AUTO);
        const HostTensor expected = read_safetensors(copy.folder() / "expected.safetensors").tensors.at("output");
        CHECK(compare(result.outputs.at("output"), expected).nmse < 1e-11);
    }
}

TEST_CASE("numbers of rotary scalings that published models have") {
    Copy copy("llama_linear");
    // DeepSeek-R1-0528-Qwen3-8B: attn_factor takes back what YaRN multiplies by.
    copy.edit_config({{"rope_scaling",
                       {{"type", nullptr},
                        {"rope_type", "yarn"},
                        {"factor", 4.0},
                        {"attn_factor", 0.8782488562869419},
                        {"original_max_position_embeddings", 32768}}}});
    const auto scaling = [&] { return read_model_attention(copy.folder() / "config.json", 1, 9).layer.rope_scaling; };
    CHECK(static_cast<double>(scaling().attention_factor) == doctest::Approx(1.0).epsilon(1e-6));
    // Phi-3-mini-128k: the factor is the ratio of the two lengths.
    copy.edit_config({{"max_position_embeddings", 131072},
                      {"original_max_position_embeddings", 4096},
                      {"rope_scaling",
                       {{"rope_type", nullptr},
                        {"type", "su"},
                        {"factor", nullptr},
                        {"attn_factor", nullptr},
                        {"original_max_position_embeddings", nullptr},
                        {"short_factor", std::vector<float>(8, 1.0F)},
                        {"long_factor", std::vector<float>(8, 2.0F)}}}});
    CHECK(scaling().factor == 32.0F);
    CHECK(scaling().original_max_position == 4096);
    CHECK(scaling().attention_factor == 0.0F);
}

TEST_CASE("factors of LongRoPE that are no list for the head are named") {
    Copy copy("llama_linear");
    const auto check = [&](const nlohmann::json &factors, const char *expected) {
        copy.edit_config({{"original_max_position_embeddings", 64},
                          {"rope_scaling", {{"type", "longrope"}, {"factor", 2.0}, {"short_factor", factors}}}});
        copy.check_refused(expected);
    };
    check(nullptr, "'short_factor' is missing, expected 8 numbers above 0");
    check(std::vector<float>(7, 1.0F), "expected 8 numbers above 0");
    check({1, 1, 1, 1, 1, 1, 1, 0}, "expected 8 numbers above 0");
    check({1, 1, 1, 1, 1, 1, 1, "two"}, "expected 8 numbers above 0");
    copy.edit_config({{"rope_scaling", {{"type", "linear"}, {"attn_factor", 2.0}}}});
    copy.check_refused("attn_factor");
}

TEST_CASE("a model of another format is named") {
    Copy copy("llama");
    std::ofstream(copy.folder() / "model.safetensors", std::ios::binary) << "GGUF\x03" << std::string(64, 'x');
    copy.check_refused("is a GGUF file, as llama.cpp has them (vkattn-lm computes those): a format that is not read");
}

TEST_CASE("a model, a layer, a scaling that is not known is named") {
    Copy copy("llama_yarn");
    copy.check_refused("--layer 7: the model has 2 layers", 7);
    copy.edit_config({{"rope_scaling", {{"rope_type", "dynamic"}}}});
    copy.check_refused("dynamic");
    copy.edit_config({{"rope_scaling", {{"rope_type", "yarn"}, {"twist", 2}}}});
    copy.check_refused("twist");
    copy.edit_config({{"rope_scaling", nullptr}, {"partial_rotary_factor", 0.2}});
    copy.check_refused(
        "'partial_rotary_factor' is 0.2, expected at most 1, and an even number of a head's 16 elements");
    copy.edit_config({{"partial_rotary_factor", nullptr},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.2}}}});
    copy.check_refused(
        "'rope_scaling.partial_rotary_factor' is 0.2, expected at most 1, and an even number of a head's");
    copy.edit_config({{"rope_scaling", nullptr}, {"model_type", "mamba"}});
    copy.check_refused("mamba");
    copy.edit_config({{"model_type", "llama"}, {"num_attention_heads", "four"}});
    copy.check_refused("num_attention_heads");
}

TEST_CASE("missing and unknown weights are named") {
    Copy copy("llama");
    copy.edit_weights(
        [](TensorMap &tensors) { tensors["model.layers.1.self_attn.sinks"] = tensors.at(kPrefix + "k_proj.weight"); });
    copy.check_refused("has unknown tensors 'model.layers.1.self_attn.sinks'");
    copy.edit_weights([](TensorMap &tensors) { tensors.erase(kPrefix + "k_proj.weight"); });
    copy.check_refused("lacks " + kPrefix + "k_proj.weight");
    copy.edit_weights([](TensorMap &tensors) { tensors.erase(kPrefix + "o_proj.weight"); });
    copy.check_refused("expected the attention of layer 1");
}

TEST_CASE("norms that the model has must be in its checkpoint") {
    Copy copy("qwen3");
    copy.edit_weights([](TensorMap &tensors) { tensors.erase(kPrefix + "q_norm.weight"); });
    copy.check_refused("lacks " + kPrefix + "q_norm.weight");
}

TEST_CASE("an indexer's weights must be there, and keys that another layer has chosen are refused") {
    Copy copy("glm_moe_dsa");
    copy.check_refused("layer 0 attends the keys that the layer before it has chosen", 0);
    copy.edit_config({{"indexer_types", nullptr}, {"index_topk_pattern", "FS"}});
    copy.check_refused("layer 1 attends the keys");
    copy.edit_config({{"index_topk_pattern", nullptr}, {"index_topk_freq", 4}, {"index_skip_topk_offset", 1}});
    copy.check_refused("layer 1 attends the keys");
    copy.edit_config({{"index_topk_freq", nullptr}, {"index_topk", 0}});
    copy.check_refused("index_topk");
    copy.edit_config({{"index_topk", 7}});
    copy.edit_weights([](TensorMap &tensors) { tensors.erase(kPrefix + "indexer.k_norm.weight"); });
    copy.check_refused("lacks " + kPrefix + "indexer.k_norm.weight");
    copy.edit_config({{"model_type", "deepseek_v3"}});
    copy.check_refused("has unknown tensors '" + kPrefix + "indexer");
}

TEST_CASE("an index is not trusted") {
    Copy copy("mistral_bf16_sharded");
    const std::string index = "model.safetensors.index.json";
    const std::string name = kPrefix + "k_proj.weight";
    for (const char *shard : {"../secret.safetensors", "/etc/passwd", "", "..", "a\\b"}) {
        copy.edit(index, {{"weight_map", {{name, shard}}}});
        copy.check_refused("expected the name of a file in the folder of the index");
    }
    copy.edit(index, {{"weight_map", {{name, "model-00009-of-00003.safetensors"}}}});
    copy.check_refused("does not exist");
    copy.edit(index, {{"weight_map", {{name, "input.safetensors"}}}});
    copy.check_refused("lacks tensor");
    copy.edit(index, {{"weight_map", 3}});
    copy.check_refused("weight_map");
    std::ofstream(copy.folder() / index) << "[[[[[[[[[[[[[[[[";
    copy.check_refused("index");
}

TEST_CASE("the input must be hidden states") {
    Copy copy("llama");
    const HostTensor hidden = read_safetensors(copy.folder() / "input.safetensors").tensors.at("hidden_states");
    write_safetensors(copy.folder() / "input.safetensors", {{}, {{"x", hidden}}});
    copy.check_refused("unknown tensor 'x'");
    write_safetensors(copy.folder() / "input.safetensors", {{}, {}});
    copy.check_refused("has no tensor 'hidden_states'");
}

TEST_SUITE_END();
