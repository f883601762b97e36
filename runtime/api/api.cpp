// The C entry points: check the handles, call, translate errors. No logic.
#define STRINGIFY_VALUE(x) #x
#define STRINGIFY(x) STRINGIFY_VALUE(x)

#include "runtime/kernels/kernel.hpp"
#include "runtime/layers/cache.hpp"
#include "runtime/layers/call.hpp"
#include "runtime/layers/layer.hpp"
#include "runtime/ops/argmax.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/block_mask.hpp"
#include "runtime/ops/causal_conv1d.hpp"
#include "runtime/ops/embedding.hpp"
#include "runtime/ops/explain.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/kv_append.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/linear_attention.hpp"
#include "runtime/ops/merge.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/ops/prewarm.hpp"
#include "runtime/ops/top_k.hpp"
#include "runtime/plan/shader_reports.hpp"
#include "runtime/problem/attention_problem.hpp"
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
#include <map>
#include <mutex>
#include <optional>
#include <thread>

using namespace vkattn;

namespace {

// The results of each thread's last call. Their texts stay until the thread's next such call, until so many other threads have
// called, or until the context is destroyed. This is no thread_local: on mingw the memory of one is freed before its destructor
// runs.
template <class Result>
class LastResults {
  public:
    // Of the calling thread.
    std::span<const Result> keep(std::vector<Result> results) {
        const std::lock_guard lock(mutex_);
        Kept &kept = by_thread_[std::this_thread::get_id()];
        kept = {std::move(results), ++calls_};
        const auto call_of = [](const auto &thread) { return thread.second.call; };
        if (by_thread_.size() > kMostThreads) by_thread_.erase(std::ranges::min_element(by_thread_, {}, call_of));
        return kept.results;
    }

  private:
    struct Kept {
        std::vector<Result> results;
        uint64_t call = 0; // when
    };
    static constexpr size_t kMostThreads = 1024; // threads that have ended stay among them: nobody says so

    std::mutex mutex_;
    std::map<std::thread::id, Kept> by_thread_;
    uint64_t calls_ = 0;
};

} // namespace

struct vkattn_context_opaque {
    explicit vkattn_context_opaque(const vkattn_context_info &info) : made(ready_context(info)), context(*made) {}
    Usage usage{"context"};
    std::unique_ptr<Context> made;
    Context &context;
    LastResults<Check> checks;
    LastResults<Candidate> candidates;
    LastResults<Explanation> options;
};

// Objects that are made with a context use it until they are destroyed.
struct vkattn_buffer_opaque {
    vkattn_buffer_opaque(vkattn_context in, uint64_t bytes)
        : context(in->usage), buffer(in->context, bytes, "vkattn buffer") {}
    InUse context;
    Usage usage{"buffer"};
    Buffer buffer;
};

struct vkattn_plan_opaque {
    vkattn_plan_opaque(vkattn_context in, std::unique_ptr<const Plan> made)
        : context(in->usage), plan(std::move(made)) {}
    InUse context;
    Usage usage{"plan"};
    std::shared_ptr<const Plan> plan; // programs keep it, too
    std::mutex mutex;                 // of shaders
    std::optional<ShaderReports> shaders;
};

struct vkattn_program_opaque {
    vkattn_program_opaque(vkattn_context in, std::span<const BoundPlan> plans)
        : context(in->usage), program(in->context, plans) {}
    InUse context;
    Usage usage{"program"};
    Program program;
};

struct vkattn_layer_opaque {
    vkattn_layer_opaque(vkattn_context in, const vkattn_layer_config &config, std::span<const vkattn_weight> weights)
        : made_in(in), context(in->usage), layer(in->context, config, weights) {}
    vkattn_context made_in;
    InUse context;
    Usage usage{"layer"};
    Layer layer;
};

