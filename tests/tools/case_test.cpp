// Every reference case of tests/data, with both kernels.
#include "compare.hpp"
#include "device.hpp"
#include "temporary_folder.hpp"

#include "tools/cases/case_problem.hpp"
#include "tools/cases/case_runner.hpp"
#include "tools/cases/comparison.hpp"
#include "tools/io/input_error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace vkattn_test;
namespace tools = vkattn::tools;

namespace {

// The answers are PyTorch's in f32, itself no closer than this to the truth.
constexpr double kExpectedNmse = 1e-9;

std::vector<std::filesystem::path> case_files() {
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(VKATTN_TEST_DATA)) {
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

std::vector<float> floats_of(const tools::HostTensor &tensor) {
    const std::vector<double> values = tools::values_of(tensor);
    std::vector<float> floats;
    for (const double value : values) floats.push_back(static_cast<float>(value));
    return floats;
}

void check_case(const tools::CaseFile &file, std::span<const std::string> wanted, vkattn_kernel kernel) {
    INFO(file.name(), ", kernel ", kernel_text(kernel));
    const tools::CaseResult result = tools::run_case(test_device().context(), file, wanted, kernel);
    // without queries or keys no kernel is asked for more than zeros, and linear, gradients and recurrences have kernels of their own
    const bool has_gradients = file.op == "attention_backward";
    const bool attends =
        file.op != "linear" && !has_gradients && !file.is_recurrence() &&
        std::ranges::none_of(file.tensors, [](const auto &named) { return named.second.bytes.empty(); });
    const double most = file.is_recurrence() || has_gradients ? tools::default_tolerance(file) : kExpectedNmse;
    if (attends) CHECK(result.kernel == vkattn_kernel_name(kernel));
    for (const std::string &name : wanted) {
        const tools::HostTensor &actual = result.outputs.at(name);
        const tools::HostTensor &expected = file.expected.at(name);
        CHECK(actual.shape == expected.shape);
        const Comparison comparison =
            compare(name.c_str(), expected.shape, tools::values_of(expected), floats_of(actual), most);
        CHECK_MESSAGE(comparison.passed, comparison.report);
    }
}

} // namespace

TEST_SUITE_BEGIN("cases");

TEST_CASE_FIXTURE(DeviceTest, "every reference case has PyTorch's answer") {
    std::size_t checked = 0;
    for (const std::filesystem::path &path : case_files()) {
        const tools::CaseFile file = tools::read_case(path);
        std::vector<std::string> outputs = tools::expected_outputs(file);
        check_case(file, outputs, VKATTN_KERNEL_UNFUSED);
        std::erase_if(outputs,
                      [](const std::string &name) { return name == "attn_weights" || name == "qk_matmul_output"; });
        check_case(file, outputs, VKATTN_KERNEL_FLASH);
        ++checked;
    }
    CHECK(checked >= 40);
}

#ifdef VKATTN_HAS_JIT
TEST_CASE_FIXTURE(DeviceTest, "every case with functions of its own has its answer") {
    std::size_t checked = 0;
    for (const auto &entry : std::filesystem::directory_iterator(VKATTN_TEST_DATA "/variants")) {
        const tools::CaseFile file = tools::read_case(entry.path());
        const std::vector<std::string> outputs = tools::expected_outputs(file);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_UNFUSED, VKATTN_KERNEL_FLASH})
            check_case(file, outputs, kernel);
        ++checked;
    }
    CHECK(checked >= 5);
}

TEST_CASE_FIXTURE(DeviceTest, "a case file whose functions include themselves, or have long comments, costs little") {
    const TemporaryFolder folder;
    const std::string function =
        "float score_mod(float score, uint batch, uint head, uint query, uint key) { return score; }";
    const auto answer = [&](const std::string &text) {
        tools::Safetensors content;
        content.metadata["vkattn"] = R"({"op": "attention", "score_mod": ")" + text + "\"}";
        for (const char *name : {"q", "k", "v"})
            content.tensors[name] = tools::tensor_of(tools::Dtype::kF32, {1, 1, 4, 16}, std::vector<double>(64, 0.1));
        const std::filesystem::path path = folder.file("hostile.safetensors");
        tools::write_safetensors(path, content);
        const tools::CaseFile file = tools::read_case(path);
        try {
            tools::run_case(test_device().context(), file, std::vector<std::string>{"output"}, VKATTN_KERNEL_FLASH);
        } catch (const std::exception &error) {
            return std::string(error.what());
        }
        return std::string("right");
    };
    CHECK(answer(function) == "right");
    // once 3 GB, and an end by the system
    CHECK(
        answer(R"(#include \"variant_functions.glsl\"\n)" + function).find("score_mod:1:2: 'include' : another text") !=
        std::string::npos);
    // once an end by SIGSEGV: std::regex calls itself for each character
    CHECK(answer("/*" + std::string(400000, 'x') + "*/" + function) == "right");
    CHECK(answer(std::string(2000000, ' ') + function).find("functions: ") != std::string::npos);
    CHECK(answer(R"(#line 99999999999\n)" + function).find("score_mod") != std::string::npos);
    CHECK(answer(R"(#line 99999999999\n)" + function).find("stoi") == std::string::npos);
}
#endif

