#include "runtime/trials/tuning.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/trials/trials.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace vkattn {
namespace {

uint64_t content_number(const AttentionProblem &problem, TrialContents contents, uint64_t i) {
    switch (contents) {
    case TrialContents::kNothingHidden:
        return VKATTN_BLOCK_PARTIAL;
    case TrialContents::kAllBits:
        return UINT32_MAX;
    case TrialContents::kAllKeys:
        return problem.kv_len;
    case TrialContents::kKeysBeforeQueries:
        return problem.kv_len - std::min(problem.q_len, problem.kv_len);
    case TrialContents::kBoundsOfQueries:
        return i * std::clamp<uint64_t>(problem.query.shape[2] / problem.batch, problem.fewest_queries, problem.q_len);
    case TrialContents::kBoundsOfKeys:
        return i * std::min<uint64_t>(problem.key.shape[2] / problem.batch, problem.kv_len);
    case TrialContents::kPageNumbers:
        return i % problem.key.shape[0];
    case TrialContents::kBlocksInTurn:
        return i % divide_up(problem.kv_len, problem.key_block_len);
    default:
        return 0;
    }
}

// Of the keys' memory there is one.
bool is_of_key(const AttentionProblem &problem, const AttentionTensor &tensor) {
    return problem.value_in_key && (tensor.binding == BINDING_VALUE || tensor.binding == BINDING_VALUE_SCALES);
}

void fill(Buffer &buffer, float number) {
    const std::vector<float> numbers(divide_up(buffer.bytes(), sizeof number), number);
    buffer.write(0, numbers.data(), buffer.bytes());
}

// What is neither random numbers nor the output.
void fill(Buffer &buffer, const AttentionProblem &problem, const AttentionTensor &tensor) {
    if (tensor.contents == TrialContents::kOnes) return fill(buffer, 1.0f);
    const vkattn_tensor &layout = problem.*tensor.member;
    const bool ones = tensor.contents == TrialContents::kNothingHidden && layout.type == VKATTN_TYPE_BOOL;
    std::vector<std::byte> bytes(buffer.bytes(), ones ? std::byte{1} : std::byte{0});
    for (uint64_t i = 0; layout.type == VKATTN_TYPE_I32 && i < span_elements(layout); ++i) {
        const auto number = static_cast<int32_t>(content_number(problem, tensor.contents, i));
        std::memcpy(&bytes[(layout.offset + i) * sizeof number], &number, sizeof number);
    }
    buffer.write(0, bytes.data(), bytes.size());
}

} // namespace

TrialBuffers trial_buffers(Context &context, const AttentionProblem &problem, std::optional<float> log_sum_exp) {
    TrialBuffers buffers;
    for (const AttentionTensor &tensor : kAttentionTensors) {
        const vkattn_tensor &layout = problem.*tensor.member;
        if (!present(layout) || is_of_key(problem, tensor)) continue;
        const bool is_result = tensor.contents == TrialContents::kResults;
        if (is_result && !log_sum_exp.has_value())
            buffers.add_output(context, tensor.role, layout);
        else if (is_result || tensor.contents == TrialContents::kNumbers)
            buffers.add_numbers(context, tensor.role, layout);
        else if (tensor.binding == BINDING_LOG_SUM_EXP && log_sum_exp.has_value())
            fill(buffers.add(context, tensor.role, layout), *log_sum_exp);
        else
            fill(buffers.add(context, tensor.role, layout), problem, tensor);
    }
    return buffers;
}

uint64_t trial_bytes(const AttentionProblem &problem) {
    uint64_t bytes = 0;
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (const vkattn_tensor &layout = problem.*tensor.member; present(layout) && !is_of_key(problem, tensor))
            bytes += extent_bytes(layout);
    return bytes;
}

