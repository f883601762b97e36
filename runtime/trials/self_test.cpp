#include "runtime/trials/self_test.hpp"

#include "runtime/support/error.hpp"
#include "runtime/trials/shader_checks.hpp"
#include "runtime/trials/shader_trials.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <bit>
#include <chrono>
#include <set>

namespace vkattn {
namespace {

std::string failure_text(const std::string &shader, CodePaths paths, const std::string &reason) {
    return text("self-test: ", shader, ", ", path_names(paths), ": ", reason);
}

bool is_right(const Findings &findings) { return findings.is_known && findings.reason.empty(); }

void judge(Context &context, const TestedShader &shader, CodePaths paths);

// Whether the shaders that compute before or after it in a plan are right: they are judged first.
bool company_is_right(Context &context, const TestedShader &shader, CodePaths paths) {
    for (const auto &[other, its_paths] : company_of(shader, paths, context.caps())) {
        const std::string name = shader_name(other, context.caps());
        if (((context.verdicts().find(name).passed & its_paths) != its_paths)) judge(context, other, its_paths);
        if ((context.verdicts().find(name).failed & its_paths) != 0) return false;
    }
    return true;
}

// Checks paths together. Paths that lose the device are off for the next context, too: it starts from what this one saves.
// Where memory runs out, there is no verdict.
Findings check_paths(Context &context, const TestedShader &shader, CodePaths paths) {
    if (!company_is_right(context, shader, paths)) return {};
    try {
        return check_shader(context, shader, paths);
    } catch (const Error &error) {
        if (error.result() == VKATTN_ERROR_DEVICE_LOST) {
            const std::string name = shader_name(shader, context.caps());
            const CodePaths blamed = paths & ~context.verdicts().find(name).passed;
            context.verdicts().fail(name, blamed, failure_text(name, blamed, "the device was lost"));
        }
        if (!blames_kernel(error)) throw;
        return {true, error.what(), 0};
    }
}

// Blames one of the paths that are checked together; the others have passed.
Findings judge_one(Context &context, const TestedShader &shader, CodePaths path, CodePaths paths) {
    const std::string name = shader_name(shader, context.caps());
    Findings findings = check_paths(context, shader, paths);
    if (is_right(findings))
        context.verdicts().pass(name, findings.paths | path);
    else if (findings.is_known)
        context.verdicts().fail(name, path, failure_text(name, path, findings.reason));
    return findings;
}

CodePaths lowest(CodePaths paths) { return paths & (~paths + 1); }

// A path, with the type that Q needs.
CodePaths with_type(CodePaths path, CodePaths paths) {
    constexpr CodePaths kFloats = kPathF32 | kPathF16 | kPathBf16;
    return (path & kFloats) != 0 ? path : path | lowest(paths & kFloats);
}

// All paths in one check; where that fails, one after the other until one is found wrong, or the last if all are right
// alone.
void judge(Context &context, const TestedShader &shader, CodePaths paths) {
    const std::string name = shader_name(shader, context.caps());
    const Findings all = check_paths(context, shader, paths);
    if (is_right(all)) return context.verdicts().pass(name, all.paths | paths);
    const auto has_failed = [&] { return (context.verdicts().find(name).failed & paths) != 0; };
    for (CodePaths rest = paths; rest != 0 && !has_failed(); rest &= rest - 1)
        judge_one(context, shader, lowest(rest), with_type(lowest(rest), paths));
    const CodePaths last = CodePaths{1} << (std::bit_width(paths) - 1);
    if (all.is_known && !has_failed()) context.verdicts().fail(name, last, failure_text(name, paths, all.reason));
}

// One check of the whole test. What has failed before stays off.
Findings check_anew(Context &context, const ShaderCheck &check) {
    const std::string name = shader_name(check.shader, context.caps());
    if ((context.verdicts().find(name).failed & check.path) != 0) return {true, "has failed before", 0};
    return judge_one(context, check.shader, check.path, check.paths);
}

std::string check_name(const ShaderCheck &check, const DeviceCaps &caps) {
    return text(shader_name(check.shader, caps), ", ", path_names(check.path));
}

} // namespace

void self_test_shader(Context &context, std::string_view shader, CodePaths paths) {
    for (const TestedShader &each : tested_shaders(context.caps()))
        if (shader_name(each, context.caps()) == shader) return judge(context, each, paths);
}

void self_test(Context &context, const std::function<void(const Check &)> &tell) {
    context.submissions().require_device();
    std::set<std::string> known, done;
    size_t before = 0;
    do { // once more where one failed, for plans then take another
        before = done.size();
        const std::vector<ShaderCheck> checks = wanted_checks(*context.judged_caps());
        for (const ShaderCheck &check : checks) known.insert(check_name(check, context.caps()));
        for (const ShaderCheck &check : checks) {
            const std::string name = check_name(check, context.caps());
            if (!done.insert(name).second) continue;
            const auto start = std::chrono::steady_clock::now();
            const Findings findings = check_anew(context, check);
            const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
            if (findings.is_known) tell({name, findings.reason, taken.count(), static_cast<uint32_t>(known.size())});
        }
    } while (done.size() > before);
}

} // namespace vkattn
