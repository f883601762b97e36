// The C entry points: check the handles, call, translate errors. No logic.
#define STRINGIFY_VALUE(x) #x
#define STRINGIFY(x) STRINGIFY_VALUE(x)

#include "runtime/api/lists.hpp"
#include "runtime/layers/cache.hpp"
#include "runtime/layers/call.hpp"
#include "runtime/layers/layer.hpp"
#include "runtime/layers/layer_backward.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/prewarm.hpp"
#include "runtime/plan/shared_plans.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/programs/program.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "runtime/support/usage.hpp"
#include "runtime/trials/ready_context.hpp"
#include "runtime/trials/saved_state.hpp"
#include "runtime/trials/self_test.hpp"
#include "runtime/trials/tuning.hpp"
#include "runtime/vulkan/device_query.hpp"
#include "runtime/vulkan/memory.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

using namespace vkattn;

// A context, for as long as anything that was made with it.
struct ContextState {
    explicit ContextState(const vkattn_context_info &info)
        : made(ready_context(info)), context(*made), plans(info.shared_plan_count) {}
    std::unique_ptr<Context> made;
    Context &context;
    std::mutex mutex; // of what was shown
    std::vector<std::unique_ptr<ShownDevice>> shown;
    SharedPlans plans;
};

// Each handle keeps the objects that its own needs, the context first: it goes last.
struct vkattn_context_opaque {
    explicit vkattn_context_opaque(const vkattn_context_info &info) : state(std::make_shared<ContextState>(info)) {}
    Usage usage{"context"};
    std::shared_ptr<ContextState> state;
    Context &context = state->context;
};

struct vkattn_buffer_opaque {
    vkattn_buffer_opaque(std::shared_ptr<ContextState> in, uint64_t bytes)
        : context(std::move(in)), shared(std::make_shared<Buffer>(context->context, bytes, "vkattn buffer")) {
        context->context.share_buffer(buffer.handle(), shared);
    }
    std::shared_ptr<ContextState> context;
    Usage usage{"buffer"};
    std::shared_ptr<Buffer> shared; // submissions and programs keep it, too
    Buffer &buffer = *shared;
};

struct vkattn_plan_opaque {
    vkattn_plan_opaque(std::shared_ptr<ContextState> in, std::shared_ptr<const Plan> made)
        : context(std::move(in)), plan(std::move(made)) {}
    std::shared_ptr<ContextState> context;
    Usage usage{"plan"};
    std::shared_ptr<const Plan> plan; // programs and submissions keep it, too
    std::mutex mutex;                 // of shaders
    std::shared_ptr<const ShaderReports> shaders;
};

struct vkattn_program_opaque {
    vkattn_program_opaque(std::shared_ptr<ContextState> in, std::span<const BoundPlan> plans)
        : context(std::move(in)), program(context->context, plans) {}
    std::shared_ptr<ContextState> context;
    Usage usage{"program"};
    Program program;
};

struct vkattn_layer_opaque {
    vkattn_layer_opaque(std::shared_ptr<ContextState> in, const vkattn_layer_config &config,
                        std::span<const vkattn_weight> weights)
        : context(std::move(in)), layer(std::make_shared<Layer>(context->context, config, weights)) {}
    std::shared_ptr<ContextState> context;
    Usage usage{"layer"};
    std::shared_ptr<Layer> layer;
};

struct vkattn_cache_opaque {
    vkattn_cache_opaque(std::shared_ptr<ContextState> in, const CacheSizes &sizes)
        : context(std::move(in)), shared(std::make_shared<Cache>(context->context, sizes)) {
        for (const Buffer *part : cache.buffers()) context->context.share_buffer(part->handle(), shared);
    }
    std::shared_ptr<ContextState> context;
    std::shared_ptr<Cache> shared;
    Cache &cache = *shared;
    Usage &usage = cache.usage();
};

