// What a case file says, and how it becomes a problem of the library; no device is needed.
#include "tools/cases/case_file.hpp"
#include "tools/cases/case_problem.hpp"
#include "tools/cases/comparison.hpp"
#include "tools/io/input_error.hpp"

#include "host_tensor.hpp"
#include "temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>

using namespace vkattn::tools;

namespace {

using Strings = std::vector<std::string>;

// A tensor whose values count up from 0.
HostTensor counting(std::vector<std::uint64_t> shape, Dtype dtype = Dtype::kF32) {
    std::uint64_t count = 1;
    for (const std::uint64_t size : shape) count *= size;
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), 0.0);
    return tensor_of(dtype, std::move(shape), values);
}

HostTensor bools(std::vector<std::uint64_t> shape) {
    HostTensor tensor{Dtype::kBool, std::move(shape), {}};
    tensor.bytes.resize(tensor_bytes(Dtype::kBool, tensor.shape).value());
    return tensor;
}

CaseFile make_case(const std::string &config, TensorMap tensors = {}) {
    return parse_case("case.safetensors", {{{"vkattn", config}}, std::move(tensors)});
}

TensorMap qkv() {
    return {{"q", counting({1, 4, 3, 8})}, {"k", counting({1, 2, 5, 8})}, {"v", counting({1, 2, 5, 6})}};
}

template <typename Action>
void check_error(const Action &action, const std::string &part) {
    try {
        action();
        FAIL_CHECK("no error, expected one that says: ", part);
    } catch (const InputError &error) {
        const std::string message = error.what();
        INFO(message);
        CHECK(message.starts_with("case.safetensors: "));
        CHECK(message.find(part) != std::string::npos);
        CHECK(message.find("expected") != std::string::npos);
    }
}

void check_config_error(const std::string &config, const std::string &part) {
    check_error([&] { make_case(config); }, part);
}

void check_problem_error(const std::string &config, const TensorMap &tensors, const std::string &part,
                         const Strings &wanted = {"output"}) {
    const CaseFile input = make_case(config, tensors);
    check_error([&] { make_problem(input, wanted, VKATTN_KERNEL_AUTO); }, part);
}

vkattn_attention_desc describe(const CaseFile &input, const Strings &wanted = {"output"}) {
    return std::get<vkattn_attention_desc>(make_problem(input, wanted, VKATTN_KERNEL_AUTO).description);
}

const std::string kAttention = R"({"op":"attention"})";
const std::string kMha = R"({"op":"mha","embed_dim":16,"num_heads":4,"num_kv_heads":2})";

} // namespace

TEST_SUITE_BEGIN("case files");

TEST_CASE("every reference case is read") {
    std::size_t count = 0;
    for (const auto &entry : std::filesystem::directory_iterator(VKATTN_TEST_DATA)) {
        if (entry.path().extension() != ".safetensors") continue;
        INFO(entry.path());
        const CaseFile input = read_case(entry.path());
        CHECK(input.expected.contains(input.op == "attention_backward" ? "d_query" : "output"));
        Strings wanted;
        for (const auto &[name, tensor] : input.expected) wanted.push_back(name);
        const Problem problem = make_problem(input, wanted, VKATTN_KERNEL_AUTO);
        for (const ProblemOutput &output : problem.outputs)
            if (input.expected.contains(output.name)) CHECK(output.shape == input.expected.at(output.name).shape);
        ++count;
    }
    CHECK(count >= 40);
}

TEST_CASE("metadata that is not a known op with known keys is refused") {
    check_error([] { parse_case("case.safetensors", {}); }, "no metadata 'vkattn'");
    check_config_error("", "not JSON");
    check_config_error("[]", "is a JSON array");
    check_config_error(R"("attention")", "is a JSON string");
    check_config_error("{}", "no \"op\"");
    check_config_error(R"({"op":7})", "no \"op\"");
    check_config_error(R"({"op":"sdpa"})", "unknown op 'sdpa'");
    check_config_error(R"({"op":"attention","colour":1})", "unknown config key 'colour'");
    check_config_error(R"({"op":"attention","embed_dim":64})", "unknown config key 'embed_dim'");
    check_config_error(R"({"op":"attention","scale":1,"scale":2})", "'scale' twice");
}

