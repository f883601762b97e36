#include "device.hpp"

#include "compare.hpp"
#include "guarded_vulkan.hpp"
#include "skips.hpp"
#include "tools/devices/device_traits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace vkattn_test {
namespace {

// Bytes after a region, which nobody may write. None before guard pages, where the region ends with its memory.
std::uint64_t guard_bytes() { return guards_pages() ? 0 : 64; }

std::uint64_t regions_shift = 0;

// A multiple of 16 and of nothing larger, but where a test shifts it: the library must bear it on devices whose own alignment is larger.
// Not a multiple of any device's descriptor alignment; the workspace's must be one of the largest there is.
// Before guard pages larger, so that the buffer ends at a multiple of what drivers round its memory up to.
std::uint64_t region_offset(vkattn_role role, std::uint64_t bytes) {
    constexpr std::uint64_t kRounded = 64, kUnit = 16;
    if (role == VKATTN_ROLE_WORKSPACE) return 256;
    const std::uint64_t missing = (kRounded - (48 + bytes) % kRounded) % kRounded;
    return regions_shift + (guards_pages() ? 48 + missing / kUnit * kUnit : 48);
}

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

vkattn::Context make_context(const char *traits, ValidationMessages &messages,
                             PFN_vkGetInstanceProcAddr get_instance_proc_addr) {
    ContextRequest request(traits);
    vkattn_context_info &info = request.info;
    info.get_instance_proc_addr = get_instance_proc_addr;
    if (get_instance_proc_addr == nullptr && guards_pages()) info.get_instance_proc_addr = guarded_vulkan();
    info.enable_validation = validation_wanted() ? 1 : 0;
    info.message_callback = ValidationMessages::callback;
    info.message_user = &messages;
    return vkattn::Context(info);
}

struct Shared {
    // First: the device calls back until it is destroyed.
    ValidationMessages messages;
    std::optional<TestDevice> device;
};

Shared &shared() {
    static Shared instance;
    return instance;
}

// Guard bytes, contents, guard bytes.
std::vector<std::uint8_t> guarded(std::uint64_t offset, std::span<const std::uint8_t> contents, std::uint8_t guard) {
    std::vector<std::uint8_t> bytes(offset, guard);
    bytes.insert(bytes.end(), contents.begin(), contents.end());
    bytes.insert(bytes.end(), guard_bytes(), guard);
    return bytes;
}

bool all_guard(std::span<const std::uint8_t> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == kGapByte; });
}

void note_difference(std::string &complaints, const char *what, const HostTensor &actual,
                     const std::vector<double> &expected, double bound) {
    if (!actual.present()) return;
    const Comparison comparison = compare(what, actual.shape(), expected, actual.floats(), bound);
    if (!comparison.passed) complaints += comparison.report + "\n";
}

} // namespace

void ValidationMessages::add(std::string message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
}

std::vector<std::string> ValidationMessages::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
}

std::string kernel_text(vkattn_kernel kernel) { return vkattn_kernel_name(kernel); }

bool validation_wanted() { return environment("VKATTN_VALIDATION") == "1"; }
std::string device_selector() { return environment("VKATTN_TEST_DEVICE"); }

ContextRequest::ContextRequest(const char *traits)
    : selector_(device_selector()), traits_(vkattn::tools::traits_of_environment()) {
    const std::vector<vkattn_trait> more = vkattn::tools::parse_traits(traits, "traits");
    traits_.insert(traits_.end(), more.begin(), more.end());
    info.device_selector = selector_.c_str();
    info.traits = traits_.data();
    info.trait_count = static_cast<std::uint32_t>(traits_.size());
}

TestDevice::TestDevice(ValidationMessages &messages, const char *traits,
                       PFN_vkGetInstanceProcAddr get_instance_proc_addr)
    : context_(make_context(traits, messages, get_instance_proc_addr)), facts_(context_.facts()) {
    static bool is_told = false;
    if (std::exchange(is_told, true)) return;
    std::printf("device: %s, driver: %s %s, validation: %s\n", facts_.name, facts_.driver_name, facts_.driver_info,
                validation_wanted() ? "on" : "off");
}

