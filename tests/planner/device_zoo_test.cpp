// Plans on real devices that are not here, from the facts that their drivers report: what is chosen is within what the
// device has, and stays what it was. VKATTN_REWRITE_CHOICES=1 writes devices/choices anew.
#include "device_zoo.hpp"
#include "skips.hpp"
#include "spirv_shared_memory.hpp"

#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/spirv/specialise.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/shader_checks.hpp"
#include "shaders/interface/rows.h"

#include "tools/io/text_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <sstream>

using namespace vkattn_test;
namespace tools = vkattn::tools;

namespace {

struct Sizes {
    std::uint64_t batch = 1, query_heads = 32, kv_heads = 8, q_len = 1, kv_len = 4096, head_dim = 128, v_head_dim = 128;
};

struct Problem {
    std::string name;
    Sizes sizes;
    vkattn_type query = VKATTN_TYPE_F16, stored = VKATTN_TYPE_F16;
    std::function<void(vkattn_attention_desc &)> change = [](vkattn_attention_desc &) {};
};

vkattn_attention_desc describe(const Problem &p) {
    const Sizes &s = p.sizes;
    vkattn_attention_desc desc{};
    desc.query = vkattn::contiguous(p.query, {s.batch, s.query_heads, s.q_len, s.head_dim});
    desc.key = vkattn::contiguous(p.stored, {s.batch, s.kv_heads, s.kv_len, s.head_dim});
    desc.value = vkattn::contiguous(p.stored, {s.batch, s.kv_heads, s.kv_len, s.v_head_dim});
    desc.output = vkattn::contiguous(p.query, {s.batch, s.query_heads, s.q_len, s.v_head_dim});
    if (s.q_len > 1) desc.mask_flags = VKATTN_MASK_CAUSAL;
    p.change(desc);
    return desc;
}

void in_latent(vkattn_attention_desc &desc) { desc.value.type = VKATTN_TYPE_NONE; }

void with_weights(vkattn_attention_desc &desc) {
    desc.attn_weights = vkattn::contiguous(
        VKATTN_TYPE_F32, {desc.query.shape[0], desc.query.shape[1], desc.query.shape[2], desc.key.shape[2]});
}

// Pages of 16 keys, and queries one after the other.
void in_pages(vkattn_attention_desc &desc) {
    const std::uint64_t batch = desc.query.shape[0], pages = desc.key.shape[2] / 16;
    desc.key = vkattn::contiguous(desc.key.type, {batch * pages, desc.key.shape[1], 16, desc.key.shape[3]});
    desc.value = vkattn::contiguous(desc.value.type, {batch * pages, desc.value.shape[1], 16, desc.value.shape[3]});
    desc.block_table = vkattn::contiguous(VKATTN_TYPE_I32, {batch, pages});
    desc.key_lengths = vkattn::contiguous(VKATTN_TYPE_I32, {batch});
}

std::vector<Problem> problems() {
    constexpr vkattn_type f32 = VKATTN_TYPE_F32, f16 = VKATTN_TYPE_F16, bf16 = VKATTN_TYPE_BF16, q8 = VKATTN_TYPE_Q8_0,
                          q4 = VKATTN_TYPE_Q4_0;
    const auto prefill = [](std::uint64_t size) {
        return Sizes{.q_len = 2048, .kv_len = 2048, .head_dim = size, .v_head_dim = size};
    };
    const auto latent = [](std::uint64_t tokens) {
        return Sizes{.query_heads = 128, .kv_heads = 1, .q_len = tokens, .head_dim = 576, .v_head_dim = 512};
    };
    return {
        {"prefill, f16, D 64", prefill(64)},
        {"prefill, f16, D 80", prefill(80)},
        {"prefill, f16, D 128", prefill(128)},
        {"prefill, f16, D 256", prefill(256)},
        {"prefill, bf16, D 128", prefill(128), bf16, bf16},
        {"prefill, f32, D 64", prefill(64), f32, f32},
        {"prefill, f32, D 128", prefill(128), f32, f32},
        {"prefill, f16, batch-invariant", prefill(128), f16, f16, [](auto &desc) { desc.batch_invariant = 1; }},
        {"prefill, f16, dropout", prefill(128), f16, f16, [](auto &desc) { desc.dropout_p = 0.1f; }},
        {"prefill, f16, with weights", {.q_len = 512, .kv_len = 512}, f16, f16, with_weights},
        {"prefill, f16, 32k keys", {.q_len = 32768, .kv_len = 32768}},
        {"prefill, f16, five million rows", {.kv_heads = 1, .q_len = 160'000, .kv_len = 64}},
        {"decode, f16, groups of 4", {}},
        {"decode, f16, groups of 1", {.kv_heads = 32}},
        {"decode, f16, groups of 8", {.query_heads = 64}},
        {"decode, f16, 64 sequences", {.batch = 64}},
        {"decode, f16, 64 sequences in pages", {.batch = 64}, f16, f16, in_pages},
        {"decode, f32, groups of 4", {}, f32, f32},
        {"decode, q8_0", {}, f16, q8},
        {"decode, q4_0", {}, f16, q4},
        {"decode, f16, a million keys", {.kv_len = 1 << 20}},
        {"MLA, one token", latent(1), f16, f16, in_latent},
        {"MLA, 32 tokens", latent(32), f16, f16, in_latent},
        {"tiny, f32",
         {.query_heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = 1, .head_dim = 1, .v_head_dim = 1},
         f32,
         f32},
        {"tiny, f16", {.query_heads = 3, .kv_heads = 1, .q_len = 17, .kv_len = 5, .head_dim = 20, .v_head_dim = 33}},
    };
}

template <typename Constants>
std::span<const std::uint32_t> words_of(const Constants &constants) {
    return {reinterpret_cast<const std::uint32_t *>(&constants), sizeof constants / sizeof(std::uint32_t)};
}

// The shader's subgroups have the size that it counts on: the device's one, or one that it can be asked for.
void check_subgroups(const vkattn::gpu::AttentionConstants &c, const vkattn::DeviceCaps &caps) {
    CHECK(c.SUBGROUP_SIZE >= caps.min_subgroup_size);
    CHECK(c.SUBGROUP_SIZE <= caps.max_subgroup_size);
    CHECK((caps.min_subgroup_size == caps.max_subgroup_size || caps.subgroup_size_control != 0));
    CHECK(c.WORKGROUP_SIZE % c.SUBGROUP_SIZE == 0);
}

// The shared memory of a module with constants, looked at once; what a driver is given of it is small.
std::uint64_t checked_shared_memory(const vkattn::Shader &shader, std::span<const std::uint32_t> constants) {
    using Key = std::pair<const vkattn::Shader *, std::vector<std::uint32_t>>;
    static std::map<Key, std::uint64_t> known;
    const auto [found, is_new] = known.try_emplace({&shader, {constants.begin(), constants.end()}});
    if (!is_new) return found->second;
    std::vector<vkattn::spirv::ConstantValue> values;
    for (std::uint32_t id = 0; id < constants.size(); ++id) values.push_back({id, constants[id]});
    const std::vector<std::uint32_t> code = shader.code.words();
    const std::vector<std::uint32_t> given = vkattn::spirv::specialise(code, values, shader.name);
    CHECK(given.size() * sizeof given[0] <= 64 << 10);
    return found->second = shared_memory_bytes(code, constants);
}

void check_dispatch(const vkattn::AttentionShape::Dispatch &dispatch, const vkattn::DeviceCaps &caps) {
    INFO("shader ", std::string(dispatch.shader->name));
    CHECK(dispatch.constants.WORKGROUP_SIZE <= caps.max_workgroup_invocations);
    REQUIRE(vkattn::is_built(*dispatch.shader));
    if (dispatch.shader->full_subgroups) check_subgroups(dispatch.constants, caps);
    CHECK(checked_shared_memory(*dispatch.shader, words_of(dispatch.constants)) <= caps.max_shared_memory_bytes);
}

void check_matrices(const vkattn::gpu::AttentionConstants &c, const vkattn::DeviceCaps &caps) {
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    CHECK(std::ranges::any_of(shapes, [&](const vkattn_matrix_shape &shape) {
        return shape.m == c.MATRIX_M && shape.n == c.MATRIX_N && shape.k == c.MATRIX_K;
    }));
    CHECK(c.WORKGROUP_SIZE % (c.SUBGROUP_SIZE * c.DIM_SUBGROUPS) == 0);
}

void check_choice(const vkattn::AttentionChoice &choice, const vkattn::DeviceCaps &caps) {
    const vkattn_kernel kernel = choice.kernel->kernel;
    CHECK(std::string(choice.kernel->missing(caps)) == "");
    if (kernel == VKATTN_KERNEL_ADDRESSES) CHECK(caps.buffers_have_addresses == 1);
    if (kernel == VKATTN_KERNEL_COOPMAT) check_matrices(choice.shape.dispatches[0].constants, caps);
    for (const vkattn::AttentionShape::Dispatch &dispatch : choice.shape.dispatches)
        if (dispatch.groups[0] != 0) check_dispatch(dispatch, caps);
}

// Of every problem, by each kernel that serves it; how many those were.
std::size_t check_choices(const vkattn::DeviceCaps &caps) {
    std::size_t planned = 0;
    for (const Problem &problem : problems())
        for (int kernel = VKATTN_KERNEL_AUTO; kernel < VKATTN_KERNEL_COUNT; ++kernel) {
            INFO(problem.name, ", kernel ", kernel);
            vkattn_attention_desc desc = describe(problem);
            desc.kernel = static_cast<vkattn_kernel>(kernel);
            try {
                const vkattn::AttentionProblem checked = vkattn::check_attention(desc);
                check_choice(vkattn::choose_attention(checked, caps), caps);
                ++planned;
            } catch (const vkattn::Error &error) {
                CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
                CHECK_MESSAGE(kernel != VKATTN_KERNEL_AUTO, std::string(error.what()));
            }
        }
    return planned;
}

// Whether this build has the kernels that the device could run.
bool has_kernels_of(const ZooDevice &device) {
    const auto can_run = [&](vkattn_kernel kernel) { return device.kernels.at(vkattn_kernel_name(kernel)); };
    const bool multiplies_bytes = device.caps.features.integer_dot_product && device.caps.traits.byte_products != 0;
    return (!can_run(VKATTN_KERNEL_COOPMAT) || vkattn::is_built(vkattn::shaders::coopmat)) &&
           (!multiplies_bytes || vkattn::is_built(vkattn::shaders::decode_bytes));
}

// A line for each problem, below the device's.
std::string choices_on(const ZooDevice &device) {
    std::ostringstream lines;
    lines << device.name << ": " << device.caps.name << "\n";
    for (const Problem &problem : problems()) {
        const vkattn::AttentionProblem checked = vkattn::check_attention(describe(problem));
        const vkattn::AttentionChoice choice = vkattn::choose_attention(checked, device.caps);
        const std::string tile = vkattn::tile_text(*choice.kernel, choice.shape);
        lines << "    " << problem.name << ": " << vkattn_kernel_name(choice.name) << (tile.empty() ? "" : ", ") << tile
              << "\n";
    }
    return lines.str();
}

// The stretch of the file that begins with the device's line.
std::string stretch_of(const std::string &file, const std::string &device) {
    const std::string heading = "\n" + device + ": ";
    const std::size_t begin = ("\n" + file).find(heading);
    if (begin == std::string::npos) return "";
    std::size_t end = begin;
    do end = std::min(file.find('\n', end), file.size() - 1) + 1;
    while (file.compare(end, 4, "    ") == 0);
    return file.substr(begin, end - begin);
}

// What the self-test cannot judge of the shaders that a choice takes: each path by itself, with a type for Q.
void check_judgeable(const vkattn::AttentionChoice &choice, const vkattn::AttentionProblem &problem,
                     const vkattn::DeviceCaps &caps, std::set<std::string> &judged) {
    const std::vector<vkattn::TestedShader> tested = vkattn::tested_shaders(caps);
    for (const vkattn::ShaderUse &use : vkattn::shaders_of(choice.shape, problem)) {
        INFO("shader ", use.shader);
        const auto shader = std::ranges::find_if(
            tested, [&](const auto &each) { return vkattn::shader_name(each, caps) == use.shader; });
        REQUIRE(shader != tested.end());
        CHECK(use.paths != 0);
        constexpr vkattn::CodePaths kFloats = vkattn::kPathF32 | vkattn::kPathF16 | vkattn::kPathBf16;
        for (vkattn::CodePaths rest = use.paths; rest != 0; rest &= rest - 1) {
            const vkattn::CodePaths path = rest & (~rest + 1), floats = use.paths & kFloats;
            if (!judged.insert(use.shader + ", " + vkattn::path_names(path)).second) continue;
            const vkattn::CodePaths together = (path & kFloats) != 0 ? path : path | (floats & (~floats + 1));
            CHECK_MESSAGE(vkattn::can_check(*shader, together, caps), vkattn::path_names(path));
        }
    }
}

bool rewrites() { return std::getenv("VKATTN_REWRITE_CHOICES") != nullptr; }

} // namespace

TEST_SUITE_BEGIN("device_zoo");

TEST_CASE("shared memory is counted as a module declares it") {
    const vkattn::gpu::AttentionConstants constants{}; // 32 invocations: four rows, 32 keys, whole heads of 64 dims
    CHECK(shared_memory_bytes(vkattn::shaders::flash.code.words(), words_of(constants)) ==
          17 * (4 * 16 + 32 * 16) + 4 * 32 * 4 + 4); // the last says whether values are numbers
    CHECK(shared_memory_bytes(vkattn::shaders::merge_parts.code.words(), words_of(constants)) == 32 * (8 + 16));
    CHECK(shared_memory_bytes(vkattn::shaders::linear.code.words(), {}) == 2 * 8 * 9 * 16); // a line of each invocation
}

TEST_CASE("drivers of AMD and NVIDIA tell the number of cores, and all that tell subgroup sizes tell sensible ones") {
    constexpr std::uint32_t kAmd = 0x1002, kNvidia = 0x10de;
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        const vkattn::DeviceCaps &caps = device.caps;
        CHECK(caps.driver_id != 0);
        const bool is_their_own = caps.portability_subset == 0; // nor Metal's
        if ((caps.vendor_id == kAmd || caps.vendor_id == kNvidia) && is_their_own)
            CHECK(caps.shader_cores * caps.max_subgroups_per_core > 0);
        if (caps.max_subgroup_size == 0) continue;
        CHECK(caps.min_subgroup_size <= caps.subgroup_size);
        CHECK(caps.subgroup_size <= caps.max_subgroup_size);
    }
}

TEST_CASE("kernels are judged from a device's facts as they were on the device") {
    const std::vector<ZooDevice> devices = device_zoo();
    CHECK(devices.size() >= 5);
    for (const ZooDevice &device : devices) {
        INFO("device ", device.name);
        for (const auto &kernel : device.kernels) {
            const std::string &name = kernel.first;
            const bool supported = kernel.second;
            INFO("kernel ", name);
            const auto rows = vkattn::attention_kernels();
            const auto row = std::ranges::find_if(
                rows, [&](const auto *each) { return each->name == name || each->latent_name == name; });
            REQUIRE(row != rows.end());
            const std::string reason = (*row)->missing(device.caps);
            const bool left_out = reason.starts_with("built by");
            CHECK_MESSAGE((left_out || reason.empty() == supported), reason);
        }
    }
}

TEST_CASE("what is chosen, and what can be requested, is within what the device has") {
    std::size_t planned = 0;
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        planned += check_choices(device.caps);
    }
    CHECK(planned > 3 * problems().size() * device_zoo().size());
}

