#pragma once

#include "runtime/plan/builder.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/trial_values.hpp"
#include "runtime/vulkan/memory.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

// What trials of operators are made of.

// A tensor's buffer, poisoned, and its region of a role.
class RoleBuffer {
  public:
    RoleBuffer(Context &context, vkattn_role role, const vkattn_tensor &tensor)
        : tensor_(tensor), buffer_(context, extent_bytes(tensor), "vkattn self-test"), role_(role) {
        const std::vector<std::byte> poison(buffer_.bytes(), std::byte{0xff});
        buffer_.write(0, poison.data(), poison.size());
    }

    std::vector<float> randomise(TrialNumbers &numbers) {
        const std::vector<std::byte> bytes = bytes_of_numbers(tensor_, numbers);
        buffer_.write(0, bytes.data(), bytes.size());
        return numbers_in(bytes, tensor_);
    }
    void write(std::span<const int32_t> entries) { buffer_.write(0, entries.data(), entries.size_bytes()); }
    void write(std::span<const float> values) { buffer_.write(0, values.data(), values.size_bytes()); }
    std::vector<int32_t> read(uint64_t offset, uint64_t count) {
        std::vector<int32_t> entries(count);
        buffer_.read(offset, entries.data(), count * sizeof(int32_t));
        return entries;
    }
    std::vector<float> numbers() { // of F32
        std::vector<float> values(buffer_.bytes() / sizeof(float));
        buffer_.read(0, values.data(), values.size() * sizeof(float));
        return values;
    }
    View view() const { return {tensor_, {Source::Kind::kRole, role_, VK_NULL_HANDLE, 0}}; }
    vkattn_binding binding() const { return {role_, {buffer_.handle(), 0, buffer_.bytes()}}; }
    const vkattn_tensor &tensor() const { return tensor_; }

  private:
    vkattn_tensor tensor_;
    Buffer buffer_;
    vkattn_role role_;
};

// Runs the plan that plan(PlanBuilder &, const Desc &) makes of a description.
template <class Desc>
void run_plan(Context &context, void (*plan)(PlanBuilder &, const Desc &), const Desc &desc,
              const std::vector<const RoleBuffer *> &buffers) {
    PlanBuilder builder(context);
    plan(builder, desc);
    std::vector<vkattn_binding> bindings;
    for (const RoleBuffer *buffer : buffers) bindings.push_back(buffer->binding());
    builder.build()->run(bindings);
}

constexpr double kMostError = 1e-6;

inline std::string compare_numbers(const std::vector<float> &actual, const std::vector<double> &expected,
                                   double most_error = kMostError) {
    const double error = nmse(actual, expected);
    if (error <= most_error) return ""; // false for NaN
    return text("wrong numbers, NMSE ", error, ", expected at most ", most_error);
}

inline std::string compare_entries(const char *what, const std::vector<int32_t> &actual,
                                   const std::vector<int32_t> &expected) {
    const auto [at, wanted] = std::ranges::mismatch(actual, expected);
    if (wanted == expected.end()) return "";
    return text("wrong numbers, ", what, " ", wanted - expected.begin(), " is ", *at, ", expected ", *wanted);
}

} // namespace vkattn
