#include "runtime/device/device_overrides.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>
#include <type_traits>

namespace vkattn {
namespace {

struct Trait {
    std::string_view name;
    uint32_t DeviceTraits::*member;
};

constexpr Trait kTraits[] = {
    {"max_loop_iterations", &DeviceTraits::max_loop_iterations},
    {"scalar_address_loads", &DeviceTraits::scalar_address_loads},
    {"most_addressed_linear_rows", &DeviceTraits::most_addressed_linear_rows},
    {"widest_divergent_addresses", &DeviceTraits::widest_divergent_addresses},
    {"parallel_workgroups", &DeviceTraits::parallel_workgroups},
    {"max_dispatch_megaflops", &DeviceTraits::max_dispatch_megaflops},
    {"unpacks_halves", &DeviceTraits::unpacks_halves},
    {"specialised_arrays", &DeviceTraits::specialised_arrays},
    {"self_test", &DeviceTraits::self_test},
    {"matrix_m", &DeviceTraits::matrix_m},
    {"matrix_n", &DeviceTraits::matrix_n},
    {"matrix_k", &DeviceTraits::matrix_k},
    {"matrix_units", &DeviceTraits::matrix_units},
    {"widest_matrix_subgroup", &DeviceTraits::widest_matrix_subgroup},
    {"unroll_matrices", &DeviceTraits::unroll_matrices},
    {"matrix_outputs", &DeviceTraits::matrix_outputs},
    {"fewest_matrix_rows", &DeviceTraits::fewest_matrix_rows},
};

template <class Number>
struct Limit {
    std::string_view name;
    Number vkattn_device_facts::*member;
};

constexpr Limit<uint32_t> kLimits[] = {
    {"max_shared_memory_bytes", &vkattn_device_facts::max_shared_memory_bytes},
    {"max_workgroup_invocations", &vkattn_device_facts::max_workgroup_invocations},
    {"max_push_constants_bytes", &vkattn_device_facts::max_push_constants_bytes},
    {"subgroup_features", &vkattn_device_facts::subgroup_features},
    {"subgroup_size_control", &vkattn_device_facts::subgroup_size_control},
    {"shader_float16", &vkattn_device_facts::shader_float16},
    {"storage_16bit", &vkattn_device_facts::storage_16bit},
    {"storage_8bit", &vkattn_device_facts::storage_8bit},
    {"push_descriptors", &vkattn_device_facts::push_descriptors},
    {"buffers_have_addresses", &vkattn_device_facts::buffers_have_addresses},
    {"cooperative_matrix", &vkattn_device_facts::cooperative_matrix},
    {"cooperative_matrix_reductions", &vkattn_device_facts::cooperative_matrix_reductions},
};
constexpr Limit<uint64_t> kLongLimits[] = {
    {"max_storage_buffer_range", &vkattn_device_facts::max_storage_buffer_range},
};

struct Assignment {
    std::string_view name;
    uint64_t value;
};

Assignment parse(std::string_view text, const char *source) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view number = text.substr(std::min(equals + 1, text.size()));
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    require(error == std::errc{} && end == number.data() + number.size() && value <= UINT32_MAX, source, ": \"", text,
            "\", expected name=number");
    return {text.substr(0, equals), value};
}

bool set_trait(DeviceCaps &caps, const Assignment &assignment) {
    for (const Trait &trait : kTraits) {
        if (trait.name != assignment.name) continue;
        caps.traits.*trait.member = static_cast<uint32_t>(assignment.value);
        return true;
    }
    return false;
}

template <class Number, size_t N>
bool lower(DeviceCaps &caps, const Limit<Number> (&limits)[N], const Assignment &assignment, const char *source) {
    for (const Limit<Number> &limit : limits) {
        if (limit.name != assignment.name) continue;
        require(assignment.value <= caps.*limit.member, source, ": ", assignment.name, " ", assignment.value,
                ", expected at most that of ", caps.name, ", ", caps.*limit.member);
        caps.*limit.member = static_cast<Number>(assignment.value);
        return true;
    }
    return false;
}

// The shape that traits ask for, before the device's own.
void add_matrix_shape(DeviceCaps &caps, const char *source) {
    const DeviceTraits &traits = caps.traits;
    const vkattn_matrix_shape wanted = {traits.matrix_m, traits.matrix_n, traits.matrix_k, VKATTN_TYPE_F16};
    const auto is_wanted = [&](const vkattn_matrix_shape &shape) {
        return shape.m == wanted.m && shape.n == wanted.n && shape.k == wanted.k && shape.type == wanted.type;
    };
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    if ((wanted.m == 0 && wanted.n == 0 && wanted.k == 0) || std::ranges::any_of(shapes, is_wanted)) return;
    require(caps.features.flexible_matrices && caps.matrix_granularity[0] != 0, source,
            ": matrix_m, matrix_n and matrix_k, expected a device whose matrices have flexible dimensions");
    const auto fits = [](uint32_t size, uint32_t granularity) {
        return std::has_single_bit(size) && size % granularity == 0;
    };
    const auto [m, n, k] = caps.matrix_granularity;
    require(fits(wanted.m, m) && fits(wanted.n, n) && fits(wanted.k, k), source, ": matrix_m ", wanted.m, ", matrix_n ",
            wanted.n, ", matrix_k ", wanted.k, ", expected powers of two, multiples of ", m, ", ", n, " and ", k);
    constexpr uint32_t kRoom = std::extent_v<decltype(caps.matrix_shapes)>;
    caps.matrix_shape_count = std::min(caps.matrix_shape_count + 1, kRoom);
    const auto more = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    std::ranges::move_backward(more.first(more.size() - 1), more.end());
    more.front() = wanted;
}

std::string known_names() {
    std::string names;
    const auto add = [&](std::string_view name) { names += (names.empty() ? "" : ", ") + std::string(name); };
    for (const Trait &trait : kTraits) add(trait.name);
    for (const auto &limit : kLimits) add(limit.name);
    for (const auto &limit : kLongLimits) add(limit.name);
    return names;
}

} // namespace

void override_caps(DeviceCaps &caps, std::string_view text, const char *source) {
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        const Assignment assignment = parse(text.substr(0, comma), source);
        const bool known = set_trait(caps, assignment) || lower(caps, kLimits, assignment, source) ||
                           lower(caps, kLongLimits, assignment, source);
        require(known, source, ": \"", assignment.name, "\" is unknown, expected one of ", known_names());
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    add_matrix_shape(caps, source);
    caps.max_loop_iterations = caps.traits.max_loop_iterations;
}

} // namespace vkattn
