#include "runtime/ops/attention.hpp"

#include "runtime/emit/rows.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"

#include <bit>
#include <memory>
#include <optional>
#include <utility>

namespace vkattn {

AttentionSources attention_roles() {
    AttentionSources sources{};
    for (const AttentionTensor &tensor : kAttentionTensors) sources[tensor.binding].role = tensor.role;
    return sources;
}

AttentionSources roles_of(const AttentionProblem &problem) {
    AttentionSources sources = attention_roles();
    if (problem.value_in_key) {
        sources[BINDING_VALUE] = sources[BINDING_KEY];
        sources[BINDING_VALUE_SCALES] = sources[BINDING_KEY_SCALES];
    }
    return sources;
}

AttentionChoice choose_untested(Context &context, AttentionProblem &problem) {
    if (problem.tile.kernel == VKATTN_KERNEL_AUTO) problem.tile = context.tunings().attention.find(class_of(problem));
    return choose_attention(problem, *context.judged_caps());
}

AttentionChoice choose_tested(Context &context, AttentionProblem &problem) {
    for (;;) {
        const std::shared_ptr<const DeviceCaps> known = context.judged_caps();
        AttentionChoice choice = choose_untested(context, problem);
        for (const ShaderUse &use : shaders_of(choice.shape, problem))
            context.verdicts().test_before_use(use.shader, use.paths);
        if (context.judged_caps() == known) return choice; // no new verdict
    }
}

namespace {

AttentionChoice choose(const PlanBuilder &builder, AttentionProblem &problem) {
    Context &context = builder.context();
    if (builder.is_measure()) return choose_untested(context, problem);
    if (problem.tile.kernel == VKATTN_KERNEL_AUTO && context.tunings().measure_attention)
        context.tunings().measure_attention(problem);
    return choose_tested(context, problem);
}

// What a rotated element may be larger by than the largest of its block, rounded up to a power of two.
float growth_of(uint32_t block) { return static_cast<float>(1u << (std::bit_width(block) / 2)); }

// Around the steps of a problem whose K and V are stored rotated: Q as K is, and the output back. An f16 query becomes smaller by as
// much as the rotation may make it larger, and the scale larger, so that it does not overflow. The output waits in f32.
class Rotated {
  public:
    Rotated(PlanBuilder &builder, AttentionProblem &problem, AttentionSources &sources)
        : builder_(builder), output_{problem.output, sources[BINDING_OUTPUT]},
          rotated_(output_), cu_seqlens_{problem.cu_seqlens_q, sources[BINDING_CU_SEQLENS_Q]}, longest_(problem.q_len),
          block_(problem.value_hadamard) {
        if (problem.key_hadamard != 0) rotate_query(problem, sources);
        if (block_ == 0 || output_.tensor.type == VKATTN_TYPE_F32) return;
        rotated_ = reserve(VKATTN_TYPE_F32, output_.tensor);
        problem.output = rotated_.tensor;
        sources[BINDING_OUTPUT] = rotated_.source;
    }

    void finish() {
        if (block_ == 0) return;
        builder_.barrier();
        add_rows(builder_, {.source = rotated_,
                            .target = output_,
                            .cu_seqlens = cu_seqlens_,
                            .positions = longest_,
                            .hadamard = block_,
                            .keeps_places = true});
    }

  private:
    View reserve(vkattn_type type, const vkattn_tensor &rows) {
        const auto &shape = rows.shape;
        const vkattn_tensor tensor = contiguous(type, {shape[0], shape[1], shape[2], shape[3]});
        return {tensor, builder_.reserve_workspace(extent_bytes(tensor))};
    }

    void rotate_query(AttentionProblem &problem, AttentionSources &sources) {
        const View query{problem.query, sources[BINDING_QUERY]};
        const View rotated = reserve(query.tensor.type, query.tensor);
        const float growth = query.tensor.type == VKATTN_TYPE_F16 ? growth_of(problem.key_hadamard) : 1.0f;
        add_rows(builder_, {.source = query,
                            .target = rotated,
                            .hadamard = problem.key_hadamard,
                            .mixed_factor = 1.0f / growth,
                            .keeps_places = true});
        builder_.barrier();
        problem.query = rotated.tensor;
        problem.scale *= growth;
        sources[BINDING_QUERY] = rotated.source;
    }