TEST_CASE("what is no case is refused before its tensors are read") {
    const vkattn_test::TemporaryFolder folder;
    const std::filesystem::path path = folder.file("case.safetensors");
    constexpr std::uint64_t kBytes = std::uint64_t{1} << 40; // more than any memory here: reading it must fail
    const std::string header = R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})";
    const std::uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(&length), sizeof length) << header;
    file.seekp(static_cast<std::streamoff>(kBytes - 1), std::ios::cur).put('\0'); // after a hole
    file.close();
    REQUIRE(file);
    CHECK_THROWS_WITH_AS(read_case(path),
                         (path.string() + ": has no metadata 'vkattn', expected a JSON object with \"op\" and its "
                                          "configuration")
                             .c_str(),
                         InputError);
}

TEST_CASE("configuration of the wrong type or range is refused") {
    check_config_error(R"({"op":"attention","is_causal":2})", "'is_causal' is 2");
    check_config_error(R"({"op":"attention","is_causal":"yes"})", "'is_causal'");
    check_config_error(R"({"op":"attention","scale":"0.5"})", "'scale'");
    check_config_error(R"({"op":"attention","scale":1e300})", "32-bit float");
    check_config_error(R"({"op":"attention","scale":NaN})", "not JSON");
    check_config_error(R"({"op":"attention","q_num_heads":-1})", "'q_num_heads'");
    check_config_error(R"({"op":"attention","q_num_heads":4294967296})", "'q_num_heads'");
    check_config_error(R"({"op":"attention","window_left":-2})", "'window_left'");
    check_config_error(R"({"op":"attention","causal_alignment":"middle"})", "top_left or bottom_right");
    check_config_error(R"({"op":"attention","qk_matmul_output_mode":4})", "'qk_matmul_output_mode'");
    check_config_error(R"({"op":"mha","num_heads":4})", "'embed_dim' is missing");
    check_config_error(R"({"op":"mha","embed_dim":64,"num_heads":4,"head_dim":0})",
                       "'head_dim' is 0, expected at least");
    check_config_error(R"({"op":"attention","kv_num_heads":0})", "'kv_num_heads' is 0, expected at least 1");
    check_config_error(R"({"op":"mha","embed_dim":64,"num_heads":4,"kv_head_mapping":"odd"})", "grouped or modulo");
}

TEST_CASE("what this version cannot do is said") {
    check_config_error(R"({"op":"mha","embed_dim":16,"num_heads":4,"dropout_p":0.1})", "layers have no dropout");
    check_config_error(R"({"op":"attention","k_dtype":"q4_K"})", "k_dtype");
    for (const std::string name : {"cu_seqlens_k", "block_table"}) {
        TensorMap tensors = qkv();
        tensors[name] = {Dtype::kI32, {2}, std::vector<std::byte>(8)};
        check_problem_error(kAttention, tensors, "tensor '" + name + "' beside", {"output", "present_key"});
        check_problem_error(kAttention, tensors, "output 'attn_weights' beside tensor '" + name + "'",
                            {"output", "attn_weights"});
        tensors[name].dtype = Dtype::kF16;
        tensors[name].bytes.resize(4);
        check_problem_error(kAttention, tensors, "'" + name + "' is F16, expected I32 or I64");
    }
    CHECK_NOTHROW(make_case(R"({"op":"attention","dropout_p":0.0,"dropout_seed":18446744073709551615})"));
}

TEST_CASE("a flag may be a bool or a number") {
    for (const std::string value : {"1", "true"})
        CHECK(make_case(R"({"op":"attention","is_causal":)" + value + "}").mask.flags == VKATTN_MASK_CAUSAL);
    for (const std::string value : {"0", "false"})
        CHECK(make_case(R"({"op":"attention","is_causal":)" + value + "}").mask.flags == VKATTN_MASK_NONE);
}

TEST_CASE("the configuration of attention reaches the description") {
    const CaseFile input =
        make_case(R"({"op":"attention","scale":0.5,"softcap":30,"is_causal":true,"causal_alignment":"bottom_right",)"
                  R"("window_left":7,"kv_head_mapping":"modulo","qk_matmul_output_mode":2})",
                  qkv());
    const vkattn_attention_desc desc = describe(input, {"output", "lse", "attn_weights", "qk_matmul_output"});
    CHECK((desc.scale.present == 1 && desc.scale.value == 0.5F));
    CHECK(desc.softcap == 30.0F);
    CHECK(desc.mask_flags == (VKATTN_MASK_CAUSAL | VKATTN_MASK_WINDOW));
    CHECK(desc.causal_alignment == VKATTN_CAUSAL_BOTTOM_RIGHT);
    CHECK(desc.window_left == 7);
    CHECK(desc.window_right == -1);
    CHECK(desc.kv_head_mapping == VKATTN_KV_HEADS_MODULO);
    CHECK(desc.score_stage == VKATTN_SCORES_MASKED);
    CHECK(desc.log_sum_exp.rank == 3);
    CHECK(desc.attn_weights.shape[3] == 5);
    CHECK(desc.qk_matmul_output.shape[1] == 4);
    CHECK(desc.output.shape[3] == 6);
}

