#include "runtime/device/device_overrides.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <variant>

namespace vkattn {
namespace {

using Limit = uint32_t vkattn_device_facts::*;
using LongLimit = uint64_t vkattn_device_facts::*;
using GridLimit = uint32_t (vkattn_device_facts::*)[3];

struct Trait {
    vkattn_trait_name name;
    const char *text;
    std::variant<uint32_t DeviceTraits::*, Limit, LongLimit, GridLimit> member;
};

constexpr auto kTraits = std::to_array<Trait>({
    {VKATTN_TRAIT_MAX_LOOP_ITERATIONS, "max_loop_iterations", &DeviceTraits::max_loop_iterations},
    {VKATTN_TRAIT_SCALAR_ADDRESS_LOADS, "scalar_address_loads", &DeviceTraits::scalar_address_loads},
    {VKATTN_TRAIT_MOST_ADDRESSED_LINEAR_ROWS, "most_addressed_linear_rows", &DeviceTraits::most_addressed_linear_rows},
    {VKATTN_TRAIT_WIDEST_DIVERGENT_ADDRESSES, "widest_divergent_addresses", &DeviceTraits::widest_divergent_addresses},
    {VKATTN_TRAIT_PARALLEL_WORKGROUPS, "parallel_workgroups", &DeviceTraits::parallel_workgroups},
    {VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS, "max_dispatch_megaflops", &DeviceTraits::max_dispatch_megaflops},
    {VKATTN_TRAIT_UNPACKS_HALVES, "unpacks_halves", &DeviceTraits::unpacks_halves},
    {VKATTN_TRAIT_SPECIALISED_ARRAYS, "specialised_arrays", &DeviceTraits::specialised_arrays},
    {VKATTN_TRAIT_SELF_TEST, "self_test", &DeviceTraits::self_test},
    {VKATTN_TRAIT_MATRIX_M, "matrix_m", &DeviceTraits::matrix_m},
    {VKATTN_TRAIT_MATRIX_N, "matrix_n", &DeviceTraits::matrix_n},
    {VKATTN_TRAIT_MATRIX_K, "matrix_k", &DeviceTraits::matrix_k},
    {VKATTN_TRAIT_MATRIX_UNITS, "matrix_units", &DeviceTraits::matrix_units},
    {VKATTN_TRAIT_WIDEST_MATRIX_SUBGROUP, "widest_matrix_subgroup", &DeviceTraits::widest_matrix_subgroup},
    {VKATTN_TRAIT_UNROLL_MATRICES, "unroll_matrices", &DeviceTraits::unroll_matrices},
    {VKATTN_TRAIT_MATRIX_OUTPUTS, "matrix_outputs", &DeviceTraits::matrix_outputs},
    {VKATTN_TRAIT_FEWEST_MATRIX_ROWS, "fewest_matrix_rows", &DeviceTraits::fewest_matrix_rows},
    {VKATTN_TRAIT_MAX_SHARED_MEMORY_BYTES, "max_shared_memory_bytes", &vkattn_device_facts::max_shared_memory_bytes},
    {VKATTN_TRAIT_MAX_WORKGROUP_INVOCATIONS, "max_workgroup_invocations",
     &vkattn_device_facts::max_workgroup_invocations},
    {VKATTN_TRAIT_MAX_PUSH_CONSTANTS_BYTES, "max_push_constants_bytes", &vkattn_device_facts::max_push_constants_bytes},
    {VKATTN_TRAIT_MAX_STORAGE_BUFFER_RANGE, "max_storage_buffer_range", &vkattn_device_facts::max_storage_buffer_range},
    {VKATTN_TRAIT_SUBGROUP_FEATURES, "subgroup_features", &vkattn_device_facts::subgroup_features},
    {VKATTN_TRAIT_SUBGROUP_SIZE_CONTROL, "subgroup_size_control", &vkattn_device_facts::subgroup_size_control},
    {VKATTN_TRAIT_SHADER_FLOAT16, "shader_float16", &vkattn_device_facts::shader_float16},
    {VKATTN_TRAIT_STORAGE_16BIT, "storage_16bit", &vkattn_device_facts::storage_16bit},
    {VKATTN_TRAIT_STORAGE_8BIT, "storage_8bit", &vkattn_device_facts::storage_8bit},
    {VKATTN_TRAIT_PUSH_DESCRIPTORS, "push_descriptors", &vkattn_device_facts::push_descriptors},
    {VKATTN_TRAIT_BUFFERS_HAVE_ADDRESSES, "buffers_have_addresses", &vkattn_device_facts::buffers_have_addresses},
    {VKATTN_TRAIT_COOPERATIVE_MATRIX, "cooperative_matrix", &vkattn_device_facts::cooperative_matrix},
    {VKATTN_TRAIT_COOPERATIVE_MATRIX_REDUCTIONS, "cooperative_matrix_reductions",
     &vkattn_device_facts::cooperative_matrix_reductions},
    {VKATTN_TRAIT_MAX_STORAGE_BUFFERS_PER_STAGE, "max_storage_buffers_per_stage",
     &vkattn_device_facts::max_storage_buffers_per_stage},
    {VKATTN_TRAIT_GPU_CLASS, "gpu_class", &DeviceTraits::gpu_class},
    {VKATTN_TRAIT_MAX_WORKGROUP_COUNT, "max_workgroup_count", &vkattn_device_facts::max_workgroup_count},
    {VKATTN_TRAIT_BYTE_PRODUCTS, "byte_products", &DeviceTraits::byte_products},
    {VKATTN_TRAIT_SUBGROUP_OPERATIONS, "subgroup_operations", &DeviceTraits::subgroup_operations},
    {VKATTN_TRAIT_SPECIALISED_MODULES, "specialised_modules", &DeviceTraits::specialised_modules},
    {VKATTN_TRAIT_HALF_WORKSPACES, "half_workspaces", &DeviceTraits::half_workspaces},
});

constexpr bool in_order() {
    for (size_t i = 0; i < kTraits.size(); ++i)
        if (static_cast<size_t>(kTraits[i].name) != i) return false;
    return kTraits.size() == VKATTN_TRAIT_COUNT;
}
static_assert(in_order());

bool is_known(vkattn_trait_name name) { return static_cast<uint32_t>(name) < kTraits.size(); }

// Sets one member of the capabilities.
struct Setter {
    DeviceCaps &caps;
    const char *text;
    uint64_t value;

