// The provider of a session: which nodes it takes, and what computes them.
#pragma once

#include "operators.hpp"

#include <set>

namespace vkattn_ort {

// A node that is taken, compiled.
struct CompiledNode : OrtNodeComputeInfo {
    CompiledNode(Device &device, const Node &node, const OperatorRow &row, const Ort::ConstNode &fused);

    Device &device;
    std::string label; // of messages
    Wiring wiring;
    std::unique_ptr<Operator> operation;
};

struct Provider : OrtEp {
    // tells_reasons: why nodes are left is logged as warnings, else as information
    Provider(Device &device, bool tells_reasons, const OrtLogger *logger);

    Device &device;

  private:
    void choose(const OrtGraph *graph, OrtEpGraphSupportInfo *support);
    void tell(const Node &node, const std::string &obstacle);

    OrtLoggingLevel level_;
    bool has_compiled_ = false; // nodes of some graph
    const OrtLogger *logger_;
    std::set<std::string> told_; // ONNX Runtime asks several times
};

} // namespace vkattn_ort
