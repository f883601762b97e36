// merge alone and at work: parts of the keys joined again, empty parts, accumulation, a prefix that sequences share.
#include "compare.hpp"
#include "device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace vkattn_test;

namespace {

struct Attention {
    HostTensor output, log_sum_exp;
};

// Keys first .. last - 1 of a problem, through the device.
Attention attend(const AttentionProblem &problem, std::uint64_t first, std::uint64_t last, vkattn_type type) {
    AttentionProblem part = problem;
    const AttentionSizes s = sizes_of(problem);
    const auto slice = [&](const HostTensor &from, std::uint64_t size) {
        HostTensor to(from.type(), {s.batch, s.kv_heads, last - first, size});
        for (std::uint64_t plane = 0; plane < s.batch * s.kv_heads; ++plane)
            for (std::uint64_t i = 0; i < (last - first) * size; ++i)
                to.set(plane * (last - first) * size + i, from.get((plane * s.kv_len + first) * size + i));
        return to;
    };
    part.key = slice(problem.key, s.head_dim);
    part.value = slice(problem.value, s.v_head_dim);
    AttentionResults results;
    results.output = HostTensor(type, {s.batch, s.query_heads, s.q_len, s.v_head_dim});
    results.log_sum_exp = HostTensor(VKATTN_TYPE_F32, {s.batch, s.query_heads, s.q_len});
    run_attention(part, results, test_device().context().attention_plan(describe(part, results, VKATTN_KERNEL_AUTO)));
    return {results.output, results.log_sum_exp};
}

HostTensor stacked(const std::vector<HostTensor> &parts) {
    Shape shape = parts[0].shape();
    shape[0] *= parts.size();
    HostTensor all(parts[0].type(), shape);
    for (std::size_t p = 0; p < parts.size(); ++p)
        for (std::uint64_t i = 0; i < parts[p].elements(); ++i) all.set(p * parts[p].elements() + i, parts[p].get(i));
    return all;
}

AttentionProblem random_problem(vkattn_type type, std::uint64_t size, std::mt19937 &random) {
    AttentionProblem problem;
    problem.query = normal_tensor(type, {2, 4, 3, size}, random);
    problem.key = normal_tensor(type, {2, 2, 50, size}, random);
    problem.value = normal_tensor(type, {2, 2, 50, size}, random);
    return problem;
}

void check_merged(const HostTensor &output, const HostTensor &log_sum_exp, const AttentionProblem &problem,
                  double bound) {
    const AttentionReference reference = reference_attention(problem);
    const Comparison values = compare("output", output.shape(), reference.output, output.floats(), bound);
    CHECK_MESSAGE(values.passed, values.report);
    const Comparison sums =
        compare("log_sum_exp", log_sum_exp.shape(), reference.log_sum_exp, log_sum_exp.floats(), bound);
    CHECK_MESSAGE(sums.passed, sums.report);
}

} // namespace

TEST_SUITE_BEGIN("merge");

