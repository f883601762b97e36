#include "provider.hpp"

#include <algorithm>

namespace vkattn_ort {
namespace {

std::string label_of(const Node &node) { return "node '" + node.name() + "' (" + node.op() + "): "; }

int place_of(const std::vector<Ort::ConstValueInfo> &values, const std::string &name) {
    for (std::size_t each = 0; each < values.size(); ++each)
        if (values[each] && values[each].GetName() == name) return static_cast<int>(each);
    return -1;
}

std::shared_ptr<const DeviceConstant> on_device(Device &device, const HostTensor &tensor) {
    auto memory = std::make_shared<Scratch>(device.memory(), tensor.bytes.size());
    device.memory().write(memory->address(), tensor.bytes.data(), tensor.bytes.size());
    return std::make_shared<const DeviceConstant>(DeviceConstant{tensor.type, tensor.shape, std::move(memory)});
}

Wiring wiring_of(Device &device, const Node &node, const OperatorRow &row, const Ort::ConstNode &fused) {
    const auto inputs = fused.GetInputs(), outputs = fused.GetOutputs();
    Wiring wiring;
    for (std::size_t each = 0; each < node.inputs().size(); ++each) {
        const Declared &input = node.input(each);
        Wiring::Source source;
        const bool host = each < 32 && (row.host_inputs >> each & 1) != 0;
        if (input.present && input.constant && !host) source.constant = on_device(device, node.constant(each));
        if (input.present && !input.constant) source.context_index = place_of(inputs, input.name);
        if (input.present && !input.constant && source.context_index < 0)
            throw Failure(ORT_INVALID_GRAPH, "input " + input.name + " is not among those of the compiled node");
        wiring.inputs.push_back(std::move(source));
    }
    for (const Declared &output : node.outputs())
        wiring.outputs.push_back(output.present ? place_of(outputs, output.name) : -1);
    return wiring;
}

// A node of the graph with what is thought of it.
struct Candidate {
    Ort::ConstNode handle;
    Node node;
    const OperatorRow *row;
    std::string obstacle;
};

// Says whether one node reads what the other writes.
bool are_neighbours(const Node &one, const Node &other) {
    const auto reads = [](const Node &reader, const Node &writer) {
        return std::ranges::any_of(writer.outputs(), [&](const Declared &output) {
            return output.present && std::ranges::any_of(reader.inputs(), [&](const Declared &input) {
                       return input.present && input.name == output.name;
                   });
        });
    };
    return reads(one, other) || reads(other, one);
}

std::vector<Candidate> candidates_of(const OrtGraph *graph) {
    std::vector<Candidate> candidates;
    for (const Ort::ConstNode &handle : Ort::ConstGraph{graph}.GetNodes()) {
        if (const std::string owner = handle.GetEpName(); !owner.empty() && owner != kProviderName) continue;
        Node node(handle);
        const OperatorRow *row = find_operator(node);
        if (row) candidates.push_back({handle, node, row, obstacle_of(*row, node)});
    }
    for (Candidate &each : candidates) {
        const auto is_taken_beside = [&](const Candidate &other) {
            return !other.row->between && other.obstacle.empty() && are_neighbours(each.node, other.node);
        };
        if (each.row->between && each.obstacle.empty() && std::ranges::none_of(candidates, is_taken_beside))
            each.obstacle = "no neighbour is taken, expected one: its tensors would be copied to the device and back";
    }
    return candidates;
}

} // namespace

CompiledNode::CompiledNode(Device &on, const Node &node, const OperatorRow &row, const Ort::ConstNode &fused)
    : OrtNodeComputeInfo{}, device(on), label(label_of(node)), wiring(wiring_of(on, node, row, fused)),
      operation(row.make(node, on)) {
    ort_version_supported = kApiVersion;
    CreateState = [](OrtNodeComputeInfo *self, OrtNodeComputeContext *, void **state) -> OrtStatus * {
        *state = self;
        return nullptr;
    };
    Compute = [](OrtNodeComputeInfo *, void *state, OrtKernelContext *context) -> OrtStatus * {
        const auto &compiled = *static_cast<const CompiledNode *>(static_cast<OrtNodeComputeInfo *>(state));
        return guarded(compiled.label, [&] {
            Call call(compiled.device, compiled.wiring, context);
            compiled.operation->compute(call);
        });
    };
    ReleaseState = [](OrtNodeComputeInfo *, void *) {};
}

Provider::Provider(Device &on, bool tells_reasons, const OrtLogger *logger)
    : OrtEp{}, device(on), level_(tells_reasons ? ORT_LOGGING_LEVEL_WARNING : ORT_LOGGING_LEVEL_INFO), logger_(logger) {
    ort_version_supported = kApiVersion;
    GetName = [](const OrtEp *) noexcept { return kProviderName; };
    GetCapability = [](OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support) noexcept {
        return guarded("choice of nodes: ", [&] { static_cast<Provider *>(self)->choose(graph, support); });
    };
    Compile = [](OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, std::size_t count,
                 OrtNodeComputeInfo **infos, OrtNode **) noexcept -> OrtStatus * {
        std::fill_n(infos, count, nullptr);
        static_cast<Provider *>(self)->has_compiled_ = true;
        for (std::size_t each = 0; each < count; ++each) {
            std::string where = "compiling: ";
            OrtStatus *failed = guarded(where, [&] {
                const auto nodes = Ort::ConstGraph{graphs[each]}.GetNodes();
                if (nodes.size() != 1)
                    throw Failure(ORT_EP_FAIL, "several nodes in one, expected those that were chosen");
                const Node node(nodes.front());
                const OperatorRow *row = find_operator(node);
                if (!row) throw Failure(ORT_EP_FAIL, label_of(node) + "an operator that was not chosen");
                try {
                    infos[each] = new CompiledNode(static_cast<Provider *>(self)->device, node, *row,
                                                   Ort::ConstNode{fused[each]});
                } catch (const Failure &failure) {
                    throw Failure(failure.code(), label_of(node) + failure.what());
                }
            });
            if (failed) return failed;
        }
        return nullptr;
    };
    ReleaseNodeComputeInfos = [](OrtEp *, OrtNodeComputeInfo **infos, std::size_t count) noexcept {
        for (std::size_t each = 0; each < count; ++each) delete static_cast<CompiledNode *>(infos[each]);
    };
}

void Provider::tell(const Node &node, const std::string &obstacle) {
    const std::string line = label_of(node) + "left to other providers: " + obstacle;
    if (told_.insert(line).second) log(logger_, level_, line);
}

// In 1.23 the names of compiled nodes begin anew in each graph, and a session refuses the second of a name. 1.32 is known to be right.
constexpr int kFirstOfSeveralGraphs = 32;

void Provider::choose(const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
    const bool has_names = !has_compiled_ || device.runtime_minor() >= kFirstOfSeveralGraphs;
    OrtNodeFusionOptions options{};
    options.ort_version_supported = kApiVersion;
    options.drop_constant_initializers = true; // those that are read lie on the device once it is compiled
    for (const Candidate &each : candidates_of(graph)) {
        std::string obstacle = each.obstacle;
        if (obstacle.empty() && !has_names)
            obstacle = "nodes of another graph of the model are taken, expected ONNX Runtime 1.32 for those of several";
        if (!obstacle.empty()) {
            tell(each.node, obstacle);
            continue;
        }
        const OrtNode *node = each.handle;
        Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options));
    }
}

} // namespace vkattn_ort