namespace {

LayerCall with_object(const vkattn_layer_call &call) {
    return {call, call.cache != nullptr ? &call.cache->cache : nullptr};
}

template <class Pointer>
void require_given(Pointer pointer, const char *name) {
    require(pointer != nullptr, name, ": NULL, expected a pointer");
}

std::span<const vkattn_binding> given_bindings(const vkattn_binding *bindings, uint32_t count) {
    require(bindings != nullptr || count == 0, "bindings: NULL, expected ", count, " entries");
    return {bindings, count};
}

// Creates through a unique_ptr, so that *out is set only when all has gone well.
template <class Object, class Make>
vkattn_result create(Object **out, const char *name, Make &&make) {
    if (out != nullptr) *out = nullptr;
    return guard([&] {
        require_given(out, name);
        *out = make().release();
    });
}

template <class Object>
void destroy(Object *object) {
    if (object != nullptr) InChange{object->usage};
    delete object;
}

// What tells a description from others of its type, as far as plans are concerned. A plan keeps its variant, so that no other
// one has its address.
template <class Desc>
std::string key_of(const Desc &desc) {
    return {reinterpret_cast<const char *>(&desc), sizeof desc};
}

std::string key_of(vkattn_attention_desc desc) {
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (present(desc.*tensor.given)) desc.*tensor.given = normalised(desc.*tensor.given, tensor.name);
    const void *variant = desc.variant != nullptr ? desc.variant->variant.get() : nullptr;
    desc.variant = nullptr;
    std::string key(reinterpret_cast<const char *>(&desc), sizeof desc);
    return key.append(reinterpret_cast<const char *>(&variant), sizeof variant);
}

std::string key_of(vkattn_attention_backward_desc desc) {
    std::string key = desc.attention != nullptr ? key_of(sized(desc.attention, "attention")) : std::string();
    desc.attention = nullptr;
    return key.append(reinterpret_cast<const char *>(&desc), sizeof desc);
}

std::string key_of(vkattn_rotary_embedding_desc desc) {
    const vkattn_rope_scaling &scaling = desc.rope_scaling;
    std::string key;
    const uint32_t rank = std::min(desc.input.rank, uint32_t{4});
    const uint64_t dims = desc.rotary_dim != 0 ? desc.rotary_dim : rank > 0 ? desc.input.shape[rank - 1] : 0;
    const bool has_factors = scaling.kind == VKATTN_ROPE_LONGROPE && scaling.factors != nullptr;
    if (has_factors && scaling.factor_count == dims / 2) // others are refused before they are read
        key.assign(reinterpret_cast<const char *>(scaling.factors), scaling.factor_count * sizeof *scaling.factors);
    desc.rope_scaling.factors = nullptr;
    return key.append(reinterpret_cast<const char *>(&desc), sizeof desc);
}

template <class Desc, class Build>
std::unique_ptr<const Plan> built(Context &context, const Desc &desc, Build &&build) {
    PlanBuilder builder(context);
    build(builder, desc);
    return builder.build();
}

// Creates the plan that build(PlanBuilder &, const Desc &) makes of a description.
template <class Desc, class Build>
vkattn_result create_plan(vkattn_context context, const Desc *desc, vkattn_plan *plan, Build &&build) {
    return create(plan, "plan", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_plan_opaque>(context->state,
                                                    built(context->context, sized(desc, "desc"), build));
    });
}

// The same, where the context may have such a plan already. operation: which one is planned.
template <class Desc, class Build>
vkattn_result share_plan(vkattn_context context, const char *operation, const Desc *desc, vkattn_plan *plan,
                         Build &&build) {
    if (context == nullptr || !context->state->plans.keeps_any()) return create_plan(context, desc, plan, build);
    return create(plan, "plan", [&] {
        const Desc given = sized(desc, "desc");
        const auto make = [&] { return built(context->context, given, build); };
        return std::make_unique<vkattn_plan_opaque>(context->state,
                                                    context->state->plans.get(operation + key_of(given), make));
    });
}

// Lists what find() finds.
template <class Find>
vkattn_result list(vkattn_list *out, const char *name, Find &&find) {
    return create(out, name, [&] { return std::make_unique<ListOf<typename decltype(find())::value_type>>(find()); });
}

// Tunes the problem that check(desc) makes of a description.
template <class Desc, class Check>
vkattn_result tune_with(vkattn_context context, const Desc *desc, vkattn_list *candidates, Check &&check) {
    if (candidates != nullptr) *candidates = nullptr;
    return guard([&] {
        require_given(context, "context");
        std::vector<Candidate> tried = tune(context->context, check(sized(desc, "desc")));
        context->state->plans.clear(); // plans from now on take what was found
        if (candidates != nullptr) *candidates = new ListOf<Candidate>(std::move(tried));
    });
}

// What a plan would take that build(PlanBuilder &) makes.
template <class Build>
vkattn_measure measured(Context &context, Build &&build) {
    PlanBuilder builder(context, PlanBuilder::Purpose::kMeasure);
    build(builder);
    return builder.build()->measure();
}