vkattn::Buffer &TestDevice::room(vkattn_role role, std::uint64_t bytes) {
    const auto found = rooms_.find(role);
    if (found != rooms_.end() && found->second.bytes >= bytes && !guards_pages()) return found->second.buffer;
    rooms_.erase(role);
    return rooms_.emplace(role, Room{.buffer = context_.buffer(bytes), .bytes = bytes}).first->second.buffer;
}

vkattn_binding TestDevice::upload(vkattn_role role, std::span<const std::uint8_t> contents, std::uint8_t guard) {
    const std::uint64_t offset = region_offset(role, contents.size());
    const std::vector<std::uint8_t> bytes = guarded(offset, contents, guard);
    vkattn::Buffer &buffer = room(role, bytes.size());
    buffer.write(bytes);
    return vkattn::bind(role, buffer, offset);
}

std::string TestDevice::download(vkattn_role role, std::span<std::uint8_t> contents) {
    const std::uint64_t offset = region_offset(role, contents.size());
    std::vector<std::uint8_t> bytes(offset + contents.size() + guard_bytes());
    rooms_.at(role).buffer.read(bytes);
    const std::span all(bytes);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), contents.size(), contents.begin());
    std::string complaints;
    if (!all_guard(all.first(offset))) complaints += "written before the region of role " + std::to_string(role) + "\n";
    if (!all_guard(all.last(guard_bytes())))
        complaints += "written past the region of role " + std::to_string(role) + "\n";
    return complaints;
}

void TestDevice::run(const vkattn::Plan &plan, std::span<const Region> regions) {
    const std::string complaints = try_run(plan, regions);
    CHECK_MESSAGE(complaints.empty(), complaints);
}

std::string TestDevice::try_run(const vkattn::Plan &plan, std::span<const Region> regions) {
    std::string complaints;
    std::vector<vkattn_binding> bindings;
    for (const Region &region : regions) {
        if (vkattn_tensor_bytes(&region.tensor->view()) != region.tensor->bytes().size())
            complaints += "vkattn_tensor_bytes is off for role " + std::to_string(region.role) + "\n";
        if (region.access == Access::kWrite) region.tensor->poison_as_output();
        // What lies around an input is NaN, so that a read past its end shows.
        const std::uint8_t guard = region.access == Access::kRead ? kPoisonByte : kGapByte;
        bindings.push_back(upload(region.role, region.tensor->bytes(), guard));
    }
    std::vector<std::uint8_t> workspace(plan.requirements().workspace_bytes, kPoisonByte);
    if (!workspace.empty()) bindings.push_back(upload(VKATTN_ROLE_WORKSPACE, workspace, kGapByte));
    plan.run(bindings);
    for (const Region &region : regions) {
        if (region.access == Access::kRead) continue;
        complaints += download(region.role, region.tensor->bytes());
        if (region.access == Access::kWrite && region.tensor->damaged_gap_bytes() != 0)
            complaints += "gaps of role " + std::to_string(region.role) + " were written\n";
    }
    if (!workspace.empty()) complaints += download(VKATTN_ROLE_WORKSPACE, workspace);
    return complaints;
}

TestDevice &test_device() {
    if (!shared().device) shared().device.emplace(shared().messages);
    return *shared().device;
}

std::vector<std::string> close_test_device() {
    shared().device.reset();
    return shared().messages.take();
}

ValidationMessages &validation_messages() { return shared().messages; }

DeviceTest::~DeviceTest() {
    for (const std::string &message : validation_messages().take()) ADD_FAIL_CHECK_AT("validation", 0, message);
}

AttentionResults all_results(const AttentionProblem &problem, vkattn_kernel kernel, vkattn_type output_type) {
    const AttentionSizes s = sizes_of(problem);
    AttentionResults results;
    results.output = HostTensor(output_type, {s.batch, s.query_heads, s.q_len, s.v_head_dim});
    results.log_sum_exp = HostTensor(VKATTN_TYPE_F32, {s.batch, s.query_heads, s.q_len});
    if (kernel == VKATTN_KERNEL_UNFUSED && !problem.key_indices.present()) {
        results.attn_weights = HostTensor(VKATTN_TYPE_F32, {s.batch, s.query_heads, s.q_len, s.kv_len});
        results.qk_matmul_output = results.attn_weights;
    }
    return results;
}

