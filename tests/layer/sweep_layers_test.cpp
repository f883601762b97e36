// Layers of every kind drawn at random, with biases and without, pasts, caches and masks, against the reference.
#include "layer_draws.hpp"

using namespace vkattn_test;

namespace {

std::string complaints_of(const LayerDraw &d) {
    const LayerProblem problem = problem_of(d);
    const LayerReference reference = reference_layer(problem);
    if (reference.nearest_choice < 1e-5) return ""; // f32 may choose another key
    const vkattn::Layer layer = make_layer(problem.config, problem.weights);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_UNFUSED}) {
        LayerResults results = results_of(d);
        std::string complaints;
        try {
            complaints = run_layer(problem, results, layer.plan(call_of(problem, results, kernel)));
            complaints += compare_layer(problem, reference, results);
        } catch (const vkattn::Error &error) { // a kernel that is asked for may not take what is asked; AUTO finds one
            if (kernel == VKATTN_KERNEL_AUTO || error.result() != VKATTN_ERROR_UNSUPPORTED)
                complaints = std::string(error.what()) + "\n";
        }
        if (!complaints.empty()) return "kernel " + kernel_text(kernel) + ": " + complaints;
    }
    return "";
}

const std::vector<std::function<void(LayerDraw &)>> &reductions() {
    static const std::vector<std::function<void(LayerDraw &)>> all = {
        [](LayerDraw &d) { d.mask = false; },
        [](LayerDraw &d) { d.blocks = false; },
        [](LayerDraw &d) { d.trees = false; },
        [](LayerDraw &d) { d.key_padding = false; },
        [](LayerDraw &d) { d.key_lengths = false; },
        [](LayerDraw &d) { d.window = false; },
        [](LayerDraw &d) { d.causal = false; },
        [](LayerDraw &d) { d.with_weights = false; },
        [](LayerDraw &d) { d.present = false; },
        [](LayerDraw &d) { d.past_len = 0; },
        [](LayerDraw &d) { d.other_len = 0; },
        [](LayerDraw &d) { d.biases = 0; },
        [](LayerDraw &d) { d.head_norms = false; },
        [](LayerDraw &d) { d.config.softcap = 0.0f; },
        [](LayerDraw &d) { d.config.scale = 0.0f; },
        [](LayerDraw &d) { d.weights = VKATTN_TYPE_F32; },
        [](LayerDraw &d) { d.tokens = VKATTN_TYPE_F32; },
        [](LayerDraw &d) { d.output = VKATTN_TYPE_F32; },
        [](LayerDraw &d) { d.cache = VKATTN_TYPE_F32; },
        [](LayerDraw &d) { d.batch = 1; },
        [](LayerDraw &d) { d.len = (d.len + 1) / 2; },
        [](LayerDraw &d) { d.past_len = d.past_len / 2; },
    };
    return all;
}

} // namespace

TEST_SUITE_BEGIN("sweep");

TEST_CASE_FIXTURE(DeviceTest, "random layers") {
    sweep([](unsigned seed) {
        const LayerDraw drawn = draw_layer(seed);
        const std::string complaints = complaints_of(drawn);
        if (complaints.empty()) return std::string();
        const auto fails = [](const LayerDraw &d) { return !complaints_of(d).empty(); };
        return complaints + "as small as it fails: " + text(smallest(drawn, reductions(), fails));
    });
}

TEST_SUITE_END();
