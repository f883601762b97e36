// The k greatest numbers of rows: against a sort of the host, to the bit.
#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

using namespace vkattn_test;

namespace {

// NaN first; of equal numbers the lower index first.
std::vector<std::int32_t> best_of(const std::vector<float> &row, std::uint64_t k) {
    std::vector<std::int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](std::int32_t i) {
        const float each = row[static_cast<std::size_t>(i)];
        return std::isnan(each) ? std::numeric_limits<double>::infinity() : std::min<double>(each, 1e300);
    };
    std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
    order.resize(k);
    return order;
}

void check_top_k(HostTensor &input, vkattn_type values_type, std::uint64_t k, bool indices_alone = false) {
    const Shape &shape = input.shape();
    HostTensor values(values_type, {shape[0], shape[1], k}), indices(VKATTN_TYPE_I32, {shape[0], shape[1], k});
    vkattn_top_k_desc desc{};
    desc.input = input.view();
    if (!indices_alone) desc.values = values.view();
    desc.indices = indices.view();
    std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                   {VKATTN_ROLE_INDICES, &indices, Access::kWrite}};
    if (!indices_alone) regions.push_back({VKATTN_ROLE_VALUES, &values, Access::kWrite});
    test_device().run(test_device().context().top_k_plan(desc), regions);
    const std::vector<float> numbers = input.floats();
    for (std::uint64_t row = 0; row < shape[0] * shape[1]; ++row) {
        const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(row * shape[2]);
        const std::vector<float> all(begin, begin + static_cast<std::ptrdiff_t>(shape[2]));
        const std::vector<std::int32_t> expected = best_of(all, k);
        std::vector<std::int32_t> found(k);
        std::memcpy(found.data(), indices.bytes().data() + row * k * 4, k * 4);
        CHECK(found == expected);
        for (std::uint64_t i = 0; !indices_alone && i < k; ++i) {
            const float value = all[static_cast<std::size_t>(expected[i])];
            const float given = values.get(row * k + i);
            CHECK(
                (std::isnan(value) ? std::isnan(given) : given == value && std::signbit(given) == std::signbit(value)));
        }
    }
}

std::string message_of(const vkattn_top_k_desc &desc) {
    try {
        (void)test_device().context().top_k_plan(desc);
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_SUITE_BEGIN("top_k");

TEST_CASE_FIXTURE(DeviceTest, "the greatest numbers of rows, the greatest first, in every type") {
    std::mt19937 random(1);
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        HostTensor input = normal_tensor(type, {2, 3, 517}, {3 * 520, 520, 1}, random);
        for (const std::uint64_t k : {1, 7, 300}) check_top_k(input, type, k);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "equal numbers, infinities, zeros of both signs and NaN have an order") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
    const float numbers[] = {0.0f,      -0.0f, kNan,   1.0f, -kInfinity, 1.0f,
                             kInfinity, -0.0f, 1e-40f, kNan, -3.0f,      kInfinity};
    HostTensor input(VKATTN_TYPE_F32, {1, 1, std::size(numbers)});
    for (std::uint64_t i = 0; i < std::size(numbers); ++i) input.set(i, numbers[i]);
    for (std::uint64_t k = 1; k <= std::size(numbers); ++k) check_top_k(input, VKATTN_TYPE_F32, k);
    HostTensor same(VKATTN_TYPE_F16, {1, 2, 9001}); // in two chunks
    for (std::uint64_t i = 0; i < same.elements(); ++i) same.set(i, i % 3 == 0 ? 2.0f : 1.0f);
    check_top_k(same, VKATTN_TYPE_F16, 1, true);
    check_top_k(same, VKATTN_TYPE_F16, 2048);
}

TEST_CASE_FIXTURE(DeviceTest, "rows of a vocabulary take several steps") {
    std::mt19937 random(2);
    HostTensor input = normal_tensor(VKATTN_TYPE_F32, {1, 2, 262144}, random);
    for (const std::uint64_t k : {1, 2048}) check_top_k(input, VKATTN_TYPE_F32, k);
}

TEST_CASE_FIXTURE(DeviceTest, "wrong selections are named; no rows are nothing") {
    vkattn_top_k_desc desc{};
    desc.input = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 40});
    CHECK(message_of(desc) == "values, indices: both absent, expected one of them");
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 2, 41});
    CHECK(message_of(desc) == "indices: shape [1,2,41], expected [B,L,k] with k from 1 to 40");
    desc.indices = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 4});
    CHECK(message_of(desc) == "indices: type F32, expected I32");
    desc.input = vkattn::tensor(VKATTN_TYPE_F32, {1, 0, 40});
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 0, 4});
    CHECK(test_device().context().top_k_plan(desc).report().dispatches == 0);
}

TEST_SUITE_END();