struct vkattn_cache_opaque {
    vkattn_cache_opaque(vkattn_context in, const CacheSizes &sizes) : context(in->usage), cache(in->context, sizes) {}
    InUse context;
    Cache cache;
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

// Creates the plan that build(PlanBuilder &, const Desc &) makes of a description.
template <class Desc, class Build>
vkattn_result create_plan(vkattn_context context, const Desc *desc, vkattn_plan *plan, Build &&build) {
    return create(plan, "plan", [&] {
        require_given(context, "context");
        const Desc given = sized(desc, "desc");
        PlanBuilder builder(context->context);
        build(builder, given);
        return std::make_unique<vkattn_plan_opaque>(context, builder.build());
    });
}

vkattn_check public_form(const Check &check) {
    return {check.name.c_str(), check.reason.empty() ? 1U : 0U, check.reason.c_str(), check.milliseconds,
            check.check_count};
}

vkattn_candidate public_form(const Candidate &candidate) {
    return {candidate.kernel, candidate.tile.c_str(), candidate.milliseconds, candidate.kept ? 1U : 0U,
            candidate.reason.c_str()};
}

vkattn_option public_form(const Explanation &option) {
    return {option.kernel, option.chosen ? 1U : 0U, option.dispatches, option.shape.c_str(), option.obstacle.c_str()};
}

// Its reasons are those of caps, or static.
vkattn_device_facts public_form(const DeviceCaps &caps) {
    vkattn_device_facts facts = caps;
    facts.half_workspaces = has_half_workspaces(caps);
    list_kernels(caps, facts);
    return facts;
}

// Writes what a call found into the room that the caller has for it, and counts what was written: there may be more than any
// caller that was compiled earlier expects. The texts are those of last: see vkattn_check, vkattn_candidate and vkattn_option.
template <class Result>
void show(std::vector<Result> results, LastResults<Result> &last, uint32_t *count, void *to, size_t stride) {
    using Public = decltype(public_form(std::declval<const Result &>()));
    std::vector<Public> all;
    for (const Result &result : last.keep(std::move(results))) all.push_back(public_form(result));
    const uint32_t room = *count;
    write_structures(std::span<const Public>(all), count, to, stride);
    if (to != nullptr) *count = std::min(*count, room);
}

// Tunes the problem that check(desc) makes of a description.
template <class Desc, class Check>
vkattn_result tune_with(vkattn_context context, const Desc *desc, uint32_t *count, vkattn_candidate *candidates,
                        size_t stride, Check &&check) {
    return guard([&] {
        require_given(context, "context");
        const Desc given = sized(desc, "desc");
        require_given(count, "count");
        show(tune(context->context, check(given)), context->candidates, count, candidates, stride);
    });
}

} // namespace

const char *vkattn_version(void) {
    return STRINGIFY(VKATTN_VERSION_MAJOR) "." STRINGIFY(VKATTN_VERSION_MINOR) "." STRINGIFY(VKATTN_VERSION_PATCH);
}

vkattn_result vkattn_enumerate_types(uint32_t *count, vkattn_type_info *infos, size_t stride) {
    return guard([&] {
        require(count != nullptr, "count is NULL, expected room for the number of types");
        std::vector<vkattn_type_info> all;
        for (const StoredType &type : stored_types()) all.push_back(type.info);
        write_structures(std::span<const vkattn_type_info>(all), count, infos, stride);
    });
}

uint64_t vkattn_tensor_bytes(const vkattn_tensor *tensor) {
    uint64_t bytes = 0;
    guard([&] {
        if (tensor != nullptr) bytes = extent_bytes(normalised(*tensor, "tensor"));
    });
    return bytes;
}

vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr, uint32_t *count,
                                       vkattn_device_facts *facts, size_t stride) {
    return guard([&] {
        require_given(count, "count");
        std::vector<vkattn_device_facts> all;
        for (const DeviceCaps &device : enumerate_devices(get_instance_proc_addr)) all.push_back(public_form(device));
        write_structures(std::span<const vkattn_device_facts>(all), count, facts, stride);
    });
}

