#include "runtime/tuning.hpp"

#include "runtime/attention_planner.hpp"
#include "runtime/context/kernel_support.hpp"
#include "runtime/error.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/trial_values.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

namespace vkattn {
namespace {

constexpr double kEnoughMilliseconds = 60.0; // of the timed runs of a candidate
constexpr uint32_t kFewestRuns = 3, kMostRuns = 15;
constexpr double kNear = 2.0;  // a kernel that takes so many times as long as the best is not tried with other tiles
constexpr double kGain = 1.03; // what counts as faster, on a machine that does other things too
constexpr double kMostError = 1e-3; // NMSE between two ways of computing the same, of any types

std::array<vkattn_kernel, 4> kernels_for(const AttentionProblem &problem) {
    return {VKATTN_KERNEL_COOPMAT2, VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_FLASH, decode_of(problem)};
}

// The tensors of a problem in device memory: numbers in Q, K and V, lengths that fill them, masks that hide nothing.
class TrialBuffers {
  public:
    TrialBuffers(Context &context, const AttentionProblem &problem);

    std::span<const vkattn_binding> bindings() const { return bindings_; }
    Buffer &output() { return *output_; }
    void poison_output(); // so that what is not written is seen

  private:
    void fill(Buffer &buffer, const AttentionProblem &problem, uint32_t binding);

    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<vkattn_binding> bindings_;
    Buffer *output_ = nullptr;
    TrialNumbers numbers_;
};

TrialBuffers::TrialBuffers(Context &context, const AttentionProblem &problem) {
    const AttentionSources sources = roles_of(problem);
    const auto tensors = tensors_of(problem);
    for (uint32_t binding = 0; binding < tensors.size(); ++binding) {
        if (tensors[binding] == nullptr || !present(*tensors[binding])) continue;
        if (binding == BINDING_VALUE && problem.value_in_key) continue;
        buffers_.push_back(std::make_unique<Buffer>(context, extent_bytes(*tensors[binding])));
        bindings_.push_back({sources[binding].role, buffers_.back()->handle(), 0});
        if (binding == BINDING_OUTPUT) output_ = buffers_.back().get();
        fill(*buffers_.back(), problem, binding);
    }
}

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

void TrialBuffers::fill(Buffer &buffer, const AttentionProblem &problem, uint32_t binding) {
    const vkattn_tensor &tensor = *tensors_of(problem)[binding];
    if (binding == BINDING_QUERY || binding == BINDING_KEY || binding == BINDING_VALUE)
        return fill_with_numbers(buffer, tensor, numbers_);
    // a mask of ones attends; zeros add nothing, and hide nothing of a padding mask
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

void TrialBuffers::poison_output() {
    const std::vector<std::byte> ones(output_->bytes(), std::byte{0xff}); // NaN in every type
    output_->write(0, ones.data(), ones.size());
}

std::string words(const AttentionChoice &choice) {
    const gpu::AttentionConstants &c = choice.dispatches[0].constants;
    std::string tile;
    const auto add = [&](const auto &...parts) { tile += (tile.empty() ? "" : ", ") + text(parts...); };
    if (choice.body == FlashBody::kMatrices) {
        add(c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices");
        add(c.WORKGROUP_SIZE / c.SUBGROUP_SIZE / c.DIM_SUBGROUPS, " x ", c.DIM_SUBGROUPS, " subgroups");
        add(c.KEYS_OF_TILE, " keys");
    } else {
        add(c.ROWS, c.ROWS == 1 ? " row" : " rows");
        if (choice.body != FlashBody::kTiles) add(c.STEP, " keys a step");
    }
    if (choice.parts > 1) add(choice.parts, " parts");
    return tile;
}

AttentionProblem first_part(Context &context, const AttentionProblem &problem) {
    return split_to_bind(problem, context.judged_caps()).front();
}

// One candidate, ready to run.
class Trial {
  public:
    // Fails where the tile, or its kernel, does not serve.
    Trial(Context &context, const AttentionProblem &problem, const AttentionTile &tile)
        : tile_(tile), choice_(plan_attention(first_part(context, with(problem, tile)), context.judged_caps())),
          plan_(context) {
        add_attention(plan_, with(problem, tile), roles_of(problem));
    }

    const AttentionTile &tile() const { return tile_; }
    const AttentionChoice &choice() const { return choice_; }

    // The code and its grid: equal trials would run the same.
    bool is_same(const Trial &other) const {
        return choice_.kernel == other.choice_.kernel && choice_.body == other.choice_.body &&
               choice_.parts == other.choice_.parts &&
               choice_.dispatches[0].groups == other.choice_.dispatches[0].groups &&
               std::memcmp(&choice_.dispatches[0].constants, &other.choice_.dispatches[0].constants,
                           sizeof(gpu::AttentionConstants)) == 0;
    }

    double run(const TrialBuffers &buffers) const {
        const auto start = std::chrono::steady_clock::now();
        const double milliseconds = plan_.run(buffers.bindings());
        if (milliseconds > 0.0) return milliseconds;
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    }

  private:
    static AttentionProblem with(const AttentionProblem &problem, const AttentionTile &tile) {
        AttentionProblem tuned = problem;
        tuned.tile = tile;
        return tuned;
    }

    AttentionTile tile_;
    AttentionChoice choice_;
    Plan plan_;
};

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

// Medians of runs of both in turn, so that what disturbs one disturbs the other.
std::pair<double, double> time_in_turn(const Trial &a, const Trial &b, const TrialBuffers &buffers) {
    std::vector<double> of_a, of_b;
    double spent = 0.0;
    while (of_a.size() < kFewestRuns || (spent < kEnoughMilliseconds && of_a.size() < kMostRuns)) {
        of_a.push_back(a.run(buffers));
        of_b.push_back(b.run(buffers));
        spent += of_b.back();
    }
    return {median(std::move(of_a)), median(std::move(of_b))};
}

// A search over kernels and tiles of one problem.
class Search {
  public:
    Search(Context &context, const AttentionProblem &problem)
        : context_(context), problem_(problem), buffers_(context, problem) {
        const vkattn_kernel untuned = plan_attention(first_part(context, problem), context.judged_caps()).kernel;
        attempt({.kernel = static_cast<uint32_t>(untuned)});
    }

    void try_kernels();
    void try_tiles();
    std::vector<Candidate> finish();

  private:
    static constexpr size_t kNone = SIZE_MAX;

    // Tries a tile unless it is impossible or comes to what has been tried already.
    void attempt(const AttentionTile &tile);
    void measure(std::unique_ptr<Trial> trial);
    // Tries other numbers in the tile of the kernel's best candidate.
    void vary(vkattn_kernel kernel, uint32_t AttentionTile::*member, std::span<const uint32_t> values);
    void vary_parts(vkattn_kernel kernel);
    std::string compare_output();
    size_t fastest(vkattn_kernel kernel) const; // kNone: none of the kernel works; VKATTN_KERNEL_AUTO: of all

    Context &context_;
    const AttentionProblem &problem_;
    TrialBuffers buffers_;
    std::vector<std::unique_ptr<Trial>> trials_; // of each candidate
    std::vector<Candidate> candidates_;
    std::vector<double> expected_; // the first trial's output
};

// "" if the numbers are the untuned plan's, which are those of the first candidate.
std::string Search::compare_output() {
    std::vector<float> actual = read_numbers(buffers_.output(), problem_.output);
    if (expected_.empty()) expected_.assign(actual.begin(), actual.end());
    std::vector<double> expected = expected_;
    for (size_t i = 0; i < actual.size(); ++i)
        if (std::isnan(expected[i]) && std::isnan(actual[i]))
            expected[i] = actual[i] = 0; // of no sequence, not written
    const double error = nmse(actual, expected);
    if (error <= kMostError) return "";
    return text("other numbers than untuned, NMSE ", error, ", expected at most ", kMostError);
}

void Search::measure(std::unique_ptr<Trial> trial) {
    buffers_.poison_output();
    trial->run(buffers_);
    Candidate candidate{trial->choice().kernel, words(trial->choice()), 0.0, compare_output()};
    if (candidate.reason.empty()) {
        const Trial &rival = trials_.empty() ? *trial : *trials_[fastest(VKATTN_KERNEL_AUTO)];
        candidate.milliseconds = time_in_turn(rival, *trial, buffers_).second;
    }
    candidates_.push_back(std::move(candidate));
    trials_.push_back(std::move(trial));
}

void Search::attempt(const AttentionTile &tile) {
    std::unique_ptr<Trial> trial;
    try {
        trial = std::make_unique<Trial>(context_, problem_, tile);
    } catch (const Error &error) {
        if (trials_.empty()) throw;
        return; // the kernel does not serve, or its pipeline cannot be built: the next one
    }
    const auto is_same = [&](const std::unique_ptr<Trial> &other) { return other->is_same(*trial); };
    if (std::ranges::none_of(trials_, is_same)) measure(std::move(trial));
}

size_t Search::fastest(vkattn_kernel kernel) const {
    size_t best = kNone;
    for (size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate &candidate = candidates_[i];
        if (!candidate.reason.empty() || (kernel != VKATTN_KERNEL_AUTO && candidate.kernel != kernel)) continue;
        if (best == kNone || candidate.milliseconds < candidates_[best].milliseconds) best = i;
    }
    return best;
}

void Search::try_kernels() {
    for (vkattn_kernel kernel : kernels_for(problem_)) {
        const DeviceCaps caps = context_.judged_caps();
        if (caps.traits.self_test != 0 && is_supported(caps, kernel)) context_.verdicts().test_before_use(kernel);
        attempt({.kernel = static_cast<uint32_t>(kernel)});
    }
}

void Search::vary(vkattn_kernel kernel, uint32_t AttentionTile::*member, std::span<const uint32_t> values) {
    for (const uint32_t value : values) {
        AttentionTile tile = trials_[fastest(kernel)]->tile();
        tile.kernel = static_cast<uint32_t>(kernel);
        tile.*member = value;
        attempt(tile);
    }
}

void Search::vary_parts(vkattn_kernel kernel) {
    const uint32_t parts = trials_[fastest(kernel)]->choice().parts;
    const uint32_t others[] = {std::max(parts / 4, 1u), std::max(parts / 2, 1u), parts * 2, parts * 4};
    if (kernel != VKATTN_KERNEL_FLASH) vary(kernel, &AttentionTile::parts, others);
}

void Search::try_tiles() {
    static constexpr uint32_t kRows[] = {1, 2, 4, 8}, kKeys[] = {3, 4, 6, 8, 16, 32, 64, 128}, kSubgroups[] = {1, 2, 4};
    const double limit = kNear * candidates_[fastest(VKATTN_KERNEL_AUTO)].milliseconds;
    for (vkattn_kernel kernel : kernels_for(problem_)) {
        const size_t best = fastest(kernel);
        if (best == kNone || candidates_[best].milliseconds > limit) continue;
        std::vector<uint32_t> shapes(is_coopmat(kernel) ? context_.caps().matrix_shape_count : 0);
        std::iota(shapes.begin(), shapes.end(), 1u);
        vary(kernel, &AttentionTile::matrix_shape, shapes);
        vary(kernel, &AttentionTile::rows, kRows);
        vary(kernel, &AttentionTile::keys, kKeys);
        vary(kernel, &AttentionTile::dim_subgroups, kSubgroups);
        vary_parts(kernel);
    }
}

// The rule's choice is given up only for what is clearly faster, measured beside it once more.
std::vector<Candidate> Search::finish() {
    size_t kept = fastest(VKATTN_KERNEL_AUTO);
    const auto [untuned, tuned] = time_in_turn(*trials_.front(), *trials_[kept], buffers_);
    if (kept != 0 && untuned < kGain * tuned) kept = 0;
    candidates_[kept].kept = true;
    context_.tunings().keep(class_of(problem_), trials_[kept]->tile());
    return std::move(candidates_);
}

} // namespace

std::vector<Candidate> tune(Context &context, const AttentionProblem &problem) {
    Search search(context, problem);
    search.try_kernels();
    search.try_tiles();
    return search.finish();
}

} // namespace vkattn