TEST_CASE_FIXTURE(DeviceTest, "parts of the keys, joined, are attention over all of them") {
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        for (const std::uint64_t size : {1, 7, 64, 96}) {
            std::mt19937 random(81);
            const AttentionProblem problem = random_problem(type, size, random);
            std::vector<HostTensor> outputs, sums;
            for (const auto &[first, last] : {std::pair{0, 1}, {1, 30}, {30, 50}}) {
                const Attention part =
                    attend(problem, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last), type);
                outputs.push_back(part.output);
                sums.push_back(part.log_sum_exp);
            }
            HostTensor partial_output = stacked(outputs), partial_sums = stacked(sums);
            HostTensor output(type, outputs[0].shape(), {4 * 3 * size, size, 4 * size, 1}), log_sum_exp = sums[0];
            vkattn_merge_desc desc{};
            desc.part_count = 3;
            desc.partial_output = outputs[0].view();
            desc.partial_output_stride = outputs[0].elements();
            desc.partial_log_sum_exp = sums[0].view();
            desc.partial_log_sum_exp_stride = sums[0].elements();
            desc.output = output.view();
            desc.log_sum_exp = log_sum_exp.view();
            const std::vector<Region> regions = {{VKATTN_ROLE_PARTIAL_OUTPUT, &partial_output, Access::kRead},
                                                 {VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &partial_sums, Access::kRead},
                                                 {VKATTN_ROLE_OUTPUT, &output, Access::kWrite},
                                                 {VKATTN_ROLE_LOG_SUM_EXP, &log_sum_exp, Access::kWrite}};
            test_device().run(test_device().context().merge_plan(desc), regions);
            check_merged(output, log_sum_exp, problem, nmse_bound({type}));
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "sets accumulate one after another, and an empty set changes no bit") {
    std::mt19937 random(83);
    const AttentionProblem problem = random_problem(VKATTN_TYPE_F32, 32, random);
    Attention all = attend(problem, 0, 20, VKATTN_TYPE_F32);
    Attention rest = attend(problem, 20, 50, VKATTN_TYPE_F32);
    vkattn_merge_desc desc{};
    desc.part_count = 1;
    desc.accumulate = 1;
    desc.partial_output = desc.output = all.output.view();
    desc.partial_log_sum_exp = desc.log_sum_exp = all.log_sum_exp.view();
    const vkattn::Plan plan = test_device().context().merge_plan(desc);
    const auto accumulate = [&](Attention &part) {
        test_device().run(plan, std::vector<Region>{{VKATTN_ROLE_PARTIAL_OUTPUT, &part.output, Access::kRead},
                                                    {VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &part.log_sum_exp, Access::kRead},
                                                    {VKATTN_ROLE_OUTPUT, &all.output, Access::kReadWrite},
                                                    {VKATTN_ROLE_LOG_SUM_EXP, &all.log_sum_exp, Access::kReadWrite}});
    };
    accumulate(rest);
    check_merged(all.output, all.log_sum_exp, problem, nmse_bound({VKATTN_TYPE_F32}));

    Attention empty{HostTensor(VKATTN_TYPE_F32, all.output.shape()),
                    HostTensor(VKATTN_TYPE_F32, all.log_sum_exp.shape())};
    for (std::uint64_t i = 0; i < empty.log_sum_exp.elements(); ++i) empty.log_sum_exp.set(i, -INFINITY); // output: NaN
    const std::vector<float> before = all.output.floats();
    accumulate(empty);
    CHECK(all.output.floats() == before);

    Attention none = empty;
    std::swap(all, none); // into an empty one: the other set alone
    accumulate(rest);
    for (std::uint64_t i = 0; i < rest.output.elements(); ++i) CHECK(all.output.get(i) == rest.output.get(i));
    std::swap(all, none);
    all = empty;
    accumulate(empty);
    for (std::uint64_t i = 0; i < all.output.elements(); ++i) CHECK(all.output.get(i) == 0.0f);
    for (std::uint64_t i = 0; i < all.log_sum_exp.elements(); ++i) CHECK(all.log_sum_exp.get(i) == -INFINITY);
}

TEST_CASE_FIXTURE(DeviceTest, "sinks are a set of their own, whatever keys the others saw") {
    std::mt19937 random(84);
    const AttentionProblem problem = random_problem(VKATTN_TYPE_F32, 32, random);
    const Attention first = attend(problem, 0, 20, VKATTN_TYPE_F32), rest = attend(problem, 20, 50, VKATTN_TYPE_F32);
    const Shape &shape = first.output.shape();
    AttentionProblem with_sinks = problem;
    with_sinks.sinks = tensor_of(VKATTN_TYPE_F32, {shape[1]}, std::array{0.5f, -3.0f, 4.0f, 0.0f});
    Attention unseen{HostTensor(VKATTN_TYPE_F32, shape), HostTensor(VKATTN_TYPE_F32, first.log_sum_exp.shape())};
    Attention sinks = unseen;
    for (std::uint64_t i = 0; i < sinks.output.elements(); ++i) sinks.output.set(i, 0.0f);
    for (std::uint64_t i = 0; i < sinks.log_sum_exp.elements(); ++i) {
        unseen.log_sum_exp.set(i, -INFINITY);
        sinks.log_sum_exp.set(i, with_sinks.sinks.get(i / shape[2] % shape[1]));
    }
    HostTensor partial_output = stacked({unseen.output, first.output, sinks.output, rest.output});
    HostTensor partial_sums = stacked({unseen.log_sum_exp, first.log_sum_exp, sinks.log_sum_exp, rest.log_sum_exp});
    Attention all = first;
    vkattn_merge_desc desc{};
    desc.part_count = 4;
    desc.partial_output = desc.output = first.output.view();
    desc.partial_output_stride = first.output.elements();
    desc.partial_log_sum_exp = desc.log_sum_exp = first.log_sum_exp.view();
    desc.partial_log_sum_exp_stride = first.log_sum_exp.elements();
    test_device().run(test_device().context().merge_plan(desc),
                      std::vector<Region>{{VKATTN_ROLE_PARTIAL_OUTPUT, &partial_output, Access::kRead},
                                          {VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &partial_sums, Access::kRead},
                                          {VKATTN_ROLE_OUTPUT, &all.output, Access::kWrite},
                                          {VKATTN_ROLE_LOG_SUM_EXP, &all.log_sum_exp, Access::kWrite}});
    check_merged(all.output, all.log_sum_exp, with_sinks, nmse_bound({VKATTN_TYPE_F32}));
}