TEST_CASE("the self-test can judge every shader and path that a plan takes, also by tuning") {
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        std::set<std::string> judged;
        for (const Problem &problem : problems())
            for (int kernel = VKATTN_KERNEL_AUTO; kernel < VKATTN_KERNEL_COUNT; ++kernel)
                for (std::uint32_t staging = 0; staging <= (kernel == VKATTN_KERNEL_FLASH ? 3 : 0); ++staging) {
                    vkattn_attention_desc desc = describe(problem);
                    desc.kernel = static_cast<vkattn_kernel>(kernel);
                    vkattn::AttentionProblem checked = vkattn::check_attention(desc);
                    checked.tile.kernel = static_cast<std::uint32_t>(kernel);
                    checked.tile.knobs[vkattn::kStagingKnob] = staging;
                    INFO(problem.name, ", kernel ", kernel);
                    try {
                        check_judgeable(vkattn::choose_attention(checked, device.caps), checked, device.caps, judged);
                    } catch (const vkattn::Error &error) {
                        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
                    }
                }
        CHECK(judged.size() > 10);
        for (const auto *row : vkattn::attention_kernels()) // what no problem above comes to
            for (const vkattn::Shader *shader : row->shaders) {
                const auto tested = vkattn::tested_shaders(device.caps);
                const bool is_tested = std::ranges::find(tested, shader, &vkattn::TestedShader::object) != tested.end();
                const bool is_lacking = row->missing(device.caps)[0] != '\0' || !vkattn::is_built(*shader);
                CHECK((is_tested || is_lacking || shader->matrices != VKATTN_TYPE_NONE));
            }
    }
}

