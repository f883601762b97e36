// What the graph says of a node, and a node's tensors at a call.
#pragma once

#include "device.hpp"

#include <cstdint>
#include <vector>

namespace vkattn_ort {

using ElementType = ONNXTensorElementDataType;

// Returns the stored type of an element type, or VKATTN_TYPE_NONE.
vkattn_type stored_type(ElementType type);
std::size_t element_bytes(ElementType type);
const char *element_name(ElementType type);
inline bool is_float(ElementType type) {
    return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
           type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}
std::int64_t elements_of(std::span<const std::int64_t> shape);

// A tensor of the model itself, in host memory.
struct HostTensor {
    ElementType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    // Returns its floats, of whatever type.
    std::vector<float> floats() const;
};

// An input or output of a node as the graph knows it before a call.
struct Declared {
    bool present = false;
    bool constant = false; // of the model itself
    std::string name;
    ElementType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    std::optional<std::vector<std::int64_t>> shape; // -1: known at a call; none: not even how many, or a scalar
};

class Node {
  public:
    explicit Node(Ort::ConstNode node);

    const std::string &name() const { return name_; }
    const std::string &op() const { return op_; }
    const std::string &domain() const { return domain_; }
    int since_version() const { return since_version_; }

    // Absent ones beyond the last, too.
    const Declared &input(std::size_t index) const;
    const Declared &output(std::size_t index) const;
    const std::vector<Declared> &inputs() const { return inputs_; }
    const std::vector<Declared> &outputs() const { return outputs_; }

    bool has_attribute(const char *name) const;
    std::int64_t integer(const char *name, std::int64_t otherwise) const;
    float number(const char *name, float otherwise) const;
    std::string text(const char *name, const std::string &otherwise) const;

    // Copies the value of an input that is constant.
    HostTensor constant(std::size_t index) const;

  private:
    template <typename T>
    T attribute(const char *name, T otherwise) const;

    Ort::ConstNode node_;
    std::string name_, op_, domain_;
    int since_version_;
    std::vector<Ort::ConstValueInfo> values_;
    std::vector<Declared> inputs_, outputs_;
};

// A tensor of a call, or a part of one.
//
// address  in the device's memory; nullptr where there are no elements, or:
// host     in host memory: what nodes of the processor write is not copied to the device by ONNX Runtime
struct Tensor {
    bool present = false;
    ElementType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    std::vector<std::int64_t> shape;
    void *address = nullptr;
    const void *host = nullptr;

    explicit operator bool() const { return present; }
    std::int64_t elements() const { return elements_of(shape); }
    std::size_t bytes() const;
};

// What a plan is given of a tensor: how it lies, and where.
struct View {
    vkattn_tensor layout{};
    vkattn_region region{};
};

// A constant of the model on the device, for all nodes that read it.
struct DeviceConstant {
    ElementType type;
    std::vector<std::int64_t> shape;
    std::shared_ptr<Scratch> memory;
};

// Where a node's tensors come from at a call.
struct Wiring {
    struct Source {
        int context_index = -1;
        std::shared_ptr<const DeviceConstant> constant;
    };
    std::vector<Source> inputs;
    std::vector<int> outputs; // index in the context; -1: nobody reads it
};

// One call of a node.
class Call {
  public:
    Call(Device &device, const Wiring &wiring, OrtKernelContext *context)
        : device_(device), wiring_(wiring), context_(context) {}

    Tensor input(std::size_t index) const;
    bool wants_output(std::size_t index) const;
    Tensor output(std::size_t index, const std::vector<std::int64_t> &shape) const;

    // Returns all of a tensor, contiguous. One of the host is copied to the device, once for those that read it
    // one after the other.
    View view(const Tensor &tensor) const;
    // Returns memory of this call alone for a contiguous tensor.
    View temporary(vkattn_type type, std::initializer_list<std::uint64_t> shape);
    // Returns small numbers that the host knows, on the device.
    View numbers(std::span<const std::int32_t> values, std::initializer_list<std::uint64_t> shape);
    View bytes(vkattn_type type, std::span<const std::uint8_t> values, std::initializer_list<std::uint64_t> shape);

    // Reads a small tensor of integers on the host.
    std::vector<std::int64_t> integers(const Tensor &tensor) const;

    // Submits a plan; views without elements are left out.
    void submit(const vkattn::Plan &plan, std::initializer_list<std::pair<vkattn_role, View>> bound) const;
    void submit(const vkattn::Plan &plan, std::span<const std::pair<vkattn_role, View>> bound) const;

    const vkattn::Context &context() const { return device_.context(); }
    Device &device() const { return device_; }

  private:
    Device &device_;
    const Wiring &wiring_;
    Ort::KernelContext context_;
    mutable std::vector<std::shared_ptr<Scratch>> temporaries_; // until all is submitted
};

} // namespace vkattn_ort