TEST_CASE_FIXTURE(DeviceTest, "a prefix that sequences share is read once, for the queries of all of them") {
    constexpr std::uint64_t kSequences = 5, kHeads = 4, kKvHeads = 2, kSize = 32, kPrefix = 70, kOwn = 9;
    std::mt19937 random(87);
    HostTensor query = normal_tensor(VKATTN_TYPE_F32, {kSequences, kHeads, 1, kSize}, random);
    HostTensor prefix_key = normal_tensor(VKATTN_TYPE_F32, {1, kKvHeads, kPrefix, kSize}, random);
    HostTensor prefix_value = normal_tensor(VKATTN_TYPE_F32, {1, kKvHeads, kPrefix, kSize}, random);
    HostTensor key = normal_tensor(VKATTN_TYPE_F32, {kSequences, kKvHeads, kOwn, kSize}, random);
    HostTensor value = normal_tensor(VKATTN_TYPE_F32, {kSequences, kKvHeads, kOwn, kSize}, random);
    HostTensor output(VKATTN_TYPE_F32, {kSequences, kHeads, 1, kSize}), sums(VKATTN_TYPE_F32, {kSequences, kHeads, 1});
    HostTensor partial(VKATTN_TYPE_F32, {kSequences, kHeads, 1, kSize}),
        partial_sums(VKATTN_TYPE_F32, {1, kHeads, kSequences});
    const vkattn::Context &context = test_device().context();

    vkattn_attention_desc own{};
    own.query = query.view();
    own.key = key.view();
    own.value = value.view();
    own.output = output.view();
    own.log_sum_exp = sums.view();
    test_device().run(context.attention_plan(own),
                      std::vector<Region>{{VKATTN_ROLE_QUERY, &query, Access::kRead},
                                          {VKATTN_ROLE_KEY, &key, Access::kRead},
                                          {VKATTN_ROLE_VALUE, &value, Access::kRead},
                                          {VKATTN_ROLE_OUTPUT, &output, Access::kWrite},
                                          {VKATTN_ROLE_LOG_SUM_EXP, &sums, Access::kWrite}});
    // the queries of all sequences as the positions of one
    vkattn_attention_desc prefix{};
    prefix.query = query.view();
    prefix.query.shape[0] = 1;
    prefix.query.shape[2] = kSequences;
    const std::array<std::uint64_t, 4> strides = {kSequences * kHeads * kSize, kSize, kHeads * kSize, 1};
    std::ranges::copy(strides, prefix.query.strides);
    prefix.output = prefix.query;
    prefix.key = prefix_key.view();
    prefix.value = prefix_value.view();
    prefix.log_sum_exp = partial_sums.view();
    test_device().run(context.attention_plan(prefix),
                      std::vector<Region>{{VKATTN_ROLE_QUERY, &query, Access::kRead},
                                          {VKATTN_ROLE_KEY, &prefix_key, Access::kRead},
                                          {VKATTN_ROLE_VALUE, &prefix_value, Access::kRead},
                                          {VKATTN_ROLE_OUTPUT, &partial, Access::kWrite},
                                          {VKATTN_ROLE_LOG_SUM_EXP, &partial_sums, Access::kWrite}});
    vkattn_merge_desc merge{};
    merge.part_count = 1;
    merge.accumulate = 1;
    merge.partial_output = merge.output = output.view();
    merge.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kHeads, 1});
    merge.partial_log_sum_exp.strides[0] = 1; // [heads, sequences] in memory
    merge.partial_log_sum_exp.strides[1] = kSequences;
    merge.partial_log_sum_exp.strides[2] = 1;
    merge.log_sum_exp = sums.view();
    test_device().run(context.merge_plan(merge),
                      std::vector<Region>{{VKATTN_ROLE_PARTIAL_OUTPUT, &partial, Access::kRead},
                                          {VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &partial_sums, Access::kRead},
                                          {VKATTN_ROLE_OUTPUT, &output, Access::kReadWrite},
                                          {VKATTN_ROLE_LOG_SUM_EXP, &sums, Access::kReadWrite}});

    AttentionProblem whole;
    whole.query = query;
    const auto join = [&](const HostTensor &front, const HostTensor &back) {
        HostTensor joined(VKATTN_TYPE_F32, {kSequences, kKvHeads, kPrefix + kOwn, kSize});
        for (std::uint64_t plane = 0; plane < kSequences * kKvHeads; ++plane)
            for (std::uint64_t i = 0; i < (kPrefix + kOwn) * kSize; ++i)
                joined.set(plane * (kPrefix + kOwn) * kSize + i,
                           i < kPrefix * kSize ? front.get(plane % kKvHeads * kPrefix * kSize + i)
                                               : back.get(plane * kOwn * kSize + i - kPrefix * kSize));
        return joined;
    };
    whole.key = join(prefix_key, key);
    whole.value = join(prefix_value, value);
    check_merged(output, sums, whole, nmse_bound({VKATTN_TYPE_F32}));
}