// Measures what build(PlanBuilder &, const Desc &) makes of a description.
template <class Desc, class Build>
vkattn_result measure_plan(vkattn_context context, const Desc *desc, vkattn_measure *measure, Build &&build) {
    return guard([&] {
        require_given(context, "context");
        const Desc given = sized(desc, "desc");
        fill_in(measure, measured(context->context, [&](PlanBuilder &builder) { build(builder, given); }), "measure");
    });
}

// Builds what the plans need that build(PlanBuilder &, const Desc &) makes of descriptions, each as large as the first says.
template <class Desc, class Build>
vkattn_result prewarm_plans(vkattn_context context, const Desc *descs, uint32_t count, uint32_t threads,
                            Build &&build) {
    return guard([&] {
        require_given(context, "context");
        require(descs != nullptr || count == 0, "descs: NULL, expected ", count, " descriptions");
        std::vector<Desc> given;
        const auto *at = reinterpret_cast<const std::byte *>(descs);
        for (uint32_t i = 0; i < count; ++i, at += descs->struct_size)
            given.push_back(sized(reinterpret_cast<const Desc *>(at), "descs"));
        prewarm(
            context->context, count, [&](PlanBuilder &builder, size_t i) { build(builder, given[i]); }, threads);
    });
}

vkattn_report report_of(const Plan &plan) {
    return {.kernel = plan.kernel(),
            .kernel_name = vkattn_kernel_name(plan.kernel()),
            .reason = plan.reason().c_str(),
            .dispatches = plan.dispatches()};
}

} // namespace

uint32_t vkattn_list_count(vkattn_list list) { return list != nullptr ? list->count() : 0; }

const void *vkattn_list_get(vkattn_list list, uint32_t index) {
    return index < vkattn_list_count(list) ? list->get(index) : nullptr;
}

void vkattn_list_destroy(vkattn_list list) { delete list; }

const char *vkattn_role_name(vkattn_role role) { return role_name(role); }

const char *vkattn_version(void) {
    return STRINGIFY(VKATTN_VERSION_MAJOR) "." STRINGIFY(VKATTN_VERSION_MINOR) "." STRINGIFY(VKATTN_VERSION_PATCH);
}

vkattn_result vkattn_enumerate_types(vkattn_list *types) {
    return list(types, "types", [] { return std::vector<StoredType>(stored_types().begin(), stored_types().end()); });
}

uint64_t vkattn_tensor_bytes(const vkattn_tensor *tensor) {
    uint64_t bytes = 0;
    guard([&] {
        if (tensor != nullptr) bytes = extent_bytes(normalised(*tensor, "tensor"));
    });
    return bytes;
}

vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr, vkattn_list *devices) {
    return list(devices, "devices", [&] {
        std::vector<std::unique_ptr<ShownDevice>> all;
        for (DeviceCaps &device : enumerate_devices(get_instance_proc_addr))
            all.push_back(std::make_unique<ShownDevice>(std::make_shared<const DeviceCaps>(std::move(device))));
        return all;
    });
}

const char *const *vkattn_wanted_extensions(uint32_t *count) {
    const auto wanted = wanted_device_extensions();
    if (count != nullptr) *count = static_cast<uint32_t>(wanted.size());
    return wanted.data();
}

vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context) {
    return create(context, "context",
                  [&] { return std::make_unique<vkattn_context_opaque>(sized_or_default(info, "info")); });
}

void vkattn_context_destroy(vkattn_context context) { destroy(context); }

void vkattn_withdraw_trials(void) { CrashJournal::withdraw_all(); }

vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts) {
    return guard([&] {
        require_given(context, "context");
        ContextState &state = *context->state;
        const std::lock_guard lock(state.mutex);
        std::shared_ptr<const DeviceCaps> caps = state.context.judged_caps();
        if (state.shown.empty() || state.shown.back()->caps() != caps)
            state.shown.push_back(std::make_unique<ShownDevice>(std::move(caps)));
        fill_in(facts, state.shown.back()->facts(), "facts");
    });
}

vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report) {
    return guard([&] {
        require_given(context, "context");
        const TuningBudget::Report own = context->context.tunings().budget.report();
        fill_in(report,
                {.budget_ms = own.allowed,
                 .spent_ms = own.spent,
                 .classes = own.measured,
                 .candidates = own.candidates,
                 .left_out = own.left_out},
                "report");
    });
}