    void operator()(uint32_t DeviceTraits::*trait) const {
        require(value <= UINT32_MAX, "traits: ", text, " ", value, ", expected at most ", UINT32_MAX);
        caps.traits.*trait = static_cast<uint32_t>(value);
    }
    void operator()(Limit limit) const { lower(caps.*limit); }
    void operator()(LongLimit limit) const { lower(caps.*limit); }
    void operator()(GridLimit limit) const {
        const uint32_t most = *std::ranges::max_element(caps.*limit);
        require(value >= 1 && value <= most, "traits: ", text, " ", value, ", expected 1 to that of ", caps.name, ", ",
                most);
        for (uint32_t &count : caps.*limit) count = std::min(count, static_cast<uint32_t>(value));
    }

    template <class Number>
    void lower(Number &limit) const {
        require(value <= limit, "traits: ", text, " ", value, ", expected at most that of ", caps.name, ", ", limit);
        limit = static_cast<Number>(value);
    }
};

} // namespace

void add_matrix_shape(DeviceCaps &caps) {
    const DeviceTraits &traits = caps.traits;
    const vkattn_matrix_shape wanted = {traits.matrix_m, traits.matrix_n, traits.matrix_k, VKATTN_TYPE_F16};
    const auto is_wanted = [&](const vkattn_matrix_shape &shape) {
        return shape.m == wanted.m && shape.n == wanted.n && shape.k == wanted.k && shape.type == wanted.type;
    };
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    if (traits.matrix_units == 0) return; // the driver has not been asked
    if ((wanted.m == 0 && wanted.n == 0 && wanted.k == 0) || std::ranges::any_of(shapes, is_wanted)) return;
    const FlexibleMatrices *flexible = flexible_matrices(caps, VKATTN_TYPE_F16, 0);
    require(flexible != nullptr,
            "traits: matrix_m, matrix_n and matrix_k, expected a device whose matrices have flexible dimensions");
    const auto fits = [](uint32_t size, uint32_t granularity) {
        return std::has_single_bit(size) && size % granularity == 0;
    };
    const auto [type, invocations, m, n, k] = *flexible;
    require(fits(wanted.m, m) && fits(wanted.n, n) && fits(wanted.k, k), "traits: matrix_m ", wanted.m, ", matrix_n ",
            wanted.n, ", matrix_k ", wanted.k, ", expected powers of two, multiples of ", m, ", ", n, " and ", k);
    constexpr uint32_t kRoom = std::extent_v<decltype(caps.matrix_shapes)>;
    caps.matrix_shape_count = std::min(caps.matrix_shape_count + 1, kRoom);
    const auto more = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    std::ranges::move_backward(more.first(more.size() - 1), more.end());
    more.front() = wanted;
    caps.rounded_shapes = caps.rounded_shapes << 1 | 1; // flexible shapes take f16 of either use
}

void override_caps(DeviceCaps &caps, std::span<const vkattn_trait> traits) {
    for (const vkattn_trait &trait : traits) {
        require(is_known(trait.name), "traits: ", static_cast<int>(trait.name),
                " is unknown, expected a vkattn_trait_name");
        const Trait &known = kTraits[static_cast<size_t>(trait.name)];
        std::visit(Setter{caps, known.text, trait.value}, known.member);
    }
    caps.max_loop_iterations = caps.traits.max_loop_iterations;
}

} // namespace vkattn

const char *vkattn_trait_text(vkattn_trait_name name) {
    return vkattn::is_known(name) ? vkattn::kTraits[static_cast<size_t>(name)].text : "unknown";
}