TEST_CASE("a scale of 0 in the configuration is no absent one") {
    CHECK(describe(make_case(R"({"op":"attention","scale":0})", qkv())).scale.present == 1);
    CHECK(describe(make_case(kAttention, qkv())).scale.present == 0);
}

TEST_CASE("an absent alignment is ONNX's: bottom right beside nonpad_kv_seqlen without a past") {
    const std::string top_left = R"({"op":"attention","causal_alignment":"top_left"})";
    TensorMap tensors = qkv();
    CHECK(make_case(kAttention, tensors).causal_alignment() == VKATTN_CAUSAL_TOP_LEFT);
    tensors["nonpad_kv_seqlen"] = {Dtype::kI32, {1}, std::vector<std::byte>(4)};
    CHECK(make_case(kAttention, tensors).causal_alignment() == VKATTN_CAUSAL_BOTTOM_RIGHT);
    CHECK(make_case(top_left, tensors).causal_alignment() == VKATTN_CAUSAL_TOP_LEFT);
    CHECK(make_case(R"({"op":"mha","embed_dim":8,"num_heads":2})", tensors).causal_alignment() ==
          VKATTN_CAUSAL_TOP_LEFT);
    tensors["past_key"] = counting({1, 2, 0, 4});
    CHECK(make_case(kAttention, tensors).causal_alignment() == VKATTN_CAUSAL_TOP_LEFT);
}

TEST_CASE("blocks of queries and keys reach the description") {
    TensorMap tensors = qkv();
    tensors["block_mask"] = {Dtype::kI32, {1, 1, 2, 3}, std::vector<std::byte>(24)};
    const CaseFile input = make_case(R"({"op":"attention","block_q_len":2,"block_kv_len":2})", tensors);
    const vkattn_attention_desc desc = describe(input);
    CHECK(desc.block_mask.type == VKATTN_TYPE_I32);
    CHECK(desc.block_mask.shape[3] == 3);
    CHECK(desc.block_q_len == 2);
    CHECK(desc.block_kv_len == 2);
    tensors["block_mask"] = counting({1, 1, 2, 3});
    check_problem_error(kAttention, tensors, "'block_mask' is F32, expected I32 or I64");
    check_problem_error(R"({"op":"attention","block_q_len":2})", qkv(), "expected a tensor 'block_mask'");
}

TEST_CASE("3-D tensors are 4-D ones by their strides") {
    const CaseFile input =
        make_case(R"({"op":"attention","q_num_heads":4,"kv_num_heads":2})", {{"q", counting({2, 3, 32}, Dtype::kF16)},
                                                                             {"k", counting({2, 5, 16}, Dtype::kF16)},
                                                                             {"v", counting({2, 5, 12}, Dtype::kF16)}});
    const Problem problem = make_problem(input, Strings{"output"}, VKATTN_KERNEL_AUTO);
    const auto &desc = std::get<vkattn_attention_desc>(problem.description);
    CHECK(std::vector<std::uint64_t>(desc.query.shape, desc.query.shape + 4) == std::vector<std::uint64_t>{2, 4, 3, 8});
    CHECK(std::vector<std::uint64_t>(desc.query.strides, desc.query.strides + 4) ==
          std::vector<std::uint64_t>{96, 8, 32, 1});
    CHECK(std::vector<std::uint64_t>(desc.value.strides, desc.value.strides + 4) ==
          std::vector<std::uint64_t>{60, 6, 12, 1});
    CHECK(problem.outputs.front().shape == std::vector<std::uint64_t>{2, 3, 24});
    CHECK(problem.outputs.front().dtype == Dtype::kF16);
    CHECK(desc.output.strides[1] == 6);
}