vkattn_result vkattn_context_save(vkattn_context context, void *data, uint64_t *bytes) {
    return guard([&] {
        require_given(context, "context");
        require_given(bytes, "bytes");
        const std::vector<std::byte> saved = save_state(context->context);
        if (data != nullptr) {
            require_room(*bytes >= saved.size(), "bytes: ", *bytes, ", expected at least ", saved.size());
            std::ranges::copy(saved, static_cast<std::byte *>(data));
        }
        *bytes = saved.size();
    });
}

vkattn_result vkattn_self_test(vkattn_context context, vkattn_check_callback callback, void *user,
                               vkattn_list *checks) {
    if (checks != nullptr) *checks = nullptr;
    return guard([&] {
        require_given(context, "context");
        std::vector<Check> all;
        self_test(context->context, [&](const Check &check) {
            if (callback != nullptr) {
                const vkattn_check each = public_form(check);
                callback(user, &each);
            }
            if (checks != nullptr) all.push_back(check);
        });
        context->state->plans.clear(); // plans from now on take what passed
        if (checks != nullptr) *checks = new ListOf<Check>(std::move(all));
    });
}

vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance, VkPhysicalDevice *physical_device,
                                     VkDevice *device, VkQueue *queue, uint32_t *queue_family) {
    return guard([&] {
        require_given(context, "context");
        const Context &own = context->context;
        if (instance != nullptr) *instance = own.instance();
        if (physical_device != nullptr) *physical_device = own.physical_device();
        if (device != nullptr) *device = own.device();
        if (queue != nullptr) *queue = own.queue();
        if (queue_family != nullptr) *queue_family = own.queue_family();
    });
}

vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer) {
    return create(buffer, "buffer", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_buffer_opaque>(context->state, bytes);
    });
}

void vkattn_buffer_destroy(vkattn_buffer buffer) { destroy(buffer); }

VkBuffer vkattn_buffer_handle(vkattn_buffer buffer) {
    return buffer == nullptr ? VK_NULL_HANDLE : buffer->buffer.handle();
}

vkattn_region vkattn_buffer_region(vkattn_buffer buffer) {
    if (buffer == nullptr) return {};
    return {buffer->buffer.handle(), 0, buffer->buffer.bytes()};
}

namespace {

void require_range(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes) {
    require_given(buffer, "buffer");
    require(data != nullptr || bytes == 0, "data: NULL, expected ", bytes, " bytes");
    const uint64_t size = buffer->buffer.bytes();
    require(offset <= size && bytes <= size - offset, "offset, bytes: ", offset, " and ", bytes,
            ", expected a range within the buffer's ", size, " bytes");
}

} // namespace

vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.context().submissions().wait();
        buffer->buffer.write(offset, data, bytes);
    });
}

vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.context().submissions().wait();
        buffer->buffer.read(offset, data, bytes);
    });
}

vkattn_result vkattn_buffer_upload(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes,
                                   const vkattn_sync *sync) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.upload(offset, data, bytes, sync);
    });
}

vkattn_result vkattn_buffer_download(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes,
                                     const vkattn_sync *sync) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.download(offset, data, bytes, sync);
    });
}

vkattn_result vkattn_wait(vkattn_context context, uint64_t timeout_ns) {
    return guard([&] {
        require_given(context, "context");
        if (!context->context.submissions().wait(timeout_ns))
            fail(VKATTN_ERROR_TIMEOUT, "timeout_ns: ", timeout_ns, " are over, and the device is not done");
    });
}

vkattn_result vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements) {
    return guard([&] {
        require_given(plan, "plan");
        fill_in(requirements, plan->plan->requirements(), "requirements");
    });
}

vkattn_result vkattn_plan_get_report(vkattn_plan plan, vkattn_report *report) {
    return guard([&] {
        require_given(plan, "plan");
        fill_in(report, report_of(*plan->plan), "report");
    });
}

vkattn_result vkattn_plan_bindings(vkattn_plan plan, vkattn_list *bindings) {
    return list(bindings, "bindings", [&] {
        require_given(plan, "plan");
        return plan->plan->bindings();
    });
}