void set_variant(vkattn_attention_desc &desc, const vkattn::Variant *variant,
                 const std::array<HostTensor, VKATTN_CAPTURED_TENSORS> &captured) {
    if (variant != nullptr)
        variant->set_in(desc, captured[0].view(), captured[1].view(), captured[2].view(), captured[3].view());
}

vkattn_attention_desc describe(const AttentionProblem &problem, const AttentionResults &results, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = problem.query.view();
    desc.key = problem.key.view();
    if (!problem.value_in_key) desc.value = problem.value.view();
    desc.output = results.output.view();
    desc.log_sum_exp = results.log_sum_exp.view();
    desc.attn_mask = problem.attn_mask.view();
    desc.block_mask = problem.block_mask.view();
    desc.block_q_len = problem.block_q_len;
    desc.block_kv_len = problem.block_kv_len;
    desc.key_padding_mask = problem.key_padding_mask.view();
    desc.key_lengths = problem.key_lengths.view();
    desc.past_lengths = problem.past_lengths.view();
    desc.alibi_slopes = problem.alibi_slopes.view();
    desc.sinks = problem.sinks.view();
    desc.attn_weights = results.attn_weights.view();
    desc.qk_matmul_output = results.qk_matmul_output.view();
    desc.score_stage = problem.score_stage;
    desc.scale = problem.scale;
    desc.softcap = problem.softcap;
    desc.dropout_p = problem.dropout_p;
    desc.dropout_seed = problem.dropout_seed;
    desc.mask_flags = problem.mask_flags;
    desc.causal_alignment = problem.causal_alignment;
    desc.window_left = problem.window_left;
    desc.window_right = problem.window_right;
    desc.past_len = problem.past_len;
    desc.kv_head_mapping = problem.kv_head_mapping;
    desc.kernel = kernel;
    const auto rotation = [](bool rotated) { return rotated ? VKATTN_ROTATION_HADAMARD : VKATTN_ROTATION_NONE; };
    desc.key_rotation = rotation(problem.keys_rotated);
    desc.value_rotation = rotation(problem.values_rotated);
    desc.key_scales = problem.key_scales.view();
    desc.value_scales = problem.value_scales.view();
    desc.key_indices = problem.key_indices.view();
    desc.tree_mask = problem.tree_mask.view();
    desc.key_block_len = problem.key_block_len;
    desc.query_rounding = problem.query_rounding;
    desc.region_alignment = problem.region_alignment;
    set_variant(desc, problem.variant.get(), problem.captured);
    std::ranges::copy(problem.captured_numbers, desc.captured_numbers);
    return desc;
}

