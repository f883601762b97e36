#include "runtime/trials/ready_context.hpp"

#include "runtime/support/error.hpp"
#include "runtime/trials/budgeted_tuning.hpp"
#include "runtime/trials/saved_state.hpp"
#include "runtime/trials/self_test.hpp"

namespace vkattn {
namespace {

SavedState saved_state_of(const vkattn_context_info &info, const Context &context) {
    if (info.saved_bytes == 0) return {};
    require(info.saved_data != nullptr, "saved_data: NULL, expected a pointer");
    SavedState saved = read_state({static_cast<const std::byte *>(info.saved_data), info.saved_bytes}, context.caps());
    if (!saved.reason.empty()) context.warn("vkattn: saved_data: " + saved.reason + ", ignored");
    return saved;
}

// Has the context note what it tries, and takes over what processes have ended over.
void keep_journal(const vkattn_context_info &info, Context &context) {
    if (info.crash_journal == nullptr) return;
    require(*info.crash_journal != '\0', "crash_journal: \"\", expected the name of a file, or NULL");
    const uint64_t device = identity_of(context.caps());
    context.set_journal(CrashJournal::open(info.crash_journal), device);
    for (const Attempt &failed : context.journal()->failed(device))
        if (failed.paths != 0) context.verdicts().fail(failed.shader, failed.paths, failure_text(failed));
}

void keep_budget(const vkattn_context_info &info, Context &context) {
    if (info.tune_budget_ms == 0) return;
    const bool is_cpu = context.caps().device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (!is_cpu || info.tune_gpus_alone == 0) allow_tuning(context, info.tune_budget_ms);
}

} // namespace

std::unique_ptr<Context> ready_context(const vkattn_context_info &info) {
    auto context = std::make_unique<Context>(info);
    const SavedState saved = saved_state_of(info, *context);
    context->verdicts().load(saved.verdicts);
    keep_journal(info, *context);
    context->read_matrices();
    context->tunings().attention.load(saved.attention_tunings);
    context->tunings().backward.load(saved.backward_tunings);
    context->tunings().linear.load(saved.linear_tunings);
    context->variants().load(saved.variants);
    context->pipelines().load(saved.pipelines);
    if (context->caps().traits.self_test != 0)
        context->verdicts().set_test(
            [own = context.get()](std::string_view shader, CodePaths paths) { self_test_shader(*own, shader, paths); });
    keep_budget(info, *context);
    return context;
}

} // namespace vkattn