TEST_CASE("each type and each path of each shader can be asked for together") {
    using namespace vkattn;
    std::size_t tried = 0;
    for (const ZooDevice &device : device_zoo())
        for (const TestedShader &shader : tested_shaders(device.caps))
            for (const StoredType &stored : stored_types())
                for (const CodePaths others :
                     {CodePaths{0}, kPathLatent, kPathLargeHeads, kPathPages, kPathParts, kPathStretches,
                      kPathLatent | kPathLargeHeads, kPathLatent | kPathPages | kPathParts}) {
                    const CodePaths type = path_of(stored.info.type);
                    INFO("device ", device.name, ", ", shader_name(shader, device.caps), ", ",
                         path_names(type | others));
                    CHECK_NOTHROW(tried += attention_trial(shader, type | others, device.caps).has_value() ? 1 : 0);
                }
    CHECK(tried > 1000);
}

// 1 GFLOP is 10 ms of the slowest GPU that Vulkan 1.1 has, of some 100 GFLOP/s, and a submission some tenths of one.
// As the device table models slow devices: what max_dispatch_megaflops allows takes one of them half a second.
TEST_CASE("the whole self-test computes for half a second of a slow device, in 256 checks of at most 64 dispatches") {
    constexpr double kIntegrated = 1e10;
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        const std::vector<vkattn::ShaderCheck> checks = vkattn::wanted_checks(device.caps);
        CHECK(checks.size() >= 30);
        CHECK(checks.size() <= 256);
        double flops = 0.0;
        std::uint64_t longest = 0;
        for (const vkattn::ShaderCheck &check : checks) {
            INFO("check ", vkattn::shader_name(check.shader, device.caps), ", ", vkattn::path_names(check.path));
            const auto trial = vkattn::attention_trial(check.shader, check.paths, device.caps);
            if (!trial.has_value()) continue; // copies and linear layers: 0.2 MFLOP at most
            flops += 2.0 * vkattn::flops_of(trial->problem) * (trial->problem.q_len > 1 ? 0.5 : 1.0); // causal, twice
            longest = std::max(longest, trial->keys);
            const vkattn::AttentionShape &shape = trial->choice.shape;
            if (trial->choice.kernel == &vkattn::kUnfused) continue; // three dispatches
            const std::uint32_t stretches = (trial->problem.kv_len - 1) / shape.keys_per_dispatch + 1;
            const vkattn::AttentionShape::Dispatch &first = shape.dispatches[0];
            const vkattn::Grid part = vkattn::grid_of_dispatch(first.groups, first.flops, device.caps);
            CHECK(stretches * vkattn::volume(vkattn::dispatches_along(first.groups, part)) <= 64);
            if (trial->problem.q_len > 1000) // several workgroups a core, of unequal work
                CHECK(vkattn::volume(first.groups) >= std::max(2 * device.caps.shader_cores, 32U));
        }
        MESSAGE(device.name << ": " << checks.size() << " checks, " << flops * 1e-6 << " MFLOP");
        CHECK(flops > 1e7);
        CHECK(flops <= std::max(device.caps.traits.max_dispatch_megaflops * 1e6, kIntegrated));
        CHECK(longest >= 2048);
    }
}