std::vector<Region> regions_of(const AttentionProblem &problem, AttentionResults &results) {
    std::vector<Region> regions;
    const auto add = [&](vkattn_role role, const HostTensor &tensor, Access access) {
        // Inputs are only read: the cast spares a second kind of Region.
        if (tensor.present()) regions.push_back({role, const_cast<HostTensor *>(&tensor), access});
    };
    add(VKATTN_ROLE_QUERY, problem.query, Access::kRead);
    add(VKATTN_ROLE_KEY, problem.key, Access::kRead);
    if (!problem.value_in_key) add(VKATTN_ROLE_VALUE, problem.value, Access::kRead);
    add(VKATTN_ROLE_ATTN_MASK, problem.attn_mask, Access::kRead);
    add(VKATTN_ROLE_BLOCK_MASK, problem.block_mask, Access::kRead);
    add(VKATTN_ROLE_KEY_INDICES, problem.key_indices, Access::kRead);
    add(VKATTN_ROLE_TREE_MASK, problem.tree_mask, Access::kRead);
    add(VKATTN_ROLE_KEY_SCALES, problem.key_scales, Access::kRead);
    add(VKATTN_ROLE_VALUE_SCALES, problem.value_scales, Access::kRead);
    add(VKATTN_ROLE_KEY_PADDING_MASK, problem.key_padding_mask, Access::kRead);
    add(VKATTN_ROLE_KEY_LENGTHS, problem.key_lengths, Access::kRead);
    add(VKATTN_ROLE_PAST_LENGTHS, problem.past_lengths, Access::kRead);
    add(VKATTN_ROLE_ALIBI_SLOPES, problem.alibi_slopes, Access::kRead);
    add(VKATTN_ROLE_SINKS, problem.sinks, Access::kRead);
    for (int i = 0; i < VKATTN_CAPTURED_TENSORS; ++i)
        add(static_cast<vkattn_role>(VKATTN_ROLE_CAPTURED_0 + i), problem.captured[i], Access::kRead);
    add(VKATTN_ROLE_OUTPUT, results.output, Access::kWrite);
    add(VKATTN_ROLE_LOG_SUM_EXP, results.log_sum_exp, Access::kWrite);
    add(VKATTN_ROLE_ATTN_WEIGHTS, results.attn_weights, Access::kWrite);
    add(VKATTN_ROLE_QK_MATMUL_OUTPUT, results.qk_matmul_output, Access::kWrite);
    return regions;
}

void run_attention(const AttentionProblem &problem, AttentionResults &results, const vkattn::Plan &plan) {
    test_device().run(plan, regions_of(problem, results));
}

std::string try_attention(const AttentionProblem &problem, const AttentionReference &reference,
                          AttentionResults &results, vkattn_kernel kernel) {
    const vkattn::Plan plan = test_device().context().attention_plan(describe(problem, results, kernel));
    std::string complaints;
    if (kernel != VKATTN_KERNEL_AUTO && plan.report().kernel != kernel) complaints += "another kernel was taken\n";
    complaints += test_device().try_run(plan, regions_of(problem, results));
    const bool rounds = problem.query_rounding != VKATTN_TYPE_NONE && is_matrix_kernel(plan.report().kernel);
    const double largest = reference.largest_score;
    note_difference(complaints, "output", results.output, reference.output,
                    nmse_bound({rounds ? problem.query_rounding : problem.query.type(), problem.key.type(),
                                problem.value.type(), results.output.type()},
                               largest));
    const vkattn_type of_query = problem.keys_rotated ? problem.query.type() : VKATTN_TYPE_F32; // it is rounded again
    const vkattn_type of_scores = rounds ? problem.query_rounding : of_query;
    const double exact = nmse_bound({of_scores}), weights = nmse_bound({of_scores}, largest);
    note_difference(complaints, "log_sum_exp", results.log_sum_exp, reference.log_sum_exp, exact);
    note_difference(complaints, "attn_weights", results.attn_weights, reference.attn_weights, weights);
    note_difference(complaints, "qk_matmul_output", results.qk_matmul_output, reference.scores,
                    problem.score_stage == VKATTN_SCORES_WEIGHTS ? weights : exact);
    return complaints;
}

void check_attention(const AttentionProblem &problem, const AttentionReference &reference, AttentionResults &results,
                     vkattn_kernel kernel) {
    INFO("kernel ", kernel_text(kernel));
    const std::string complaints = try_attention(problem, reference, results, kernel);
    CHECK_MESSAGE(complaints.empty(), complaints);
}

ShiftedRegions::ShiftedRegions(std::uint64_t bytes) { regions_shift = bytes; }
ShiftedRegions::~ShiftedRegions() { regions_shift = 0; }

bool is_matrix_kernel(vkattn_kernel kernel) {
    return kernel == VKATTN_KERNEL_COOPMAT || kernel == VKATTN_KERNEL_COOPMAT2;
}

bool can_run(const vkattn_device_facts &facts, vkattn_kernel kernel) {
    const auto kernels = std::span(facts.kernels, facts.kernel_count);
    return std::ranges::any_of(kernels, [&](const vkattn_kernel_support &support) {
        return support.kernel == kernel && support.supported != 0;
    });
}