vkattn_result vkattn_plan_shaders(vkattn_plan plan, vkattn_list *shaders) {
    return create(shaders, "shaders", [&] {
        require_given(plan, "plan");
        const InUse use(plan->usage);
        const std::lock_guard lock(plan->mutex);
        if (plan->shaders == nullptr) plan->shaders = std::make_shared<const ShaderReports>(*plan->plan);
        return std::make_unique<ListOfShaders>(plan->shaders);
    });
}

vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info) {
    return guard([&] {
        require_given(plan, "plan");
        const vkattn_record_info given = sized(info, "info");
        const InUse use(plan->usage);
        plan->plan->record(given);
    });
}

vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count, double *gpu_ms) {
    return guard([&] {
        require_given(plan, "plan");
        const std::span<const vkattn_binding> given = given_bindings(bindings, binding_count);
        const InUse use(plan->usage);
        plan->plan->run(given, gpu_ms);
    });
}

vkattn_result vkattn_submit(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                            const vkattn_sync *sync) {
    return guard([&] {
        require_given(plan, "plan");
        const std::span<const vkattn_binding> given = given_bindings(bindings, binding_count);
        const InUse use(plan->usage);
        plan->plan->submit(given, sync);
    });
}

void vkattn_plan_destroy(vkattn_plan plan) { destroy(plan); }

vkattn_result vkattn_program_create(vkattn_context context, const vkattn_program_info *info, vkattn_program *program) {
    return create(program, "program", [&] {
        require_given(context, "context");
        const vkattn_program_info given = sized(info, "info");
        require_given(given.plans, "plans");
        require(given.plan_count > 0, "plan_count: 0, expected at least 1");
        std::vector<BoundPlan> plans;
        for (const vkattn_bound_plan &bound : std::span(given.plans, given.plan_count)) {
            const std::string name = text("plans[", plans.size(), "]");
            require(bound.plan != nullptr, name, ": plan is NULL, expected a plan");
            require(bound.bindings != nullptr || bound.binding_count == 0, name, ": bindings: NULL, expected ",
                    bound.binding_count, " entries");
            const InUse use(bound.plan->usage);
            plans.push_back({bound.plan->plan, {bound.bindings, bound.binding_count}});
        }
        return std::make_unique<vkattn_program_opaque>(context->state, plans);
    });
}

vkattn_result vkattn_program_get_report(vkattn_program program, vkattn_program_report *report) {
    return guard([&] {
        require_given(program, "program");
        fill_in(report, program->program.report(), "report");
    });
}

vkattn_result vkattn_program_run(vkattn_program program, double *gpu_ms) {
    return guard([&] {
        require_given(program, "program");
        const InUse use(program->usage);
        program->program.run(gpu_ms);
    });
}

vkattn_result vkattn_program_submit(vkattn_program program, const vkattn_sync *sync) {
    return guard([&] {
        require_given(program, "program");
        const InUse use(program->usage);
        program->program.submit(sync);
    });
}

void vkattn_program_destroy(vkattn_program program) { destroy(program); }

#define VKATTN_PLAN(name)                                                                                              \
    vkattn_result vkattn_##name##_plan(vkattn_context context, const vkattn_##name##_desc *desc, vkattn_plan *plan) {  \
        return share_plan(context, #name, desc, plan, plan_##name);                                                    \
    }
VKATTN_OPERATORS(VKATTN_PLAN)

vkattn_result vkattn_attention_measure(vkattn_context context, const vkattn_attention_desc *desc,
                                       vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_attention);
}

vkattn_result vkattn_attention_backward_measure(vkattn_context context, const vkattn_attention_backward_desc *desc,
                                                vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_attention_backward);
}

vkattn_result vkattn_explain(vkattn_context context, const vkattn_attention_desc *desc, vkattn_list *options) {
    return list(options, "options", [&] {
        require_given(context, "context");
        return explain_attention(context->context, sized(desc, "desc"));
    });
}

vkattn_result vkattn_prewarm(vkattn_context context, const vkattn_attention_desc *descs, uint32_t count,
                             uint32_t threads) {
    return prewarm_plans(context, descs, count, threads, plan_attention);
}

vkattn_result vkattn_prewarm_linear(vkattn_context context, const vkattn_linear_desc *descs, uint32_t count,
                                    uint32_t threads) {
    return prewarm_plans(context, descs, count, threads, plan_linear);
}

vkattn_result vkattn_tune(vkattn_context context, const vkattn_attention_desc *desc, vkattn_list *candidates) {
    return tune_with(context, desc, candidates,
                     [](const vkattn_attention_desc &given) { return check_attention(given); });
}

