#include "runtime/ops/operators.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "shaders/interface/adamw.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

VKATTN_OPERATOR(Adamw, ADAMW_TENSORS)

AdamwTensors checked(const vkattn_adamw_desc &desc) {
    AdamwTensors tensors = AdamwTensors::of(desc);
    const vkattn_tensor given = desc.parameter;
    for (const auto &row : AdamwTensors::table()) {
        const bool is_optional = row.binding == BINDING_ADAMW_COPY;
        View &view = tensors.*row.member;
        if (row.form != TensorForm::kOwn || (is_optional && !present(view))) continue;
        view.tensor =
            checked_elements(view.tensor, row.name, row.binding == BINDING_ADAMW_PARAMETER ? vkattn_tensor{} : given);
        const bool is_f32 = view.tensor.type == VKATTN_TYPE_F32;
        require(is_f32 || is_optional || row.binding == BINDING_ADAMW_GRADIENT, row.name, ": type ",
                type_name(view.tensor.type), ", expected F32");
    }
    check_tensors(tensors, {{'S', 1}});
    require(present(tensors.step), "step: absent, expected I32 [1]");
    require(present(tensors.learning_rate), "learning_rate: absent, expected F32 [1]");
    return tensors;
}

double beta_or(const vkattn_optional_float &given, double otherwise, const char *name) {
    if (given.present == 0) return otherwise;
    require(given.value >= 0 && given.value < 1, name, ": ", given.value, ", expected at least 0, below 1");
    return static_cast<double>(given.value);
}

float log_of(double beta) { return static_cast<float>(std::max(std::log(beta), -1e30)); }

gpu::AdamwPush push_of(const vkattn_adamw_desc &desc) {
    const double beta1 = beta_or(desc.beta1, 0.9, "beta1"), beta2 = beta_or(desc.beta2, 0.999, "beta2");
    gpu::AdamwPush push{};
    push.one_minus_beta1 = static_cast<float>(1.0 - beta1);
    push.one_minus_beta2 = static_cast<float>(1.0 - beta2);
    push.log_beta1 = log_of(beta1);
    push.log_beta2 = log_of(beta2);
    push.epsilon = epsilon_or(desc.epsilon, 1e-8f, "epsilon");
    push.weight_decay = epsilon_or(desc.weight_decay, 0.01f, "weight_decay");
    push.copy_scale = finite_or(desc.copy_scale, 1.0f, "copy_scale");
    return push;
}

} // namespace

void plan_adamw(PlanBuilder &builder, const vkattn_adamw_desc &desc) {
    const AdamwTensors tensors = checked(desc);
    const uint64_t elements = tensors.parameter.tensor.shape[0];
    gpu::AdamwConstants constants;
    constants.IN_FOURS = are_in_fours(tensors);
    gpu::AdamwPush push = push_of(desc);
    push.elements = static_cast<uint32_t>(elements);
    Step &step = add_step(builder, shaders::adamw, tensors, constants, push);
    step.groups = {tiles(elements, ADAMW_ELEMENTS), 1, 1};
    step.flops = 2 * kFlopsOfElement * static_cast<double>(elements);
}

} // namespace vkattn
