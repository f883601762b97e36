#include "runtime/emit/judged.hpp"

#include "runtime/kernels/shader_paths.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {

void test_whole(const PlanBuilder &builder, const Shader &shader) {
    if (!builder.is_measure()) builder.context().verdicts().test_before_use(shader.name, kWholeShader);
}

bool is_right(const PlanBuilder &builder, const Shader &shader) {
    test_whole(builder, shader);
    return why_off(*builder.context().judged_caps(), shader.name, kWholeShader).empty();
}

void require_right(const PlanBuilder &builder, const Shader &shader) {
    test_whole(builder, shader);
    const std::shared_ptr<const DeviceCaps> caps = builder.context().judged_caps();
    const std::string_view reason = why_off(*caps, shader.name, kWholeShader);
    if (!reason.empty()) fail(VKATTN_ERROR_UNSUPPORTED, caps->name, ": ", reason);
}

} // namespace vkattn