TEST_CASE("so it is of every kind of GPU's shapes, however little shared memory there is") {
    constexpr std::uint32_t kLimits[] = {16 << 10, 20 << 10, 24 << 10, 32 << 10, 48 << 10}; // the first: Vulkan's least
    vkattn::DeviceCaps caps = device_zoo().front().caps;
    for (const std::uint32_t limit : kLimits)
        for (std::uint32_t gpu = 0; gpu < static_cast<std::uint32_t>(vkattn::GpuClass::kCount); ++gpu) {
            INFO("class ", gpu, ", ", limit, " bytes");
            caps.max_shared_memory_bytes = limit;
            caps.traits.gpu_class = gpu;
            CHECK(check_choices(caps) > 3 * problems().size());
        }
}

TEST_CASE("rows of any width wait in the shared memory that every device has") {
    for (std::uint32_t dims = 32; dims <= 8192; dims += 32)
        for (const vkattn::Shader *shader : {&vkattn::shaders::rows, &vkattn::shaders::rows_quantised}) {
            vkattn::gpu::RowsConstants constants;
            constants.HEAD_DIM = constants.QUERY_DIM = dims;
            constants.HADAMARD = vkattn::hadamard_block(dims);
            CHECK(shared_memory_bytes(shader->code.words(), words_of(constants)) <= 16384); // Vulkan's least
        }
}

