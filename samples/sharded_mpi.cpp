// Attention over one long context on several processes, in two ways: each rank has a part of the keys, and the partial
// outputs are joined by merge on rank 0, so that no rank's memory need hold the whole context; or each has some of the
// heads, whose outputs lie side by side.
//
//     mpirun -n 4 sharded_mpi
#include <vkattn/vkattn.hpp>

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr std::uint64_t kHeads = 8, kKvHeads = 2, kHeadDim = 64, kKeys = 4000;

std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

float largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
    float largest = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
    return largest;
}

struct Part {
    std::vector<float> output, log_sum_exp;
};

struct Range {
    std::uint64_t first, last; // last is not of it
};

// query [kHeads, kHeadDim], keys, values [kKvHeads, kKeys, kHeadDim]: what a model has at one position.
struct Model {
    std::vector<float> query, keys, values;
};

// The attention of some query heads, all of one KV head or all of each of theirs, to some keys.
Part attend(const vkattn::Context &context, const Model &model, Range heads, Range range) {
    constexpr std::uint64_t kGroup = kHeads / kKvHeads;
    const Range kv_heads = {heads.first / kGroup, (heads.last - 1) / kGroup + 1};
    const std::uint64_t count = heads.last - heads.first, len = range.last - range.first;
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, count, 1, kHeadDim});
    // of a shard's own memory; here views into the whole, by their strides
    desc.key = desc.value =
        vkattn::tensor(VKATTN_TYPE_F32, {1, kv_heads.last - kv_heads.first, len, kHeadDim},
                       {0, kKeys * kHeadDim, kHeadDim, 1}, (kv_heads.first * kKeys + range.first) * kHeadDim);
    desc.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, count, 1});
    vkattn::Buffer q = context.buffer(desc.query), k = context.buffer(desc.key), v = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output), lse = context.buffer(desc.log_sum_exp);
    q.write(std::span(model.query).subspan(heads.first * kHeadDim, count * kHeadDim));
    k.write(std::span(model.keys).first(vkattn_tensor_bytes(&desc.key) / sizeof(float)));
    v.write(std::span(model.values).first(vkattn_tensor_bytes(&desc.value) / sizeof(float)));
    context.attention_plan(desc).run({vkattn::bind(VKATTN_ROLE_QUERY, q), vkattn::bind(VKATTN_ROLE_KEY, k),
                                      vkattn::bind(VKATTN_ROLE_VALUE, v), vkattn::bind(VKATTN_ROLE_OUTPUT, output),
                                      vkattn::bind(VKATTN_ROLE_LOG_SUM_EXP, lse)});
    Part part{std::vector<float>(count * kHeadDim), std::vector<float>(count)};
    output.read(part.output);
    lse.read(part.log_sum_exp);
    return part;
}

std::vector<float> merge(const vkattn::Context &context, const Part &parts, std::uint32_t count) {
    vkattn_merge_desc desc{};
    desc.part_count = count;
    desc.partial_output = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1, kHeadDim});
    desc.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1});
    desc.partial_output_stride = kHeads * kHeadDim;
    desc.partial_log_sum_exp_stride = kHeads;
    vkattn::Buffer outputs = context.buffer(parts.output.size() * sizeof(float)),
                   lse = context.buffer(parts.log_sum_exp.size() * sizeof(float));
    const vkattn::Buffer merged = context.buffer(desc.output);
    outputs.write(parts.output);
    lse.write(parts.log_sum_exp);
    context.merge_plan(desc).run({vkattn::bind(VKATTN_ROLE_PARTIAL_OUTPUT, outputs),
                                  vkattn::bind(VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, lse),
                                  vkattn::bind(VKATTN_ROLE_OUTPUT, merged)});
    std::vector<float> result(kHeads * kHeadDim);
    merged.read(result);
    return result;
}

// The ranks' numbers one after the other, on rank 0.
std::vector<float> gather(const std::vector<float> &own, int rank, int ranks) {
    std::vector<float> all(rank == 0 ? own.size() * static_cast<std::size_t>(ranks) : 0);
    const int count = static_cast<int>(own.size());
    MPI_Gather(own.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    return all;
}

// The rank's share of `count` things.
Range share(std::uint64_t count, int rank, int ranks) {
    const auto bound = [&](int part) {
        return count * static_cast<std::uint64_t>(part) / static_cast<unsigned>(ranks);
    };
    return {bound(rank), bound(rank + 1)};
}

// 0 if the output is that of one device.
int report(const char *what, int ranks, const std::vector<float> &output, const std::vector<float> &expected) {
    const float difference = largest_difference(output, expected);
    std::printf("%s on %d ranks: largest difference to one device %.1e\n", what, ranks,
                static_cast<double>(difference));
    return difference < 1e-5f ? 0 : 1;
}

int run(int rank, int ranks) {
    const vkattn::Context context;
    // In earnest each rank would hold its own keys alone; here all know all, so that rank 0 can compare.
    const Model model{random_values(kHeads * kHeadDim, 1), random_values(kKvHeads * kKeys * kHeadDim, 2),
                      random_values(kKvHeads * kKeys * kHeadDim, 3)};
    const Range all_heads = {0, kHeads}, all_keys = {0, kKeys};
    std::vector<float> expected;
    if (rank == 0) expected = attend(context, model, all_heads, all_keys).output;
    int status = 0;

    const Part own = attend(context, model, all_heads, share(kKeys, rank, ranks));
    const Part parts{gather(own.output, rank, ranks), gather(own.log_sum_exp, rank, ranks)};
    if (rank == 0) status |= report("keys", ranks, merge(context, parts, static_cast<std::uint32_t>(ranks)), expected);

    if (kHeads % static_cast<unsigned>(ranks) != 0) {
        if (rank == 0) std::printf("heads: %d ranks, expected a divisor of %d\n", ranks, static_cast<int>(kHeads));
        return status;
    }
    const std::vector<float> heads =
        gather(attend(context, model, share(kHeads, rank, ranks), all_keys).output, rank, ranks);
    if (rank == 0) status |= report("heads", ranks, heads, expected);
    return status;
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1, status = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
        status = run(rank, ranks);
    } catch (const vkattn::Error &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1); // the others wait for it
    }
    MPI_Finalize();
    return status;
}
