// Every reference case of tests/data, with both kernels.
#include "compare.hpp"
#include "device.hpp"

#include "case_runner.hpp"

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
    CHECK(result.kernel == vkattn_kernel_name(kernel));
    for (const std::string &name : wanted) {
        const tools::HostTensor &actual = result.outputs.at(name);
        const tools::HostTensor &expected = file.expected.at(name);
        CHECK(actual.shape == expected.shape);
        const Comparison comparison =
            compare(name.c_str(), expected.shape, tools::values_of(expected), floats_of(actual), kExpectedNmse);
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

TEST_SUITE_END();