TEST_CASE("without control of their sizes, no kernel counts on subgroups that have several") {
    std::size_t tried = 0;
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        vkattn::DeviceCaps caps = device.caps;
        caps.subgroup_size_control = 0;
        caps.features.subgroup_size_control = false;
        check_choices(caps);
        if (!device.kernels.at("coopmat") || !has_kernels_of(device)) continue;
        const bool one_size = caps.min_subgroup_size == caps.max_subgroup_size;
        CHECK((std::string(vkattn::kCoopmat.missing(caps)) == "") == one_size);
        caps.features.full_subgroups = false;
        CHECK(std::string(vkattn::kCoopmat.missing(caps)) != "");
        ++tried;
    }
    if (tried == 0) skip("no coopmat in this build");
}

TEST_CASE("no matrices are chosen whose sums cannot be of 16 bits") {
    for (const ZooDevice &device : device_zoo()) {
        INFO("device ", device.name);
        vkattn::DeviceCaps caps = device.caps;
        caps.rounded_shapes = 0;
        for (const Problem &problem : problems()) {
            const vkattn::AttentionProblem checked = vkattn::check_attention(describe(problem));
            CHECK(vkattn::choose_attention(checked, caps).kernel->kernel != VKATTN_KERNEL_COOPMAT);
        }
    }
}