void vkattn_wanted_extensions(uint32_t *count, const char **names) {
    if (count == nullptr) return;
    const auto wanted = wanted_device_extensions();
    if (names != nullptr) std::copy_n(wanted.begin(), std::min<size_t>(*count, wanted.size()), names);
    *count = static_cast<uint32_t>(wanted.size());
}

vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context) {
    return create(context, "context",
                  [&] { return std::make_unique<vkattn_context_opaque>(sized_or_default(info, "info")); });
}

void vkattn_context_destroy(vkattn_context context) { destroy(context); }

void vkattn_withdraw_trials(void) { CrashJournal::withdraw_all(); }

vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts, size_t size) {
    return guard([&] {
        require_given(context, "context");
        require_given(facts, "facts");
        write_structure(public_form(context->context.shown_caps()), facts, size);
    });
}

vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report, size_t size) {
    return guard([&] {
        require_given(context, "context");
        require_given(report, "report");
        const TuningBudget::Report own = context->context.tunings().budget.report();
        const vkattn_tune_budget_report shown{own.allowed, own.spent, own.measured, own.candidates, own.left_out};
        write_structure(shown, report, size);
    });
}

vkattn_result vkattn_context_save(vkattn_context context, uint64_t *bytes, void *data) {
    return guard([&] {
        require_given(context, "context");
        require_given(bytes, "bytes");
        const std::vector<std::byte> saved = save_state(context->context);
        if (data != nullptr) {
            require(*bytes >= saved.size(), "bytes: ", *bytes, ", expected at least ", saved.size());
            std::ranges::copy(saved, static_cast<std::byte *>(data));
        }
        *bytes = saved.size();
    });
}

vkattn_result vkattn_self_test(vkattn_context context, uint32_t *count, vkattn_check *checks, size_t stride) {
    return guard([&] {
        require_given(context, "context");
        require_given(count, "count");
        std::vector<Check> all;
        self_test(context->context, [&](const Check &check) { all.push_back(check); });
        show(std::move(all), context->checks, count, checks, stride);
    });
}

vkattn_result vkattn_self_test_each(vkattn_context context, vkattn_check_callback callback, void *user) {
    return guard([&] {
        require_given(context, "context");
        require_given(callback, "callback");
        self_test(context->context, [&](const Check &check) {
            const vkattn_check each = public_form(check);
            callback(user, &each);
        });
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
        return std::make_unique<vkattn_buffer_opaque>(context, bytes);
    });
}

void vkattn_buffer_destroy(vkattn_buffer buffer) { destroy(buffer); }

VkBuffer vkattn_buffer_handle(vkattn_buffer buffer) {
    return buffer == nullptr ? VK_NULL_HANDLE : buffer->buffer.handle();
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

vkattn_result vkattn_wait(vkattn_context context) {
    return guard([&] {
        require_given(context, "context");
        context->context.submissions().wait();
    });
}

void vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements, size_t size) {
    if (plan != nullptr && requirements != nullptr) write_structure(plan->plan->requirements(), requirements, size);
}

void vkattn_plan_report(vkattn_plan plan, vkattn_report *report, size_t size) {
    if (plan == nullptr || report == nullptr) return;
    const Plan &own = *plan->plan;
    const vkattn_report shown{own.kernel(), vkattn_kernel_name(own.kernel()), own.reason().c_str(), own.dispatches()};
    write_structure(shown, report, size);
}

vkattn_result vkattn_plan_shaders(vkattn_plan plan, uint32_t *count, const vkattn_shader **shaders) {
    return guard([&] {
        require_given(plan, "plan");
        require_given(count, "count");
        require_given(shaders, "shaders");
        const InUse use(plan->usage);
        const std::lock_guard lock(plan->mutex);
        if (!plan->shaders.has_value()) plan->shaders.emplace(*plan->plan);
        *count = static_cast<uint32_t>(plan->shaders->shaders().size());
        *shaders = plan->shaders->shaders().data();
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
        return std::make_unique<vkattn_program_opaque>(context, plans);
    });
}

