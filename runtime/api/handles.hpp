#pragma once

#include "runtime/api/lists.hpp"
#include "runtime/layers/cache.hpp"
#include "runtime/layers/layer.hpp"
#include "runtime/plan/shared_plans.hpp"
#include "runtime/programs/program.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "runtime/support/usage.hpp"
#include "runtime/trials/ready_context.hpp"
#include "runtime/vulkan/memory.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

// The handles of the C interface. Its functions, in the files beside this one, check the handles, call and translate errors: no logic.

namespace vkattn {

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

} // namespace vkattn

// Each handle keeps the objects that its own needs, the context first: it goes last.
struct vkattn_context_opaque {
    explicit vkattn_context_opaque(const vkattn_context_info &info)
        : state(std::make_shared<vkattn::ContextState>(info)) {}
    vkattn::Usage usage{"context"};
    std::shared_ptr<vkattn::ContextState> state;
    vkattn::Context &context = state->context;
};

struct vkattn_buffer_opaque {
    vkattn_buffer_opaque(std::shared_ptr<vkattn::ContextState> in, uint64_t bytes)
        : context(std::move(in)), shared(std::make_shared<vkattn::Buffer>(context->context, bytes, "vkattn buffer")) {
        context->context.share_buffer(buffer.handle(), shared);
    }
    std::shared_ptr<vkattn::ContextState> context;
    vkattn::Usage usage{"buffer"};
    std::shared_ptr<vkattn::Buffer> shared; // submissions and programs keep it, too
    vkattn::Buffer &buffer = *shared;
};

struct vkattn_plan_opaque {
    vkattn_plan_opaque(std::shared_ptr<vkattn::ContextState> in, std::shared_ptr<const vkattn::Plan> made)
        : context(std::move(in)), plan(std::move(made)) {}
    std::shared_ptr<vkattn::ContextState> context;
    vkattn::Usage usage{"plan"};
    std::shared_ptr<const vkattn::Plan> plan; // programs and submissions keep it, too
    std::mutex mutex;                         // of shaders
    std::shared_ptr<const vkattn::ShaderReports> shaders;
};

struct vkattn_program_opaque {
    vkattn_program_opaque(std::shared_ptr<vkattn::ContextState> in, std::span<const vkattn::BoundPlan> plans)
        : context(std::move(in)), program(context->context, plans) {}
    std::shared_ptr<vkattn::ContextState> context;
    vkattn::Usage usage{"program"};
    vkattn::Program program;
};

struct vkattn_layer_opaque {
    vkattn_layer_opaque(std::shared_ptr<vkattn::ContextState> in, const vkattn_layer_config &config,
                        std::span<const vkattn_weight> weights)
        : context(std::move(in)), layer(std::make_shared<vkattn::Layer>(context->context, config, weights)) {}
    std::shared_ptr<vkattn::ContextState> context;
    vkattn::Usage usage{"layer"};
    std::shared_ptr<vkattn::Layer> layer;
};

struct vkattn_cache_opaque {
    vkattn_cache_opaque(std::shared_ptr<vkattn::ContextState> in, const vkattn::CacheSizes &sizes)
        : context(std::move(in)), shared(std::make_shared<vkattn::Cache>(context->context, sizes)) {
        for (const vkattn::Buffer *part : cache.buffers()) context->context.share_buffer(part->handle(), shared);
    }
    std::shared_ptr<vkattn::ContextState> context;
    std::shared_ptr<vkattn::Cache> shared;
    vkattn::Cache &cache = *shared;
    vkattn::Usage &usage = cache.usage();
};

namespace vkattn {

template <class Pointer>
void require_given(Pointer pointer, const char *name) {
    require(pointer != nullptr, name, ": NULL, expected a pointer");
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

// Lists what find() finds.
template <class Find>
vkattn_result list(vkattn_list *out, const char *name, Find &&find) {
    return create(out, name, [&] { return std::make_unique<ListOf<typename decltype(find())::value_type>>(find()); });
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

} // namespace vkattn
