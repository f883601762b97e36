// One long context on several processes, each with a part of its keys: every rank attends its part and the partial outputs are
// joined by merge on rank 0, which no rank's memory need hold the whole context for.
//
//     mpirun -n 4 sharded_mpi
#include "random_values.hpp"

#include <vkattn/vkattn.hpp>

#include <mpi.h>

#include <cstdio>

namespace {

constexpr std::uint64_t kHeads = 8, kKvHeads = 2, kHeadDim = 64, kKeys = 4000;

struct Part {
    std::vector<float> output, log_sum_exp;
};

// keys, values [kKvHeads, kKeys, kHeadDim]; those from first to last - 1 of each head are attended.
Part attend(const vkattn::Context &context, const std::vector<float> &query, const std::vector<float> &keys,
            const std::vector<float> &values, std::uint64_t first, std::uint64_t last) {
    const auto rows = [&](const std::vector<float> &all) {
        std::vector<float> part;
        for (std::uint64_t head = 0; head < kKvHeads; ++head) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(head * kKeys * kHeadDim);
            part.insert(part.end(), begin + static_cast<std::ptrdiff_t>(first * kHeadDim),
                        begin + static_cast<std::ptrdiff_t>(last * kHeadDim));
        }
        return part;
    };
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1, kHeadDim});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, last - first, kHeadDim});
    desc.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1});
    vkattn::Buffer q = context.buffer(desc.query), k = context.buffer(desc.key), v = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output), lse = context.buffer(desc.log_sum_exp);
    q.write(query);
    k.write(rows(keys));
    v.write(rows(values));
    context.attention_plan(desc).run({vkattn::bind(VKATTN_ROLE_QUERY, q), vkattn::bind(VKATTN_ROLE_KEY, k),
                                      vkattn::bind(VKATTN_ROLE_VALUE, v), vkattn::bind(VKATTN_ROLE_OUTPUT, output),
                                      vkattn::bind(VKATTN_ROLE_LOG_SUM_EXP, lse)});
    Part part{std::vector<float>(kHeads * kHeadDim), std::vector<float>(kHeads)};
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

int run(int rank, int ranks) {
    const vkattn::Context context;
    // In earnest each rank would hold its own keys alone; here all know all, so that rank 0 can compare.
    const auto query = random_values(kHeads * kHeadDim, 1), keys = random_values(kKvHeads * kKeys * kHeadDim, 2),
               values = random_values(keys.size(), 3);
    const auto bound = [&](int part) {
        return kKeys * static_cast<std::uint64_t>(part) / static_cast<unsigned>(ranks);
    };
    const Part own = attend(context, query, keys, values, bound(rank), bound(rank + 1));
    Part all;
    if (rank == 0) {
        all.output.resize(own.output.size() * static_cast<std::size_t>(ranks));
        all.log_sum_exp.resize(own.log_sum_exp.size() * static_cast<std::size_t>(ranks));
    }
    const auto gather = [](const std::vector<float> &from, std::vector<float> &to) {
        const int count = static_cast<int>(from.size());
        MPI_Gather(from.data(), count, MPI_FLOAT, to.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    };
    gather(own.output, all.output);
    gather(own.log_sum_exp, all.log_sum_exp);
    if (rank != 0) return 0;
    const std::vector<float> merged = merge(context, all, static_cast<std::uint32_t>(ranks));
    const float difference = largest_difference(merged, attend(context, query, keys, values, 0, kKeys).output);
    std::printf("%llu keys on %d ranks: largest difference to one device %.1e\n",
                static_cast<unsigned long long>(kKeys), ranks, static_cast<double>(difference));
    return difference < 1e-5f ? 0 : 1;
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