TEST_CASE("shapes that fit no head are refused") {
    TensorMap tensors = qkv();
    tensors["q"] = counting({1, 3, 32});
    check_problem_error(kAttention, tensors, "'q_num_heads'");
    check_problem_error(R"({"op":"attention","q_num_heads":5})", tensors, "5 heads divide");
    check_problem_error(R"({"op":"attention","q_num_heads":8})", qkv(), "expected 8 heads");
    tensors["q"] = counting({4, 8});
    check_problem_error(kAttention, tensors, "'q' is [4,8]");
    tensors.erase("q");
    check_problem_error(kAttention, tensors, "'q' is missing");
}

TEST_CASE("tensors of unknown names and wrong types are named") {
    TensorMap tensors = qkv();
    tensors["bias"] = counting({1});
    check_problem_error(kAttention, tensors, "unknown tensor 'bias'");
    tensors = qkv();
    tensors["k"] = {Dtype::kF64, {1, 2, 5, 8}, std::vector<std::byte>(640)};
    check_problem_error(kAttention, tensors, "'k' is F64");
    tensors = qkv();
    tensors["key_padding_mask"] = counting({1, 5});
    check_problem_error(kAttention, tensors, "'key_padding_mask' is F32, expected BOOL");
    tensors = qkv();
    tensors["nonpad_kv_seqlen"] = counting({1});
    check_problem_error(kAttention, tensors, "'nonpad_kv_seqlen' is F32, expected I32 or I64");
    check_problem_error(kAttention, qkv(), "no output 'weights'", {"weights"});
    check_problem_error(kMha, {{"hidden_states", counting({1, 3, 16})}}, "no output 'lse'", {"lse"});
}

TEST_CASE("the past stands in front of the new keys, whatever their storage") {
    TensorMap tensors{{"q", counting({1, 4, 1, 4})},
                      {"k", tensor_of(Dtype::kF32, {1, 2, 4}, std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7})},
                      {"v", counting({1, 2, 2, 2})},
                      {"past_key", tensor_of(Dtype::kF32, {1, 2, 1, 2}, std::vector<double>{90, 91, 92, 93})},
                      {"past_value", counting({1, 2, 1, 2})}};
    const CaseFile input = make_case(R"({"op":"attention","kv_num_heads":2})", tensors);
    const Problem problem = make_problem(input, Strings{"present_key"}, VKATTN_KERNEL_AUTO);
    const auto &desc = std::get<vkattn_attention_desc>(problem.description);
    CHECK((desc.past_len.present == 1 && desc.past_len.value == 1));
    CHECK(desc.key.shape[2] == 3);
    const HostTensor &key = *problem.converted.front();
    CHECK(values_of(key) == std::vector<double>{90, 91, 0, 1, 4, 5, 92, 93, 2, 3, 6, 7});

    tensors.erase("past_value");
    check_problem_error(R"({"op":"attention","kv_num_heads":2})", tensors, "expected both or neither");
    tensors["past_value"] = counting({1, 2, 3, 2});
    check_problem_error(R"({"op":"attention","kv_num_heads":2})", tensors, "past length");
    tensors["past_value"] = counting({1, 2, 1, 3});
    check_problem_error(R"({"op":"attention","kv_num_heads":2})", tensors, "'past_value' is [1,2,1,3]");
}

TEST_CASE("k_dtype and v_dtype convert on the way") {
    const CaseFile input = make_case(R"({"op":"attention","k_dtype":"f16","v_dtype":"bf16"})", qkv());
    const vkattn_attention_desc desc = describe(input);
    CHECK(desc.query.type == VKATTN_TYPE_F32);
    CHECK(desc.key.type == VKATTN_TYPE_F16);
    CHECK(desc.value.type == VKATTN_TYPE_BF16);
    CHECK(default_tolerance(input) == 5e-5);
    CHECK(default_tolerance(make_case(kAttention, qkv())) == 1e-9);
}

TEST_CASE("quantised k_dtype and v_dtype take whole blocks") {
    const CaseFile odd = make_case(R"({"op":"attention","k_dtype":"q8_0"})", qkv());
    CHECK(default_tolerance(odd) == 1e-5);
    check_problem_error(R"({"op":"attention","k_dtype":"q8_0"})", qkv(), "expected a multiple of 32");
}