void vkattn_program_get_report(vkattn_program program, vkattn_program_report *report, size_t size) {
    if (program != nullptr && report != nullptr) write_structure(program->program.report(), report, size);
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

vkattn_result vkattn_attention_plan(vkattn_context context, const vkattn_attention_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, [](PlanBuilder &own, const vkattn_attention_desc &given) {
        const AttentionProblem problem = check_attention(given);
        add_attention(own, problem, roles_of(problem));
    });
}

vkattn_result vkattn_explain(vkattn_context context, const vkattn_attention_desc *desc, uint32_t *count,
                             vkattn_option *options, size_t stride) {
    return guard([&] {
        require_given(context, "context");
        const vkattn_attention_desc given = sized(desc, "desc");
        require_given(count, "count");
        show(explain_attention(context->context, given), context->options, count, options, stride);
    });
}

vkattn_result vkattn_prewarm(vkattn_context context, const vkattn_attention_desc *descs, uint32_t count,
                             uint32_t threads) {
    return guard([&] {
        require_given(context, "context");
        std::vector<vkattn_attention_desc> given;
        const auto *at = reinterpret_cast<const std::byte *>(descs);
        for (uint32_t i = 0; i < count; ++i, at += descs->struct_size)
            given.push_back(sized(reinterpret_cast<const vkattn_attention_desc *>(at), "descs"));
        prewarm(context->context, given, threads);
    });
}

vkattn_result vkattn_tune(vkattn_context context, const vkattn_attention_desc *desc, uint32_t *count,
                          vkattn_candidate *candidates, size_t stride) {
    return tune_with(context, desc, count, candidates, stride,
                     [](const vkattn_attention_desc &given) { return check_attention(given); });
}

vkattn_result vkattn_variant_create(vkattn_context context, const vkattn_variant_info *info, vkattn_variant *variant) {
    return create(variant, "variant", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_variant_opaque>(context->usage, &context->context,
                                                       context->context.variants().get(sized(info, "info")));
    });
}

vkattn_result vkattn_block_mask_plan(vkattn_context context, const vkattn_attention_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_block_mask);
}

void vkattn_variant_destroy(vkattn_variant variant) { delete variant; }

vkattn_result vkattn_kv_append_plan(vkattn_context context, const vkattn_kv_append_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_kv_append);
}

vkattn_result vkattn_merge_plan(vkattn_context context, const vkattn_merge_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_merge);
}

vkattn_result vkattn_tune_linear(vkattn_context context, const vkattn_linear_desc *desc, uint32_t *count,
                                 vkattn_candidate *candidates, size_t stride) {
    return tune_with(context, desc, count, candidates, stride, [](const vkattn_linear_desc &given) {
        require(!present(given.norm_weight),
                "norm_weight: given, expected none: vkattn_tune_linear measures products alone");
        return check_linear(given);
    });
}

vkattn_result vkattn_linear_plan(vkattn_context context, const vkattn_linear_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_linear);
}

vkattn_result vkattn_norm_plan(vkattn_context context, const vkattn_norm_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_norm);
}

vkattn_result vkattn_embedding_plan(vkattn_context context, const vkattn_embedding_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_embedding);
}

vkattn_result vkattn_top_k_plan(vkattn_context context, const vkattn_top_k_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_top_k);
}

vkattn_result vkattn_index_plan(vkattn_context context, const vkattn_index_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_index);
}

vkattn_result vkattn_argmax_plan(vkattn_context context, const vkattn_argmax_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_argmax);
}

vkattn_result vkattn_linear_attention_plan(vkattn_context context, const vkattn_linear_attention_desc *desc,
                                           vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_linear_attention);
}

vkattn_result vkattn_causal_conv1d_plan(vkattn_context context, const vkattn_causal_conv1d_desc *desc,
                                        vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_causal_conv1d);
}

