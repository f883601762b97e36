#include "runtime/trials/tuning.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/trials.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace vkattn {
namespace {

// Every sequence as long as there is room for, from the tensor's first element on.
std::vector<int32_t> lengths_of(const AttentionProblem &problem, uint32_t binding) {
    const auto &table = problem.block_table;
    std::vector<int32_t> numbers(problem.batch + 1);
    const auto packed = [&](const vkattn_tensor &tensor, uint64_t longest, uint64_t i) {
        return static_cast<int32_t>(i * std::min(tensor.shape[2] / problem.batch, longest));
    };
    for (uint64_t i = 0; i < numbers.size(); ++i) {
        if (binding == BINDING_KEY_LENGTHS) numbers[i] = static_cast<int32_t>(problem.kv_len);
        if (binding == BINDING_PAST_LENGTHS)
            numbers[i] = static_cast<int32_t>(problem.kv_len - std::min(problem.q_len, problem.kv_len));
        if (binding == BINDING_CU_SEQLENS_Q) numbers[i] = packed(problem.query, problem.q_len, i);
        if (binding == BINDING_CU_SEQLENS_K) numbers[i] = packed(problem.key, problem.kv_len, i);
    }
    if (binding == BINDING_BLOCK_MASK)
        return std::vector<int32_t>(extent_elements(problem.block_mask), VKATTN_BLOCK_PARTIAL);
    if (binding != BINDING_BLOCK_TABLE) return numbers;
    numbers.resize(table.shape[0] * table.shape[1]);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i % problem.key.shape[0]);
    return numbers;
}

// What is neither Q, K nor V: a mask of ones attends; zeros add nothing, and hide nothing of a padding mask.
void fill(Buffer &buffer, const AttentionProblem &problem, uint32_t binding) {
    const vkattn_tensor &tensor = *tensors_of(problem)[binding];
    const bool attends = binding == BINDING_ATTN_MASK && tensor.type == VKATTN_TYPE_BOOL;
    std::vector<std::byte> bytes(buffer.bytes(), attends ? std::byte{1} : std::byte{0});
    if (tensor.type == VKATTN_TYPE_I32) {
        const std::vector<int32_t> lengths = lengths_of(problem, binding);
        const uint64_t begin = tensor.offset * sizeof(int32_t);
        std::memcpy(bytes.data() + begin, lengths.data(),
                    std::min<uint64_t>(lengths.size() * sizeof(int32_t), bytes.size() - begin));
    }
    buffer.write(0, bytes.data(), bytes.size());
}

// Numbers in Q, K and V, lengths that fill them, masks that hide nothing.
TrialBuffers buffers_of(Context &context, const AttentionProblem &problem) {
    const AttentionSources sources = roles_of(problem);
    const auto tensors = tensors_of(problem);
    TrialBuffers buffers;
    for (uint32_t binding = 0; binding < tensors.size(); ++binding) {
        if (tensors[binding] == nullptr || !present(*tensors[binding])) continue;
        const vkattn_tensor &tensor = *tensors[binding];
        const vkattn_role role = sources[binding].role;
        if (binding == BINDING_VALUE && problem.value_in_key) continue;
        if (binding == BINDING_OUTPUT)
            buffers.add_output(context, tensor);
        else if (binding == BINDING_QUERY || binding == BINDING_KEY || binding == BINDING_VALUE)
            buffers.add_numbers(context, role, tensor);
        else
            fill(buffers.add(context, role, tensor), problem, binding);
    }
    return buffers;
}

AttentionChoice choose(Context &context, const AttentionProblem &problem, const KernelTile &tile) {
    AttentionProblem first = divided(split_to_bind(problem, context.caps()).front(), tile);
    return tile.kernel == VKATTN_KERNEL_AUTO ? choose_attention(first, *context.judged_caps())
                                             : choose_tested(context, first);
}

Trial make_trial(Context &context, const AttentionProblem &problem, const KernelTile &tile) {
    const AttentionChoice choice = choose(context, problem, tile);
    const AttentionShape::Dispatch &dispatch = choice.shape.dispatches[0];
    PlanBuilder builder(context);
    add_attention(builder, divided(problem, tile), roles_of(problem));
    return {builder.build(), choice.name, static_cast<uint32_t>(choice.name), tile_text(*choice.kernel, choice.shape),
            code_of(choice.name, dispatch.shader, choice.shape.parts, dispatch.groups, dispatch.constants)};
}

// A search over kernels and tiles of one problem.
class Search {
  public:
    Search(Context &context, const AttentionProblem &problem)
        : context_(context), problem_(problem),
          tiles_(buffers_of(context, problem),
                 [&](const KernelTile &tile) { return make_trial(context, problem, tile); },
                 {.kernel = static_cast<uint32_t>(choose(context, problem, {}).name)}) {}

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
    context_.tunings().attention.keep(class_of(problem_), tiles_.choose());
    return std::move(tiles_).candidates();
}

} // namespace

std::vector<Candidate> tune(Context &context, const AttentionProblem &given) {
    if (!has_queries(given) || !has_keys(given)) return {};
    const AttentionProblem problem = with_memory(given);
    Search search(context, problem);
    search.try_kernels();
    search.try_tiles();
    return search.finish();
}

} // namespace vkattn
