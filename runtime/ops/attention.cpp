#include "runtime/ops/attention.hpp"

#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/support/error.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/ops/kv_append.hpp"

#include <algorithm>

namespace vkattn {
namespace {

void bind_all(Plan &plan, Step &step, const AttentionProblem &problem, const AttentionSources &sources,
              const View &scores) {
    const auto tensors = tensors_of(problem);
    for (uint32_t binding = 0; binding < ATTENTION_BINDINGS; ++binding)
        if (tensors[binding] != nullptr) bind(plan, step, binding, {*tensors[binding], sources[binding]});
    bind(plan, step, BINDING_SCORES, scores);
}

Step &add_dispatch(Plan &plan, Module module, const AttentionChoice::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters) {
    Step &step = plan.add_step(plan.pipeline(module, dispatch.constants), push);
    step.groups = dispatch.groups;
    step.uniforms = parameters;
    return step;
}

View reserve(Plan &plan, const vkattn_tensor &tensor) {
    View view{tensor, {}};
    if (present(view)) view.source = plan.reserve_workspace(extent_bytes(tensor));
    return view;
}

// What every dispatch of one flash reads and writes.
struct Flash {
    const AttentionProblem &problem;
    const AttentionSources &sources;
    const AttentionChoice &choice;
    UniformSlot parameters;
    View states;
    View staged_key, staged_value;
};

// What is copied of a sequence's keys: those it has, and what the last step of one that has fewer loads beyond them.
void limit_to_lengths(const Flash &flash, RowsToAppend &rows) {
    const AttentionProblem &problem = flash.problem;
    rows.beyond = flash.choice.dispatches[0].constants.STEP;
    if (present(problem.key_lengths)) {
        rows.lengths = {problem.key_lengths, flash.sources[BINDING_KEY_LENGTHS]};
    } else if (present(problem.past_lengths) && problem.keys_to_last_query) {
        rows.lengths = {problem.past_lengths, flash.sources[BINDING_PAST_LENGTHS]};
        rows.beyond += problem.q_len;
    }
}

// Where a dispatch of flash_addresses finds its keys: in K and V themselves, or in copies made before it.
void pass_keys(Plan &plan, const Flash &flash, gpu::AttentionPush &push, View (&views)[2]) {
    push.addressed_begin = 0;
    push.addressed_end = flash.problem.kv_len;
    views[0] = {flash.problem.key, flash.sources[BINDING_KEY]};
    views[1] = {flash.problem.value, flash.sources[BINDING_VALUE]};
    if (!present(flash.staged_key)) return;
    push.addressed_end = push.last_key;
    push.addressed_begin = std::min(push.first_key, push.last_key - flash.choice.dispatches[0].constants.STEP);
    RowsToAppend rows{.source = views[0], .cache = flash.staged_key};
    rows.cu_seqlens = {flash.problem.cu_seqlens_k, flash.sources[BINDING_CU_SEQLENS_K]};
    rows.block_table = {flash.problem.block_table, flash.sources[BINDING_BLOCK_TABLE]};
    rows.gathers = true;
    limit_to_lengths(flash, rows);
    rows.first = push.addressed_begin;
    rows.batch = flash.problem.batch;
    rows.positions = push.addressed_end - push.addressed_begin;
    add_kv_append(plan, rows);
    views[0] = views[1] = flash.staged_key;
    if (present(flash.staged_value)) {
        rows.source = {flash.problem.value, flash.sources[BINDING_VALUE]};
        rows.cache = views[1] = flash.staged_value;
        add_kv_append(plan, rows);
    }
    plan.barrier();
}

// No driver that wants loops rolled multiplies matrices of bf16.
Module module_of_matrices(const AttentionChoice &choice, const DeviceTraits &traits) {
    const bool bf16 = choice.dispatches[0].constants.QUERY_FORMAT == FORMAT_BF16;
    const bool rolled = traits.unroll_matrices == 0;
    if (choice.kernel == VKATTN_KERNEL_COOPMAT2)
        return bf16 ? Module::kCoopmat2Bf16 : rolled ? Module::kCoopmat2Rolled : Module::kCoopmat2;
    return bf16 ? Module::kCoopmatBf16 : rolled ? Module::kCoopmatRolled : Module::kCoopmat;
}

} // namespace

Module module_of(const AttentionChoice &choice, const DeviceTraits &traits) {
    switch (choice.body) {
    case FlashBody::kAddresses:
        return Module::kFlashAddresses;
    case FlashBody::kMatrices:
        return module_of_matrices(choice, traits);
    default:
        return Module::kFlash;
    }
}

namespace {

// The dispatches of one stretch of keys: one, or several that share the grid's first axis, one after the other.
void add_flash_dispatches(Plan &plan, const Flash &flash, gpu::AttentionPush push) {
    const bool addressed = reads_addresses(flash.choice.body);
    View keys_and_values[2];
    if (addressed) pass_keys(plan, flash, push, keys_and_values);
    AttentionChoice::Dispatch dispatch = flash.choice.dispatches[0];
    const uint32_t groups = dispatch.groups[0];
    const Module module = module_of(flash.choice, plan.context().caps().traits);
    for (push.first_group = 0; push.first_group < groups; push.first_group += flash.choice.groups_per_dispatch) {
        if (push.first_group > 0) plan.barrier();
        dispatch.groups[0] = std::min(flash.choice.groups_per_dispatch, groups - push.first_group);
        Step &step = add_dispatch(plan, module, dispatch, push, flash.parameters);
        bind_all(plan, step, flash.problem, flash.sources, flash.states);
        step.written_binding = flash.choice.parts > 1 ? BINDING_SCORES : BINDING_OUTPUT;
        if (flash.choice.parts > 1) // the merge writes them, and others may meanwhile
            for (uint32_t binding : {BINDING_OUTPUT, BINDING_LOG_SUM_EXP}) step.bound[binding] = {};
        if (!addressed) continue;
        constexpr uint32_t kKeyWord = offsetof(gpu::AttentionPush, key_address) / sizeof(uint32_t);
        constexpr uint32_t kValueWord = offsetof(gpu::AttentionPush, value_address) / sizeof(uint32_t);
        pass_address(plan, step.addresses[0], kKeyWord, keys_and_values[0]);
        pass_address(plan, step.addresses[1], kValueWord, keys_and_values[1]);
    }
}

void add_merge(Plan &plan, const Flash &flash) {
    plan.barrier();
    Step &step =
        add_dispatch(plan, Module::kMergeParts, flash.choice.dispatches[1], gpu::AttentionPush{}, flash.parameters);
    bind_all(plan, step, flash.problem, flash.sources, flash.states);
    step.written_binding = BINDING_OUTPUT;
}

void add_flash(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources,
               const AttentionChoice &choice) {
    const Flash flash{problem,
                      sources,
                      choice,
                      plan.keep_uniforms(choice.parameters),
                      reserve(plan, choice.scores),
                      reserve(plan, choice.staged_key),
                      reserve(plan, choice.staged_value)};
    gpu::AttentionPush push{};
    for (uint64_t first = 0; first < problem.kv_len; first += choice.keys_per_dispatch) {
        if (first > 0) plan.barrier();
        push.first_key = static_cast<uint32_t>(first);
        push.last_key = static_cast<uint32_t>(std::min<uint64_t>(first + choice.keys_per_dispatch, problem.kv_len));
        add_flash_dispatches(plan, flash, push);
    }
    if (choice.parts > 1) add_merge(plan, flash);
}

void add_unfused(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources,
                 const AttentionChoice &choice) {
    const View scores = reserve(plan, choice.scores);
    const UniformSlot parameters = plan.keep_uniforms(choice.parameters);
    const Module modules[] = {Module::kQkScores, Module::kMaskedSoftmax, Module::kWeightedValues};
    for (size_t number = 0; number < std::size(modules); ++number) {
        if (number > 0) plan.barrier();
        Step &step = add_dispatch(plan, modules[number], choice.dispatches[number], gpu::AttentionPush{}, parameters);
        bind_all(plan, step, problem, sources, scores);
        step.written_binding = number == 2 ? BINDING_OUTPUT : BINDING_SCORES;
    }
}

} // namespace

AttentionSources attention_roles() {
    AttentionSources sources{};
    const auto set = [&](uint32_t binding, vkattn_role role) { sources[binding].role = role; };
    set(BINDING_QUERY, VKATTN_ROLE_QUERY);
    set(BINDING_KEY, VKATTN_ROLE_KEY);
    set(BINDING_VALUE, VKATTN_ROLE_VALUE);
    set(BINDING_OUTPUT, VKATTN_ROLE_OUTPUT);
    set(BINDING_LOG_SUM_EXP, VKATTN_ROLE_LOG_SUM_EXP);
    set(BINDING_ATTN_MASK, VKATTN_ROLE_ATTN_MASK);
    set(BINDING_KEY_PADDING_MASK, VKATTN_ROLE_KEY_PADDING_MASK);
    set(BINDING_KEY_LENGTHS, VKATTN_ROLE_KEY_LENGTHS);
    set(BINDING_PAST_LENGTHS, VKATTN_ROLE_PAST_LENGTHS);
    set(BINDING_ALIBI_SLOPES, VKATTN_ROLE_ALIBI_SLOPES);
    set(BINDING_SINKS, VKATTN_ROLE_SINKS);
    set(BINDING_ATTN_WEIGHTS, VKATTN_ROLE_ATTN_WEIGHTS);
    set(BINDING_QK_MATMUL_OUTPUT, VKATTN_ROLE_QK_MATMUL_OUTPUT);
    set(BINDING_CU_SEQLENS_Q, VKATTN_ROLE_CU_SEQLENS_Q);
    set(BINDING_CU_SEQLENS_K, VKATTN_ROLE_CU_SEQLENS_K);
    set(BINDING_BLOCK_TABLE, VKATTN_ROLE_BLOCK_TABLE);
    set(BINDING_BLOCK_MASK, VKATTN_ROLE_BLOCK_MASK);
    return sources;
}

AttentionSources roles_of(const AttentionProblem &problem) {
    AttentionSources sources = attention_roles();
    if (problem.value_in_key) sources[BINDING_VALUE] = sources[BINDING_KEY];
    return sources;
}

std::array<const vkattn_tensor *, ATTENTION_BINDINGS> tensors_of(const AttentionProblem &problem) {
    std::array<const vkattn_tensor *, ATTENTION_BINDINGS> tensors{};
    tensors[BINDING_QUERY] = &problem.query;
    tensors[BINDING_KEY] = &problem.key;
    tensors[BINDING_VALUE] = &problem.value;
    tensors[BINDING_OUTPUT] = &problem.output;
    tensors[BINDING_LOG_SUM_EXP] = &problem.log_sum_exp;
    tensors[BINDING_ATTN_MASK] = &problem.attn_mask;
    tensors[BINDING_KEY_PADDING_MASK] = &problem.key_padding_mask;
    tensors[BINDING_KEY_LENGTHS] = &problem.key_lengths;
    tensors[BINDING_PAST_LENGTHS] = &problem.past_lengths;
    tensors[BINDING_ALIBI_SLOPES] = &problem.alibi_slopes;
    tensors[BINDING_SINKS] = &problem.sinks;
    tensors[BINDING_ATTN_WEIGHTS] = &problem.attn_weights;
    tensors[BINDING_QK_MATMUL_OUTPUT] = &problem.qk_matmul_output;
    tensors[BINDING_CU_SEQLENS_Q] = &problem.cu_seqlens_q;
    tensors[BINDING_CU_SEQLENS_K] = &problem.cu_seqlens_k;
    tensors[BINDING_BLOCK_TABLE] = &problem.block_table;
    tensors[BINDING_BLOCK_MASK] = &problem.block_mask;
    return tensors;
}

namespace {

// Whether V is the beginning of K's rows, as an MLA layer's latents are.
bool shares_rows(const AttentionProblem &problem, const AttentionSources &sources) {
    const vkattn_tensor &key = problem.key, &value = problem.value;
    return sources[BINDING_KEY] == sources[BINDING_VALUE] && key.type == value.type && key.offset == value.offset &&
           value.shape[3] <= key.shape[3] && std::equal(key.strides, key.strides + 4, value.strides);
}

// Kernels are tested until the one that is chosen has passed.
void test_choices(Context &context, const AttentionProblem &problem) {
    if (context.caps().traits.self_test == 0) return;
    for (int tests = 0; tests < VKATTN_KERNEL_COUNT; ++tests) {
        const vkattn_kernel chosen = plan_attention(problem, context.judged_caps()).kernel;
        if (!context.verdicts().test_before_use(chosen)) return;
    }
}

// What tuning found is followed, and what is chosen has passed its test.
void prepare(Context &context, AttentionProblem &problem) {
    if (problem.tile.kernel == VKATTN_KERNEL_AUTO) problem.tile = context.tunings().attention.find(class_of(problem));
    if (problem.kernel == VKATTN_KERNEL_AUTO) test_choices(context, problem);
}

// One problem, in as many parts as the device needs to bind it. Returns what was chosen for the last of them.
AttentionChoice add_parts(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources) {
    const DeviceCaps caps = plan.context().judged_caps();
    const std::vector<AttentionProblem> parts = split_to_bind(problem, caps);
    const uint64_t workspace = plan.reserved_workspace();
    AttentionChoice choice{};
    for (const AttentionProblem &part : parts) {
        if (&part != &parts.front()) plan.reuse_workspace(workspace);
        choice = plan_attention(part, caps);
        (choice.kernel == VKATTN_KERNEL_UNFUSED ? add_unfused : add_flash)(plan, part, sources, choice);
    }
    if (parts.size() > 1)
        choice.reason +=
            text("; in ", parts.size(), " parts, for tensors above maxStorageBufferRange or 2^32 elements");
    return choice;
}

} // namespace

void add_attention(Plan &plan, const AttentionProblem &given, const AttentionSources &sources) {
    AttentionProblem problem = given;
    problem.value_in_key = shares_rows(problem, sources);
    prepare(plan.context(), problem);
    std::vector<AttentionProblem> apart = split_by_queries(problem, plan.context().judged_caps());
    AttentionChoice choice = add_parts(plan, apart.front(), sources);
    if (apart.size() > 1) {
        AttentionProblem &decodes = apart.back();
        prepare(plan.context(), decodes);
        // keys in parts: nothing is written but their states before the merge, and so both run side by side
        if (plan_attention(decodes, plan.context().judged_caps()).parts == 1) plan.barrier();
        const AttentionChoice chosen = add_parts(plan, decodes, sources);
        choice.reason += text("; sequences of at most ", decodes.q_len, " queries by ",
                              vkattn_kernel_name(chosen.kernel), ", their keys in ", chosen.parts, " parts");
    }
    plan.set_choice(choice.kernel, choice.reason);
}

} // namespace vkattn