TEST_CASE_FIXTURE(DeviceTest,
                  "cases of lists of keys, of their choice, and of a layer with an indexer have their answers") {
    std::size_t checked = 0;
    for (const auto &entry : std::filesystem::directory_iterator(std::filesystem::path(VKATTN_TEST_DATA) / "lists")) {
        const tools::CaseFile file = tools::read_case(entry.path());
        INFO(file.name());
        const std::vector<std::string> wanted = tools::expected_outputs(file);
        const tools::CaseResult result = tools::run_case(test_device().context(), file, wanted, VKATTN_KERNEL_AUTO);
        CHECK(tools::compare_case(file, result.outputs).difference.nmse <= tools::default_tolerance(file));
        ++checked;
    }
    CHECK(checked == 9);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a case's K and V are stored in the types that it names, as the reference quantiser rounds") {
    std::mt19937 random(7);
    const HostTensor values = normal_tensor(VKATTN_TYPE_F32, {1, 1, 1, 64}, random);
    const auto as_case = [](const HostTensor &tensor) {
        return tools::tensor_of(tools::Dtype::kF32, tensor.shape(), tensor.values());
    };
    for (const vkattn_type type : quantised_types()) {
        CAPTURE(type_name(type));
        HostTensor expected(type, {1, 1, 1, 64});
        const std::vector<float> floats = values.floats();
        for (std::size_t i = 0; i < floats.size(); i += kBlockElements)
            expected.set_block(i, std::span<const float, kBlockElements>(&floats[i], kBlockElements));
        tools::CaseFile file;
        file.op = "attention";
        file.attention.k_dtype = file.attention.v_dtype = type;
        for (const char *name : {"q", "k", "v"}) file.tensors[name] = as_case(values);
        const std::vector<std::string> wanted = {"output"}; // the one key's value
        const tools::CaseResult result = tools::run_case(test_device().context(), file, wanted, VKATTN_KERNEL_AUTO);
        CHECK(tools::values_of(result.outputs.at("output")) == expected.values());
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a case has the same answers where K and V are rotated before they are stored") {
    for (const char *name : {"nonpad_causal_bottom_right", "ref001_sdpa_mask", "ref004_sdpa_causal",
                             "stored_08_q4_0_f8_e4m3_h4-1_q1_k32_d64-64"}) {
        tools::CaseFile file =
            tools::read_case(std::filesystem::path(VKATTN_TEST_DATA) / (std::string(name) + ".safetensors"));
        INFO(file.name());
        REQUIRE(file.op == "attention");
        file.attention.kv_rotation = VKATTN_ROTATION_HADAMARD;
        const bool quantised = file.attention.k_dtype || file.attention.v_dtype; // other numbers are rounded
        const std::vector<std::string> wanted{"output"};
        const tools::CaseResult result = tools::run_case(test_device().context(), file, wanted, VKATTN_KERNEL_AUTO);
        CHECK(tools::compare(result.outputs.at("output"), file.expected.at("output")).nmse <
              (quantised ? 2e-2 : tools::default_tolerance(file)));
    }
    tools::CaseFile file = tools::read_case(std::filesystem::path(VKATTN_TEST_DATA) / "ref001_sdpa.safetensors");
    file.attention.kv_rotation = VKATTN_ROTATION_HADAMARD;
    const std::vector<std::string> wanted{"output", "present_key"};
    std::string message;
    try {
        (void)tools::make_problem(file, wanted, VKATTN_KERNEL_AUTO);
    } catch (const tools::InputError &error) {
        message = error.what();
    }
    CHECK_MESSAGE(message.find("output 'present_key' beside kv_rotation") != std::string::npos, message);
}

// [B,H,L,D] as packed rows [B*L,H,D].
tools::HostTensor packed(const tools::HostTensor &tensor) {
    const std::uint64_t batch = tensor.shape[0], heads = tensor.shape[1], len = tensor.shape[2], size = tensor.shape[3];
    const std::uint64_t row = size * tools::dtype_bytes(tensor.dtype);
    tools::HostTensor rows{tensor.dtype, {batch * len, heads, size}, {}};
    for (std::uint64_t b = 0; b < batch; ++b)
        for (std::uint64_t i = 0; i < len; ++i)
            for (std::uint64_t h = 0; h < heads; ++h) {
                const auto first =
                    tensor.bytes.begin() + static_cast<std::ptrdiff_t>(((b * heads + h) * len + i) * row);
                rows.bytes.insert(rows.bytes.end(), first, first + static_cast<std::ptrdiff_t>(row));
            }
    return rows;
}

TEST_CASE_FIXTURE(DeviceTest, "a case of packed sequences has the answer of the dense one") {
    for (const char *name : {"ref001_sdpa.safetensors", "ref004_sdpa_causal.safetensors"}) {
        CAPTURE(name);
        tools::CaseFile file = tools::read_case(std::filesystem::path(VKATTN_TEST_DATA) / name);
        const std::uint64_t batch = file.tensors.at("q").shape[0], len = file.tensors.at("q").shape[2];
        for (const char *tensor : {"q", "k", "v"}) file.tensors[tensor] = packed(file.tensors.at(tensor));
        std::vector<std::int32_t> starts;
        for (std::uint64_t b = 0; b <= batch; ++b) starts.push_back(static_cast<std::int32_t>(b * len));
        const std::span<const std::byte> bytes = std::as_bytes(std::span(starts));
        for (const char *tensor : {"cu_seqlens_q", "cu_seqlens_k"})
            file.tensors[tensor] = {tools::Dtype::kI32, {batch + 1}, {bytes.begin(), bytes.end()}};
        const std::vector<std::string> wanted{"output", "lse"};
        const tools::CaseResult result = tools::run_case(test_device().context(), file, wanted, VKATTN_KERNEL_AUTO);
        CHECK(tools::compare(result.outputs.at("output"), packed(file.expected.at("output"))).nmse < 1e-9);
        CHECK(result.outputs.at("lse").shape == std::vector<std::uint64_t>{file.tensors.at("q").shape[1], batch * len});
    }
}

// Tokens begin .. end - 1 of [B,L,D].
tools::HostTensor tokens(const tools::HostTensor &tensor, std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t row = tensor.shape[2] * tools::dtype_bytes(tensor.dtype);
    tools::HostTensor part{tensor.dtype, {tensor.shape[0], end - begin, tensor.shape[2]}, {}};
    for (std::uint64_t b = 0; b < tensor.shape[0]; ++b) {
        const auto first = tensor.bytes.begin() + static_cast<std::ptrdiff_t>((b * tensor.shape[1] + begin) * row);
        part.bytes.insert(part.bytes.end(), first, first + static_cast<std::ptrdiff_t>((end - begin) * row));
    }
    return part;
}

TEST_CASE_FIXTURE(DeviceTest, "an MLA case goes on from past_key alone") {
    for (const char *name : {"ref002_mla_absorb_q24.safetensors", "ref002_mla_naive_q0.safetensors"}) {
        CAPTURE(name);
        tools::CaseFile file = tools::read_case(std::filesystem::path(VKATTN_TEST_DATA) / name);
        const std::vector<std::string> with_cache{"output", "present_key"};
        const vkattn::Context &context = test_device().context();
        const tools::CaseResult whole = tools::run_case(context, file, with_cache, VKATTN_KERNEL_AUTO);
        const tools::HostTensor hidden = file.tensors.at("hidden_states");
        const std::uint64_t past = hidden.shape[1] - 1;
        file.tensors["hidden_states"] = tokens(hidden, past, past + 1);
        file.tensors["past_key"] = tokens(whole.outputs.at("present_key"), 0, past);
        file.tensors.erase("attn_mask"); // the last query sees every key
        file.start_pos = static_cast<std::uint32_t>(past);
        const tools::CaseResult step = tools::run_case(context, file, with_cache, VKATTN_KERNEL_AUTO);
        const tools::HostTensor expected = tokens(whole.outputs.at("output"), past, past + 1);
        CHECK(tools::compare(step.outputs.at("output"), expected).nmse < 1e-10);
        CHECK(tools::compare(step.outputs.at("present_key"), whole.outputs.at("present_key")).nmse < 1e-12);
        file.tensors["past_value"] = file.tensors.at("past_key");
        CHECK_THROWS_WITH_AS(tools::run_case(context, file, with_cache, VKATTN_KERNEL_AUTO),
                             doctest::Contains("expected past_key alone"), tools::InputError);
    }
}

TEST_SUITE_END();