// As NVIDIA's own driver has it, which gives sums of bf16 in f32 alone.
vkattn::DeviceCaps converting_sums(vkattn::DeviceCaps caps) {
    caps.cooperative_matrix_reductions = 1;
    caps.features.cooperative_matrix_reductions = caps.features.bfloat16_cooperative_matrix = true;
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    if (std::ranges::count(shapes, VKATTN_TYPE_BF16, &vkattn_matrix_shape::type) == 0)
        caps.matrix_shapes[caps.matrix_shape_count++] = {16, 16, 16, VKATTN_TYPE_BF16};
    caps.rounded_shapes &= (1u << (caps.matrix_shape_count - 1)) - 1;
    return caps;
}

TEST_CASE("where sums become factors, tiles are loaded ahead, which fit and can be judged") {
    if (!vkattn::is_built(vkattn::shaders::coopmat_ahead_bf16)) return skip("no coopmat in this build");
    std::set<std::string> chosen, judged;
    for (const ZooDevice &device : device_zoo()) {
        if (!device.name.starts_with("nvidia")) continue;
        INFO("device ", device.name);
        const vkattn::DeviceCaps caps = converting_sums(device.caps);
        CHECK(check_choices(caps) > 0);
        for (const Problem &problem : problems()) {
            const vkattn::AttentionProblem checked = vkattn::check_attention(describe(problem));
            const vkattn::AttentionChoice choice = vkattn::choose_attention(checked, caps);
            check_judgeable(choice, checked, caps, judged);
            chosen.insert(choice.shape.dispatches[0].shader->name);
        }
    }
    CHECK(chosen.contains("coopmat_ahead"));
    CHECK(chosen.contains("coopmat_ahead_bf16"));
    CHECK(chosen.contains("coopmat")); // of K and V of blocks
}

TEST_CASE("tiles are not loaded ahead where sizes of workgroups cannot be specialised as SPIR-V 1.6 has it") {
    for (const ZooDevice &device : device_zoo()) {
        vkattn::DeviceCaps caps = converting_sums(device.caps);
        caps.features.maintenance4 = false;
        for (const Problem &problem : problems()) {
            const vkattn::AttentionProblem checked = vkattn::check_attention(describe(problem));
            const std::string name = vkattn::choose_attention(checked, caps).shape.dispatches[0].shader->name;
            CHECK_FALSE(name.starts_with("coopmat_ahead"));
        }
    }
}

TEST_CASE("choices stay what they were") {
    const std::string path = VKATTN_TEST_DEVICES "/choices";
    const std::string expected = tools::read_if_there(path);
    std::string all;
    for (const ZooDevice &device : device_zoo()) {
        if (!has_kernels_of(device)) {
            skip("no coopmat in this build");
            REQUIRE(!rewrites());
            continue;
        }
        const std::string choices = choices_on(device);
        all += choices;
        if (!rewrites()) CHECK(choices == stretch_of(expected, device.name));
    }
    if (rewrites()) tools::write_text(path, all);
}

TEST_SUITE_END();
