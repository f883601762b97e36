#include <vkattn/vkattn.hpp>

#include <cstdio>
#include <vector>

int main() try {
    constexpr std::uint64_t batch = 1, query_heads = 8, kv_heads = 2, len = 128, head_dim = 64;

    vkattn_attention_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F32, {batch, query_heads, len, head_dim});
    desc.key = vkattn::tensor(VKATTN_TYPE_F32, {batch, kv_heads, len, head_dim});
    desc.value = desc.key;
    desc.output = desc.query;
    desc.mask_flags = VKATTN_MASK_CAUSAL;

    vkattn::Context context; // the best device; or Context("0"), Context("nvidia"): an index or part of a name
    vkattn::Plan plan = context.attention_plan(desc);
    std::printf("%s: %s\n", context.facts().name, plan.report().reason);

    // Equal scores make every output the average of the values a query sees; value j holds the number j.
    std::vector<float> query(batch * query_heads * len * head_dim, 0.5f);
    std::vector<float> key(batch * kv_heads * len * head_dim, 0.5f), value(key.size());
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(i / head_dim % len);

    vkattn::Buffer query_buffer = context.buffer(desc.query), key_buffer = context.buffer(desc.key),
                   value_buffer = context.buffer(desc.value), output_buffer = context.buffer(desc.output);
    query_buffer.write(query);
    key_buffer.write(key);
    value_buffer.write(value);
    plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query_buffer), vkattn::bind(VKATTN_ROLE_KEY, key_buffer),
              vkattn::bind(VKATTN_ROLE_VALUE, value_buffer), vkattn::bind(VKATTN_ROLE_OUTPUT, output_buffer)});

    std::vector<float> output(query.size());
    output_buffer.read(output);
    std::printf("the last query averages its keys to %g\n", static_cast<double>(output.back()));
} catch (const vkattn::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