vkattn_result vkattn_gated_rms_norm_plan(vkattn_context context, const vkattn_gated_rms_norm_desc *desc,
                                         vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_gated_rms_norm);
}

vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                  const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer) {
    return create(layer, "layer", [&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        require(weights != nullptr || weight_count == 0, "weights: NULL, expected ", weight_count, " entries");
        return std::make_unique<vkattn_layer_opaque>(context, given, std::span(weights, weight_count));
    });
}

void vkattn_layer_destroy(vkattn_layer layer) { destroy(layer); }

vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info, vkattn_cache *cache) {
    return create(cache, "cache", [&] {
        require_given(context, "context");
        const vkattn_cache_info given = sized(info, "info");
        const Layer *layer = given.layer != nullptr ? &given.layer->layer : nullptr;
        const CacheSizes sizes = cache_sizes(given, layer, context->context);
        return std::make_unique<vkattn_cache_opaque>(context, sizes);
    });
}

void vkattn_cache_destroy(vkattn_cache cache) { destroy(cache); }

uint64_t vkattn_cache_bytes(vkattn_cache cache) { return cache != nullptr ? cache->cache.bytes() : 0; }

uint32_t vkattn_cache_free_pages(vkattn_cache cache) {
    if (cache == nullptr) return 0;
    const InUse use(cache->usage);
    return cache->cache.free_pages();
}

vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *count, uint32_t *lengths) {
    return guard([&] {
        require_given(cache, "cache");
        require_given(count, "count");
        const InUse use(cache->usage);
        write_structures(cache->cache.host_lengths(), count, lengths, sizeof *lengths);
    });
}

vkattn_result vkattn_cache_reserve(vkattn_cache cache, uint32_t count, const uint32_t *tokens) {
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

vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor, VkBuffer *buffer) {
    return guard([&] {
        require_given(cache, "cache");
        const View view = cache->cache.part(part);
        require(present(view) || part != VKATTN_CACHE_VALUES,
                "part: VKATTN_CACHE_VALUES, expected keys: this cache keeps the values as a part of them");
        require(present(view) || part != VKATTN_CACHE_BLOCK_TABLE,
                "part: VKATTN_CACHE_BLOCK_TABLE, expected another one: this cache has no pages");
        require(present(view), "part: of scales, expected another one: this cache keeps none of them");
        if (tensor != nullptr) *tensor = view.tensor;
        if (buffer != nullptr) *buffer = view.source.buffer;
    });
}

vkattn_result vkattn_cache_append_plan(vkattn_context context, const vkattn_cache_append_desc *desc,
                                       vkattn_plan *plan) {
    return create_plan(context, desc, plan, [](PlanBuilder &own, const vkattn_cache_append_desc &given) {
        require_given(given.cache, "cache");
        plan_cache_append(own, given.cache->cache, given);
    });
}

vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan) {
    return create(plan, "plan", [&] {
        require_given(layer, "layer");
        const vkattn_layer_call given = sized(call, "call");
        const InUse use(layer->usage);
        PlanBuilder builder(layer->layer.context());
        plan_layer(builder, layer->layer, with_object(given));
        return std::make_unique<vkattn_plan_opaque>(layer->made_in, builder.build());
    });
}

vkattn_result vkattn_layer_workspace(vkattn_context context, const vkattn_layer_config *config,
                                     const vkattn_layer_call *call, uint64_t *workspace_bytes) {
    return guard([&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        const vkattn_layer_call given_call = sized(call, "call");
        require_given(workspace_bytes, "workspace_bytes");
        const auto measure = [&](bool biases) {
            PlanBuilder builder(context->context, PlanBuilder::Purpose::kMeasure);
            plan_layer(builder, Layer(context->context, given, biases), with_object(given_call));
            return builder.build()->workspace_bytes();
        };
        *workspace_bytes = std::max(measure(false), measure(true));
    });
}