TEST_CASE("64-bit key lengths are clamped to 32 bits") {
    TensorMap tensors = qkv();
    const std::vector<std::int64_t> lengths{std::numeric_limits<std::int64_t>::max()};
    const auto bytes = std::as_bytes(std::span(lengths));
    tensors["nonpad_kv_seqlen"] = {Dtype::kI64, {1}, {bytes.begin(), bytes.end()}};
    const CaseFile input = make_case(kAttention, tensors);
    const Problem problem = make_problem(input, Strings{"output"}, VKATTN_KERNEL_AUTO);
    CHECK(std::get<vkattn_attention_desc>(problem.description).key_lengths.type == VKATTN_TYPE_I32);
    CHECK(values_of(*problem.converted.front()) == std::vector<double>{std::numeric_limits<std::int32_t>::max()});
}

TEST_CASE("a layer's tensors are told apart from its weights") {
    const CaseFile input = make_case(kMha, {{"query", counting({2, 3, 16})},
                                            {"key", counting({2, 5, 16})},
                                            {"attn_mask", bools({3, 9})},
                                            {"past_key", counting({2, 2, 4, 4})},
                                            {"past_value", counting({2, 2, 4, 4})},
                                            {"q_proj.weight", counting({16, 16})},
                                            {"q_proj.bias", counting({16})}});
    const Problem problem = make_problem(input, Strings{"attn_weights", "present_key"}, VKATTN_KERNEL_FLASH);
    const auto &layer = std::get<LayerProblem>(problem.description);
    REQUIRE(layer.weights.size() == 2);
    CHECK(std::string(layer.weights[0].name) == "q_proj.bias");
    CHECK(layer.config.num_kv_heads == 2);
    CHECK(layer.call.kernel == VKATTN_KERNEL_FLASH);
    CHECK(layer.call.value.shape[1] == 5); // the keys' sequence
    CHECK(layer.call.attn_weights.shape[3] == 9);
    CHECK(layer.call.present_value.shape[2] == 9);
    CHECK(layer.call.attn_mask.type == VKATTN_TYPE_BOOL);
}

TEST_CASE("a layer's tensors that contradict each other are refused") {
    const HostTensor sequence = counting({1, 3, 16});
    check_problem_error(kMha, {}, "'query' is missing");
    check_problem_error(kMha, {{"hidden_states", sequence}, {"key", sequence}}, "hidden_states beside");
    check_problem_error(kMha, {{"query", sequence}, {"value", sequence}}, "value without key");
    check_problem_error(kMha, {{"query", counting({3, 16})}}, "'query' is [3,16]");
    check_problem_error(kMha, {{"query", sequence}, {"past_key", counting({1, 2, 3, 4})}}, "both or neither");
    check_problem_error(kMha, {{"query", sequence}, {"past_k_latent", counting({1, 2, 3})}}, "no input of op 'mha'");
    check_problem_error(kMha, {{"query", sequence}, {"w", counting({1, 1, 1, 1, 1})}}, "'w' is [1,1,1,1,1]");
    check_problem_error(kMha, {{"query", sequence}, {"w", bools({4})}}, "'w' is BOOL");
}

TEST_CASE("NMSE is the error's energy over the reference's, and nothing slips past it") {
    const double infinity = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto difference = [](const std::vector<double> &actual, const std::vector<double> &expected) {
        return compare(tensor_of(Dtype::kF32, {actual.size()}, actual),
                       tensor_of(Dtype::kF32, {expected.size()}, expected));
    };
    CHECK(difference({3, 4}, {3, 4}).nmse == 0.0);
    CHECK(difference({3, 5}, {3, 4}).nmse == doctest::Approx(1.0 / 25.0));
    CHECK(difference({3, 5}, {3, 4}).max_abs_error == 1.0);
    CHECK(difference({0, 0}, {0, 0}).nmse == 0.0);
    CHECK(difference({0, 1}, {0, 0}).nmse == infinity);
    CHECK(difference({-infinity, 4}, {-infinity, 4}).nmse == 0.0);
    CHECK(difference({0, 4}, {-infinity, 4}).nmse == infinity);
    CHECK(difference({nan, 4}, {3, 4}).nmse == infinity);
    CHECK(difference({nan, 4}, {nan, 4}).nmse == infinity);
}

TEST_CASE("an expected tensor of another shape, or none at all, cannot be checked") {
    CaseFile input = make_case(kAttention, qkv());
    check_error([&] { compare_case(input, {}); }, "nothing to check");
    input.expected["output"] = counting({2, 3});
    check_error([&] { compare_case(input, {{"output", counting({3, 2})}}); }, "'expected.output' is [2,3]");
}

TEST_SUITE_END();