vkattn_result vkattn_tune_attention_backward(vkattn_context context, const vkattn_attention_backward_desc *desc,
                                             vkattn_list *candidates) {
    return tune_with(context, desc, candidates, backward_problems);
}

vkattn_result vkattn_variant_create(vkattn_context context, const vkattn_variant_info *info, vkattn_variant *variant) {
    return create(variant, "variant", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_variant_opaque>(context->state, &context->context,
                                                       context->context.variants().get(sized(info, "info")));
    });
}

vkattn_result vkattn_block_mask_plan(vkattn_context context, const vkattn_attention_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_block_mask);
}

void vkattn_variant_destroy(vkattn_variant variant) { delete variant; }

vkattn_result vkattn_tune_linear(vkattn_context context, const vkattn_linear_desc *desc, vkattn_list *candidates) {
    return tune_with(context, desc, candidates, [](const vkattn_linear_desc &given) {
        require(!present(given.norm_weight),
                "norm_weight: given, expected none: vkattn_tune_linear measures products alone");
        return check_linear(given);
    });
}

vkattn_result vkattn_linear_measure(vkattn_context context, const vkattn_linear_desc *desc, vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_linear);
}

vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                  const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer) {
    return create(layer, "layer", [&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        require(weights != nullptr || weight_count == 0, "weights: NULL, expected ", weight_count, " entries");
        return std::make_unique<vkattn_layer_opaque>(context->state, given, std::span(weights, weight_count));
    });
}

void vkattn_layer_destroy(vkattn_layer layer) { destroy(layer); }

vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info, vkattn_cache *cache) {
    return create(cache, "cache", [&] {
        require_given(context, "context");
        const vkattn_cache_info given = sized(info, "info");
        const Layer *layer = given.layer != nullptr ? given.layer->layer.get() : nullptr;
        const CacheSizes sizes = cache_sizes(given, layer, context->context);
        return std::make_unique<vkattn_cache_opaque>(context->state, sizes);
    });
}

void vkattn_cache_destroy(vkattn_cache cache) { destroy(cache); }

uint64_t vkattn_cache_bytes(vkattn_cache cache) { return cache != nullptr ? cache->cache.bytes() : 0; }

uint32_t vkattn_cache_free_pages(vkattn_cache cache) {
    if (cache == nullptr) return 0;
    const InUse use(cache->usage);
    return cache->cache.free_pages();
}

vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *lengths, uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        const InUse use(cache->usage);
        const std::span<const uint32_t> held = cache->cache.host_lengths();
        require(count == held.size(), "count: ", count, ", expected the cache's batch of ", held.size());
        require(lengths != nullptr || count == 0, "lengths: NULL, expected room for ", count, " numbers");
        std::ranges::copy(held, lengths);
    });
}

vkattn_result vkattn_cache_reserve(vkattn_cache cache, const uint32_t *tokens, uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(tokens != nullptr || count == 0, "tokens: NULL, expected ", count, " numbers");
        const InChange alone(cache->usage);
        cache->cache.reserve({tokens, count});
    });
}

vkattn_result vkattn_cache_rewind(vkattn_cache cache, uint32_t sequence, uint32_t length) {
    return guard([&] {
        require_given(cache, "cache");
        const InChange alone(cache->usage);
        cache->cache.rewind(sequence, length);
    });
}

vkattn_result vkattn_cache_keep(vkattn_cache cache, uint32_t sequence, uint32_t length, const uint32_t *tokens,
                                uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(tokens != nullptr || count == 0, "tokens: NULL, expected ", count, " numbers");
        const InChange alone(cache->usage);
        cache->cache.keep(sequence, length, {tokens, count});
    });
}

vkattn_result vkattn_cache_copy_sequence(vkattn_cache from, uint32_t from_sequence, vkattn_cache to,
                                         uint32_t to_sequence) {
    return guard([&] {
        require_given(from, "from");
        require_given(to, "to");
        const InChange alone(to->usage);
        std::optional<InUse> source; // of `to` itself, if it is the same
        if (from != to) source.emplace(from->usage);
        to->cache.copy_from(from->cache, from_sequence, to_sequence);
    });
}

vkattn_result vkattn_cache_share_prefix(vkattn_cache cache, uint32_t from_sequence, uint32_t to_sequence,
                                        uint32_t length) {
    return guard([&] {
        require_given(cache, "cache");
        const InChange alone(cache->usage);
        cache->cache.share_prefix(from_sequence, to_sequence, length);
    });
}