TEST_CASE_FIXTURE(DeviceTest, "a set whose log_sum_exp is not a number is one all the same") {
    HostTensor partial_output(VKATTN_TYPE_F32, {2, 1, 2, 4}), partial_sums(VKATTN_TYPE_F32, {2, 1, 2});
    for (std::uint64_t i = 0; i < partial_output.elements(); ++i) partial_output.set(i, 2.0f);
    for (std::uint64_t i = 0; i < 4; ++i) partial_sums.set(i, i == 2 ? NAN : 0.0f); // of the second set, row 0
    HostTensor output(VKATTN_TYPE_F32, {1, 1, 2, 4}), sums(VKATTN_TYPE_F32, {1, 1, 2});
    vkattn_merge_desc desc{};
    desc.part_count = 2;
    desc.partial_output = desc.output = output.view();
    desc.partial_log_sum_exp = desc.log_sum_exp = sums.view();
    desc.partial_output_stride = output.elements();
    desc.partial_log_sum_exp_stride = sums.elements();
    test_device().run(test_device().context().merge_plan(desc),
                      std::array{Region{VKATTN_ROLE_PARTIAL_OUTPUT, &partial_output, Access::kRead},
                                 Region{VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &partial_sums, Access::kRead},
                                 Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite},
                                 Region{VKATTN_ROLE_LOG_SUM_EXP, &sums, Access::kWrite}});
    CHECK(std::isnan(output.get(0)));
    CHECK(std::isnan(sums.get(0)));
    CHECK(output.get(4) == 2.0f);
    CHECK(sums.get(1) == doctest::Approx(std::log(2.0)));
}

TEST_CASE_FIXTURE(DeviceTest, "wrong merges are named") {
    const auto fails = [](const vkattn_merge_desc &desc, const char *message) {
        std::string actual = "no error";
        try {
            test_device().context().merge_plan(desc);
        } catch (const vkattn::Error &error) {
            actual = error.what();
        }
        CHECK_MESSAGE(actual.find(message) != std::string::npos, actual);
    };
    vkattn_merge_desc desc{};
    fails(desc, "partial_output: absent");
    desc.partial_output = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3, 4});
    desc.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3});
    fails(desc, "part_count: 0");
    desc.part_count = 2;
    desc.accumulate = 1;
    fails(desc, "log_sum_exp: absent, expected it with accumulate");
    desc.accumulate = 0;
    desc.part_count = 5; // whose regions' length would wrap to that of one
    desc.partial_output_stride = std::uint64_t{1} << 62;
    fails(desc, "partial_output_stride: 4611686018427387904 with 5 parts, expected at most 2^32 elements in all");
    desc.partial_output_stride = 24;
    desc.partial_log_sum_exp_stride = std::uint64_t{1} << 62;
    fails(desc, "partial_log_sum_exp_stride: 4611686018427387904 with 5 parts");
    desc.partial_log_sum_exp_stride = 6;
    desc.part_count = 2;
    desc.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F16, {1, 2, 3});
    fails(desc, "partial_log_sum_exp: type F16");
    desc.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3});
    desc.partial_output = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3, 5});
    fails(desc, "partial_output: shape [1,2,3,5]");
    if (const std::uint32_t iterations = test_device().facts().max_loop_iterations; iterations != 0) {
        desc.partial_output = desc.output;
        desc.partial_output_stride = 24;
        desc.partial_log_sum_exp_stride = 6;
        desc.part_count = iterations / 2; // each is looked at three times
        fails(desc, "part_count: 32767, expected at most 21844");
    }
}

TEST_SUITE_END();
