// One context, many threads: each plans problems of its own and runs them; pipelines are compiled once for all, side by
// side.
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

namespace {

constexpr std::uint64_t kHeads = 4, kLen = 96;
constexpr unsigned kThreads = 8, kRounds = 5;

std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

// Attention of a query to equal values is that value, whatever the scores are.
bool attend(const vkattn::Context &context, unsigned thread) {
    const std::uint64_t head_dim = 16 * (1 + thread % 4); // four pipelines among eight threads
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, kLen, head_dim});
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    const vkattn::Plan plan = context.attention_plan(desc);
    const std::vector<float> scores = random_values(kHeads * kLen * head_dim, thread);
    const std::vector<float> values(scores.size(), static_cast<float>(thread));
    vkattn::Buffer query = context.buffer(desc.query), value = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output);
    query.write(scores);
    value.write(values);
    std::vector<float> result(scores.size());
    for (unsigned round = 0; round < kRounds; ++round) {
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, query),
                  vkattn::bind(VKATTN_ROLE_VALUE, value), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
        output.read(result);
        const auto is_right = [&](float each) { return std::fabs(each - values.front()) < 1e-5f; };
        if (!std::ranges::all_of(result, is_right)) return false;
    }
    return true;
}

} // namespace

int main() try {
    const vkattn::Context context;
    std::atomic<unsigned> right = 0;
    {
        std::vector<std::jthread> threads;
        for (unsigned thread = 0; thread < kThreads; ++thread)
            threads.emplace_back([&, thread] {
                try {
                    if (attend(context, thread)) ++right;
                } catch (const vkattn::Error &error) {
                    std::fprintf(stderr, "thread %u: %s\n", thread, error.what());
                }
            });
    } // joins them
    std::printf("%u of %u threads had right answers\n", right.load(), kThreads);
    return right == kThreads ? 0 : 1;
} catch (const vkattn::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