vkattn_result vkattn_cache_read(vkattn_cache cache, vkattn_cache_part part, uint32_t sequence, float *values,
                                uint64_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(values != nullptr || count == 0, "values: NULL, expected room for ", count, " numbers");
        require(part == VKATTN_CACHE_KEYS || part == VKATTN_CACHE_VALUES, "part: ", static_cast<int>(part),
                ", expected VKATTN_CACHE_KEYS or VKATTN_CACHE_VALUES");
        const InUse use(cache->usage);
        const Cache &own = cache->cache;
        own.read(part, sequence, {values, count});
    });
}

vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor,
                                  vkattn_region *region) {
    return guard([&] {
        require_given(cache, "cache");
        const View view = cache->cache.part(part);
        require(present(view) || part != VKATTN_CACHE_VALUES,
                "part: VKATTN_CACHE_VALUES, expected keys: this cache keeps the values as a part of them");
        require(present(view) || part != VKATTN_CACHE_BLOCK_TABLE,
                "part: VKATTN_CACHE_BLOCK_TABLE, expected another one: this cache has no pages");
        require(present(view), "part: of scales, expected another one: this cache keeps none of them");
        if (tensor != nullptr) *tensor = view.tensor;
        if (region != nullptr) *region = {view.source.buffer, view.source.offset, extent_bytes(view.tensor)};
    });
}

vkattn_result vkattn_cache_append_plan(vkattn_context context, const vkattn_cache_append_desc *desc,
                                       vkattn_plan *plan) {
    return create_plan(context, desc, plan, [](PlanBuilder &own, const vkattn_cache_append_desc &given) {
        require_given(given.cache, "cache");
        plan_cache_append(own, given.cache->cache, given);
        own.keep(given.cache->shared);
    });
}

vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan) {
    return create(plan, "plan", [&] {
        require_given(layer, "layer");
        const vkattn_layer_call given = sized(call, "call");
        const InUse use(layer->usage);
        PlanBuilder builder(layer->context->context);
        plan_layer(builder, *layer->layer, with_object(given));
        builder.keep(layer->layer);
        if (given.cache != nullptr) builder.keep(given.cache->shared);
        return std::make_unique<vkattn_plan_opaque>(layer->context, builder.build());
    });
}

vkattn_result vkattn_layer_activations(vkattn_layer layer, const vkattn_layer_call *call, vkattn_tensor *activations) {
    return guard([&] {
        require_given(layer, "layer");
        require_given(activations, "activations");
        const vkattn_layer_call given = sized(call, "call");
        const InUse use(layer->usage);
        *activations = layer_activations(*layer->layer, with_object(given));
    });
}

vkattn_result vkattn_layer_backward_plan(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                         vkattn_plan *plan) {
    return create(plan, "plan", [&] {
        require_given(layer, "layer");
        const vkattn_layer_backward_desc given = sized(desc, "desc");
        const InUse use(layer->usage);
        PlanBuilder builder(layer->context->context);
        plan_layer_backward(builder, *layer->layer, with_object(sized(given.call, "call")), given);
        builder.keep(layer->layer);
        return std::make_unique<vkattn_plan_opaque>(layer->context, builder.build());
    });
}

vkattn_result vkattn_layer_backward_measure(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                            vkattn_measure *measure) {
    return guard([&] {
        require_given(layer, "layer");
        const vkattn_layer_backward_desc given = sized(desc, "desc");
        const InUse use(layer->usage);
        const vkattn_measure own = measured(layer->context->context, [&](PlanBuilder &builder) {
            plan_layer_backward(builder, *layer->layer, with_object(sized(given.call, "call")), given);
        });
        fill_in(measure, own, "measure");
    });
}

vkattn_result vkattn_layer_measure(vkattn_context context, const vkattn_layer_config *config,
                                   const vkattn_layer_call *call, vkattn_measure *measure) {
    return guard([&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        const vkattn_layer_call given_call = sized(call, "call");
        vkattn_measure most{};
        for (const bool has_biases : {false, true}) {
            const vkattn_measure own = measured(context->context, [&](PlanBuilder &builder) {
                plan_layer(builder, Layer(context->context, given, has_biases), with_object(given_call));
            });
            if (own.workspace_bytes >= most.workspace_bytes) most = own;
        }
        fill_in(measure, most, "measure");
    });
}
