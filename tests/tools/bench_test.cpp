// What vkattn bench measures and prints. Times are never judged: only that they are times, and what is made of them.
#include "device.hpp"
#include "lines.hpp"
#include "tools/bench/attention.hpp"
#include "tools/bench/linear.hpp"
#include "tools/bench/report.hpp"
#include "tools/io/input_error.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace vkattn_test;
using namespace vkattn::tools;

namespace {

// 1, 2, 4 ms for 1024, 2048, 4096 keys: 8 GFLOP and 1 MB in 1 ms.
BenchReport sweep() {
    BenchReport report;
    std::snprintf(report.device.name, sizeof report.device.name, "Device \"X\", 8 lanes");
    for (std::uint32_t scale = 1; scale <= 4; scale *= 2) {
        BenchPoint point;
        point.sizes = {{"batch", 1}, {"q_len", 1}, {"kv_len", 1024 * scale}};
        point.times.kernel = "decode";
        point.times.best = point.times.wall = {1.0 * scale, 1.0 * scale, 1.0 * scale};
        point.times.flops = 8e9 * scale;
        point.times.bytes = 1e6 * scale;
        report.points.push_back(point);
    }
    return report;
}

} // namespace

TEST_SUITE_BEGIN("bench");

TEST_CASE_FIXTURE(DeviceTest, "the peaks of the device are rates") {
    const Peaks peaks = measure_peaks(test_device().context());
    CHECK(std::isfinite(peaks.flops_per_second));
    CHECK(std::isfinite(peaks.bytes_per_second));
    CHECK(peaks.flops_per_second > 1e6);
    CHECK(peaks.bytes_per_second > 1e6);
    CHECK((peaks.matrix_flops_per_second > 1e6) == can_run(test_device().facts(), VKATTN_KERNEL_COOPMAT));
}