namespace {

AttentionChoice choose(Context &context, const AttentionProblem &problem, const KernelTile &tile) {
    AttentionProblem first = divided(split_to_bind(problem, context.caps()).front(), tile);
    return tile.kernel == VKATTN_KERNEL_AUTO ? choose_attention(first, *context.judged_caps())
                                             : choose_tested(context, first);
}

// The tile in words, and what else differs between two trials: the shader, and what it has in shared memory at a time.
std::string trial_text(const AttentionChoice &choice) {
    const AttentionShape::Dispatch &dispatch = choice.shape.dispatches[0];
    const gpu::AttentionConstants &c = dispatch.constants;
    const auto is_of = [&](const AttentionKernel &kernel) {
        return std::ranges::find(kernel.shaders, dispatch.shader) != kernel.shaders.end();
    };
    std::string words = tile_text(*choice.kernel, choice.shape);
    if (is_of(kFlash) || is_of(kCoopmat))
        words += text(", chunks of ", c.DIMS_OF_CHUNK, " dims of K and ", c.KEYS_OF_CHUNK, " keys of V");
    if (is_of(kFlash) && c.QUERY_STAGED == 0) words += ", Q in chunks too";
    if (dispatch.shader->name != std::string_view(choice.kernel->name)) words += text(", ", dispatch.shader->name);
    return words;
}

Trial make_trial(Context &context, const AttentionProblem &problem, const KernelTile &tile) {
    const AttentionChoice choice = choose(context, problem, tile);
    const AttentionShape::Dispatch &dispatch = choice.shape.dispatches[0];
    PlanBuilder builder(context);
    add_attention(builder, divided(problem, tile), roles_of(problem));
    return {builder.build(), choice.name, static_cast<uint32_t>(choice.name), trial_text(choice),
            code_of(choice.name, dispatch.shader, choice.shape.parts, dispatch.groups, dispatch.constants)};
}

// A search over kernels and tiles of one problem.
class Search {
  public:
    Search(Context &context, const AttentionProblem &problem, TrialTime &time)
        : context_(context), problem_(problem),
          tiles_(
              {trial_bytes(problem), [&] { return trial_buffers(context, problem); }},
              [&](const KernelTile &tile) { return make_trial(context, problem, tile); },
              {.kernel = static_cast<uint32_t>(choose(context, problem, {}).name)}, time) {}

    bool has_begun() const { return tiles_.has_begun(); }

    void try_kernels();
    void try_tiles();
    std::vector<Candidate> finish();

  private:
    void vary_parts(uint32_t kernel);

    Context &context_;
    const AttentionProblem &problem_;
    TileSearch tiles_;
};

void Search::try_kernels() {
    for (const AttentionKernel *row : attention_kernels())
        if (!row->knobs.empty()) tiles_.attempt({.kernel = static_cast<uint32_t>(name_of(*row, problem_))});
}

void Search::vary_parts(uint32_t kernel) {
    const uint32_t parts = choose(context_, problem_, tiles_.fastest_of(kernel)).shape.parts;
    const uint32_t others[] = {std::max(parts / 4, 1u), std::max(parts / 2, 1u), parts * 2, parts * 4};
    tiles_.vary(kernel, others, [](KernelTile &tile) -> uint32_t & { return tile.parts; });
}

void Search::try_tiles() {
    for (const AttentionKernel *row : attention_kernels()) {
        const auto kernel = static_cast<uint32_t>(name_of(*row, problem_));
        if (row->knobs.empty() || !tiles_.trials().is_near(kernel)) continue;
        tiles_.vary_knobs(kernel, *row, context_.caps());
        vary_parts(kernel);
    }
}

std::vector<Candidate> Search::finish() {
    return vkattn::finish(std::move(tiles_), context_.tunings().attention, class_of(problem_));
}

} // namespace

std::vector<Candidate> tune(Context &context, const AttentionProblem &given, TrialTime &time) {
    if (!has_queries(given) || !has_keys(given)) return {};
    const AttentionProblem problem = with_memory(given);
    Search search(context, problem, time);
    if (!search.has_begun()) return {};
    search.try_kernels();
    search.try_tiles();
    return search.finish();
}

std::vector<Candidate> tune(Context &context, const AttentionProblem &problem) {
    TrialTime any;
    return tune(context, problem, any);
}

} // namespace vkattn