bool has_matrix_kernels() {
    const bool has = can_run(test_device().facts(), VKATTN_KERNEL_COOPMAT);
    if (!has) skip("no coopmat");
    return has;
}

bool serves(const vkattn_attention_desc &desc, vkattn_kernel kernel) {
    if (kernel == VKATTN_KERNEL_LATENT_DECODE && desc.value.type != VKATTN_TYPE_NONE) return false;
    if (!is_matrix_kernel(kernel) && kernel != VKATTN_KERNEL_ADDRESSES) return true;
    vkattn_attention_desc asked = desc;
    asked.kernel = kernel;
    try {
        test_device().context().attention_plan(asked);
        return true;
    } catch (const vkattn::Error &error) {
        CHECK_MESSAGE(error.result() == VKATTN_ERROR_UNSUPPORTED, error.what());
        return false;
    }
}

// A driver of a CPU compiles a kernel for seconds: there a problem is given one kernel, and the next problem the next one,
// unless VKATTN_TEST_KERNELS=all. VKATTN_TEST_KERNELS=NAME: that one, of the problems that it serves.
std::vector<vkattn_kernel> kernels_for(const vkattn_attention_desc &desc) {
    static const std::string named = environment("VKATTN_TEST_KERNELS");
    static const bool all = named == "all" || test_device().facts().device_type != VK_PHYSICAL_DEVICE_TYPE_CPU;
    static std::atomic<unsigned> turn = 0;
    constexpr vkattn_kernel kAll[] = {VKATTN_KERNEL_UNFUSED,       VKATTN_KERNEL_FLASH,   VKATTN_KERNEL_DECODE,
                                      VKATTN_KERNEL_LATENT_DECODE, VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_COOPMAT2,
                                      VKATTN_KERNEL_ADDRESSES};
    for (const vkattn_kernel kernel : kAll)
        if (named == vkattn_kernel_name(kernel) && serves(desc, kernel)) return {kernel};
    std::vector<vkattn_kernel> kernels;
    has_matrix_kernels(); // which notes where they are left out
    std::ranges::copy_if(kAll, std::back_inserter(kernels), [&](vkattn_kernel kernel) { return serves(desc, kernel); });
    if (all || kernels.empty()) return kernels;
    return {kernels[turn++ % kernels.size()]};
}

std::vector<vkattn_kernel> kernels_for(const AttentionProblem &problem) {
    return kernels_for(describe(problem, all_results(problem, VKATTN_KERNEL_AUTO, VKATTN_TYPE_F32), {}));
}

AttentionProblem in_f16(const AttentionProblem &problem) {
    AttentionProblem half = problem;
    for (HostTensor *tensor : {&half.query, &half.key, &half.value})
        if (tensor->type() == VKATTN_TYPE_F32 || tensor->type() == VKATTN_TYPE_BF16)
            *tensor = tensor_of(VKATTN_TYPE_F16, tensor->shape(), tensor->floats());
    return half;
}

bool refuses_lists(const AttentionProblem &problem, vkattn_kernel kernel) {
    if (!problem.key_indices.present()) return false;
    const AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
    try {
        (void)test_device().context().attention_plan(describe(problem, results, kernel));
    } catch (const vkattn::Error &error) {
        return std::string(error.what()).find("llvmpipe crashes in tiles of lists of keys") != std::string::npos;
    }
    return false;
}

void check_every_kernel(const AttentionProblem &problem, vkattn_type output_type) {
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        if (refuses_lists(problem, kernel)) continue;
        AttentionResults results = all_results(problem, kernel, output_type);
        check_attention(problem, reference, results, kernel);
    }
    if (problem.query.type() != VKATTN_TYPE_F32 || !has_matrix_kernels()) return;
    const AttentionProblem half = in_f16(problem);
    const AttentionReference half_reference = reference_attention(half);
    for (const vkattn_kernel kernel : kernels_for(half)) {
        if (refuses_lists(half, kernel)) continue;
        AttentionResults results = all_results(half, kernel, output_type);
        if (is_matrix_kernel(kernel)) check_attention(half, half_reference, results, kernel);
    }
}

} // namespace vkattn_test