TEST_CASE_FIXTURE(DeviceTest, "a problem is timed, dense and in pages") {
    AttentionShape shape;
    RepeatOptions options;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.q_len = 3;
    shape.kv_len = 50;
    shape.head_dim = 16;
    options.repeat = 2;
    for (const std::uint32_t page_size : {0u, 16u}) {
        shape.page_size = page_size;
        const OperationTimes times = time_attention(test_device().context(), shape, options, VKATTN_KERNEL_FLASH);
        CHECK(times.kernel == "flash");
        CHECK(times.runs == 2);
        CHECK(times.wall.median > 0.0);
        CHECK(times.flops == 2.0 * 4 * 3 * 50 * (16 + 16));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "hidden blocks are not counted") {
    AttentionShape shape;
    shape.heads = 2;
    shape.q_len = shape.kv_len = 100;
    shape.head_dim = 16;
    shape.block_size = 30; // four by four blocks, of 30, 30, 30 and 10
    const RepeatOptions once{.input_sets = 1, .repeat = 1};
    const auto flops = [&] { return time_attention(test_device().context(), shape, once, VKATTN_KERNEL_AUTO).flops; };
    const double of_pair = 2.0 * 2 * (16 + 16);
    shape.visible_blocks = 100;
    CHECK(flops() == 100 * 100 * of_pair);
    shape.causal = true;
    CHECK(flops() == 100 * 101 / 2 * of_pair);
    shape.causal = false;
    shape.visible_blocks = 50;
    const double pairs = flops() / of_pair; // two blocks for each query, one of which may be the short one
    CHECK(pairs >= 100 * 40);
    CHECK(pairs <= 100 * 60);
    const std::vector<std::int32_t> states = block_states(shape);
    CHECK(std::ranges::count(states, VKATTN_BLOCK_FULL) == 8);
}

TEST_CASE_FIXTURE(DeviceTest, "a choice of keys is timed") {
    AttentionShape shape{.heads = 3, .q_len = 2, .kv_len = 50, .head_dim = 32, .kv_dtype = "q8_0", .index = 5};
    const RepeatOptions twice{.input_sets = 1, .repeat = 2};
    for (const std::uint32_t page_size : {0u, 16u}) {
        shape.page_size = page_size;
        const OperationTimes times = time_index(test_device().context(), shape, twice);
        CHECK(times.kernel.starts_with("index_"));
        CHECK(times.runs == 2);
        CHECK(times.wall.median > 0.0);
        CHECK(times.flops == 2.0 * 3 * 2 * 50 * 32);
        const int rows = page_size == 0 ? 50 : 64;
        CHECK(times.bytes == 3 * 2 * 32 * 2 + rows * 34 + 2 * 3 * 4 + 2 * 5 * 4);
    }
    CHECK(shape_text(shape, "q_len 2").ends_with("pages of 16, choice of 5 keys"));
}

TEST_CASE_FIXTURE(DeviceTest, "a product with a weight matrix is timed") {
    const LinearShape shape{.rows = 3, .in_features = 50, .out_features = 20, .dtype = "f16", .weight_dtype = "f32"};
    const OperationTimes times =
        time_linear(test_device().context(), shape, RepeatOptions{.input_sets = 1, .repeat = 2});
    CHECK(times.kernel.starts_with("linear"));
    CHECK(times.runs == 2);
    CHECK(times.input_sets == 1);
    CHECK(times.wall.median > 0.0);
    CHECK(times.flops == 2.0 * 3 * 50 * 20);
    CHECK(times.bytes == 3 * 50 * 2 + 50 * 20 * 4 + 3 * 20 * 2);
    LinearShape normed = shape;
    normed.input_norm = true;
    CHECK(time_linear(test_device().context(), normed, RepeatOptions{.input_sets = 1, .repeat = 2}).bytes ==
          times.bytes + 50 * 2);
    CHECK(shape_text(normed) == "50 to 20 features, f16, weights f32, RMSNorm of the input");
    LinearShape gated = shape;
    gated.gated = true;
    CHECK(time_linear(test_device().context(), gated, RepeatOptions{.input_sets = 1, .repeat = 2}).bytes ==
          times.bytes + 50 * 20 * 4);
    CHECK(shape_text(gated) == "50 to 20 features, f16, weights f32, gated");
    LinearShape wrong = shape;
    wrong.weight_dtype = "f8_e4m3";
    CHECK_THROWS_WITH_AS(time_linear(test_device().context(), wrong, {}),
                         "--weight-dtype f8_e4m3: no such type, expected f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, "
                         "iq4_nl, q4_K, q5_K or q6_K",
                         InputError);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("bench.report");

TEST_CASE("rates, and the part of the roofline: the slower of arithmetic and memory") {
    const OperationTimes times = sweep().points.front().times;
    CHECK(times.gflops() == doctest::Approx(8000.0));
    CHECK(times.gbytes_per_s() == doctest::Approx(1.0));
    CHECK(times.bound_seconds({16e12, 0.0, 1e12}) == doctest::Approx(0.5e-3));
    CHECK(times.bound_seconds({16e12, 0.0, 1.25e9}) == doctest::Approx(0.8e-3));
}

TEST_CASE("one point is an object, several are an array") {
    BenchReport report = sweep();
    report.peaks = {16e12, 0.0, 1.25e9};
    std::ostringstream several, one;
    print_json(several, report);
    const nlohmann::json array = nlohmann::json::parse(several.str());
    REQUIRE(array.size() == 3);
    CHECK(array[2].at("kv_len") == 4096);
    CHECK(array[2].at("median_ms") == 4.0);
    CHECK(array[2].at("percent_of_roofline").get<double>() == doctest::Approx(80.0));
    CHECK(array[2].at("bound_ms").get<double>() == doctest::Approx(3.2));
    CHECK(array[2].at("bound_by") == "memory");
    report.points.resize(1);
    report.peaks.reset();
    print_json(one, report);
    const nlohmann::json object = nlohmann::json::parse(one.str());
    for (const char *key : {"device", "driver", "kernel", "median_ms", "min_ms", "gflops", "gbytes_per_s",
                            "first_dispatch_ms", "workspace_bytes", "op", "problem", "flops", "bytes"})
        CHECK(object.contains(key));
    CHECK_FALSE(object.contains("percent_of_roofline"));
}

TEST_CASE("comma-separated values: a header, a row a point, text in quotes") {
    std::ostringstream out;
    print_csv(out, sweep());
    const std::vector<std::string> lines = lines_of(out.str());
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].starts_with("device,driver,batch,q_len,kv_len,kernel,"));
    CHECK(lines[3].starts_with("\"Device \"\"X\"\", 8 lanes\",\"version 0\",1,1,4096,\"decode\","));
}

TEST_CASE("a table's rows are its points") {
    BenchReport report = sweep();
    report.peaks = {16e12, 0.0, 1.25e9};
    std::ostringstream out;
    print_text(out, report);
    const std::vector<std::string> lines = lines_of(out.str());
    CHECK(lines.back().find("4096") != std::string::npos);
    CHECK(lines.back().find("80 %") != std::string::npos);
    CHECK(lines.back().ends_with("memory"));
}

TEST_SUITE_END();
