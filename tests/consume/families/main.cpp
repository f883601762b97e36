// A library without kernels for CPU drivers, for matrix units and for quantised weights: the rest is there, and errors name the option.
#include <vkattn/vkattn.hpp>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

int failures = 0;

void expect(bool holds, const char *what, std::string_view said) {
    if (holds) return;
    ++failures;
    std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(said.size()), said.data());
}

// The message of what is refused; "" where it is planned.
template <class Make>
std::string refusal(Make make) {
    try {
        make();
        return "";
    } catch (const vkattn::Error &error) {
        return error.what();
    }
}

std::string plan_attention(const vkattn::Context &context, vkattn_type type, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 4, 32, 64});
    desc.key = desc.value = vkattn::tensor(type, {1, 2, 64, 64});
    desc.kernel = kernel;
    return refusal([&] { context.attention_plan(desc); });
}

std::string plan_linear(const vkattn::Context &context, vkattn_type weight) {
    vkattn_linear_desc desc{};
    desc.input = desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 8, 64});
    desc.weight = vkattn::tensor(weight, {64, 64});
    return refusal([&] { context.linear_plan(desc); });
}

std::string plan_embedding(const vkattn::Context &context, vkattn_type weight) {
    vkattn_embedding_desc desc{};
    desc.tokens = vkattn::tensor(VKATTN_TYPE_I32, {1, 8});
    desc.weight = vkattn::tensor(weight, {100, 64});
    desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 8, 64});
    return refusal([&] { context.embedding_plan(desc); });
}

void expect_refusal(const std::string &said, const char *what, const char *option) {
    expect(said.find(std::string("built with ") + option + " off") != said.npos, what, said);
}

} // namespace

int main() {
    const vkattn::Context context;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0}) {
        const std::string said = plan_attention(context, type, VKATTN_KERNEL_AUTO);
        expect(said.empty(), "attention", said);
    }
    expect(plan_linear(context, VKATTN_TYPE_F16).empty(), "linear of f16", plan_linear(context, VKATTN_TYPE_F16));
    expect(plan_embedding(context, VKATTN_TYPE_F32).empty(), "embedding of f32",
           plan_embedding(context, VKATTN_TYPE_F32));
    expect_refusal(plan_linear(context, VKATTN_TYPE_Q8_0), "linear of q8_0", "VKATTN_QUANTISED_WEIGHTS");
    expect_refusal(plan_embedding(context, VKATTN_TYPE_Q4_0), "embedding of q4_0", "VKATTN_QUANTISED_WEIGHTS");
    expect_refusal(plan_attention(context, VKATTN_TYPE_F16, VKATTN_KERNEL_COOPMAT), "coopmat", "VKATTN_MATRIX_UNITS");
    expect_refusal(plan_attention(context, VKATTN_TYPE_F16, VKATTN_KERNEL_ADDRESSES), "flash_addresses",
                   "VKATTN_CPU_DRIVERS");
    if (failures == 0) std::puts("all as expected");
    return failures;
}