    PlanBuilder &builder_;
    View output_, rotated_, cu_seqlens_;
    uint32_t longest_, block_;
};

// In parts that the device can bind, of an output that waits in f32 too.
std::vector<AttentionProblem> split_rotated(AttentionProblem problem, const DeviceCaps &caps) {
    const vkattn_type type = problem.output.type;
    if (problem.value_hadamard != 0) problem.output.type = VKATTN_TYPE_F32;
    std::vector<AttentionProblem> parts = split_to_bind(problem, caps);
    for (AttentionProblem &part : parts) part.output.type = type;
    return parts;
}

// One problem in as many parts as the device needs to bind it.
AttentionChoice add_parts(PlanBuilder &builder, std::vector<AttentionProblem> parts,
                          const AttentionSources &given_sources) {
    const uint64_t workspace = builder.reserved_workspace();
    AttentionChoice choice{};
    for (AttentionProblem &part : parts) {
        if (&part != &parts.front()) builder.reuse_workspace(workspace);
        AttentionSources sources = given_sources;
        Rotated rotated(builder, part, sources);
        choice = choose(builder, part);
        emit_attention({builder, part, sources, choice.shape});
        rotated.finish();
    }
    choice.reason += text("; in ", parts.size(), " parts, for tensors above maxStorageBufferRange or 2^32 elements");
    return choice;
}

// A part of a packed batch's sequences, and how it is attended.
struct Apart {
    AttentionProblem problem;
    AttentionChoice choice;
};

// Decodes apart from the rest, whose keys are in parts then: of a batch's dispatches that run side by side, one alone may write the
// output. Nothing where a kernel attends them that has none, which takes them as it takes the rest.
std::optional<Apart> choose_apart(const PlanBuilder &builder, AttentionProblem decodes) {
    AttentionChoice choice = choose(builder, decodes);
    if (choice.shape.parts > 1) return Apart{decodes, choice};
    if (choice.kernel != &kFlash && choice.kernel != &kCoopmat) return std::nullopt;
    decodes.kernel = VKATTN_KERNEL_DECODE;
    if (!ask(kDecode, decodes, *builder.context().judged_caps()).obstacle.empty()) return std::nullopt;
    choice = choose(builder, decodes);
    return Apart{decodes, choice};
}

std::string apart_text(const Apart &apart) {
    const uint32_t fewest = std::max(apart.problem.fewest_queries, 1u), most = apart.problem.most_queries;
    const std::string queries =
        fewest == most ? text(most, most == 1 ? " query" : " queries") : text(fewest, " to ", most, " queries");
    return text("; sequences of ", queries, " by ", vkattn_kernel_name(apart.choice.name), ", their keys in ",
                apart.choice.shape.parts, " parts");
}

// The problem, and beside it its sequences of few queries.
AttentionChoice add_whole(PlanBuilder &builder, AttentionProblem problem, AttentionSources sources) {
    Rotated rotated(builder, problem, sources);
    std::vector<Apart> decodes;
    for (AttentionProblem &each : decodes_of(problem)) {
        each.fewest_queries = problem.fewest_queries;
        std::optional<Apart> apart = choose_apart(builder, each);
        if (!apart.has_value()) continue;
        problem.fewest_queries = each.most_queries + 1;
        decodes.push_back(*std::move(apart));
    }
    AttentionChoice choice = choose(builder, problem);
    for (const Apart &each : decodes) choice.reason += apart_text(each);
    const AttentionCall prompts{builder, problem, sources, choice.shape};
    const bool has_states = choice.shape.parts > 1; // of many rows: merged first, while caches hold them
    std::vector<AttentionCall> calls;
    if (!has_states) calls.push_back(prompts);
    for (const Apart &each : decodes) calls.push_back({builder, each.problem, sources, each.choice.shape});
    if (has_states) calls.push_back(prompts);
    if (decodes.empty())
        emit_attention(prompts);
    else
        emit_side_by_side(calls);
    rotated.finish();
    return choice;
}

} // namespace

namespace {

void allow_roles(PlanBuilder &builder, const AttentionProblem &problem, const AttentionSources &sources) {
    for (const AttentionTensor &tensor : kAttentionTensors)
        allow_role(builder, {problem.*tensor.member, sources[tensor.binding]});
}

} // namespace

void add_attention(PlanBuilder &builder, const AttentionProblem &given, const AttentionSources &given_sources) {
    require_own(builder, given.variant);
    require(given.variant == nullptr || given.value_hadamard == 0 ||
                !given.variant->variant->defines(VKATTN_VARIANT_OUTPUT_MOD),
            "variant: with output_mod, expected none beside values that are rotated, whose elements it would not see");
    allow_roles(builder, given, given_sources);
    if (!has_queries(given)) return builder.set_choice(VKATTN_KERNEL_AUTO, "there are no queries");
    const AttentionProblem problem = with_memory(given);
    AttentionSources sources = given_sources;
    if (!has_keys(given)) sources[BINDING_KEY] = sources[BINDING_VALUE] = sources[BINDING_QUERY];
    std::vector<AttentionProblem> parts = split_rotated(problem, builder.context().caps());
    const AttentionChoice choice =
        parts.size() > 1 ? add_parts(builder, std::move(parts), sources) : add_whole(builder, problem, sources);
    builder.set_choice(choice.name, choice.reason);
}

void plan_attention(PlanBuilder &builder, const vkattn_attention_desc &desc) {
    const AttentionProblem problem = check_attention(desc);
    builder.set_region_alignment(problem.region_alignment);
    add_attention(builder, problem, roles_of(problem));
}

} // namespace vkattn
