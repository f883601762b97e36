#include "node.hpp"

#include <cstring>

namespace vkattn_ort {
namespace {

struct Element {
    ElementType type;
    const char *name;
    std::size_t bytes;
    vkattn_type stored;
};

constexpr Element kElements[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float", 4, VKATTN_TYPE_F32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16", 2, VKATTN_TYPE_F16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, "bfloat16", 2, VKATTN_TYPE_BF16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, "bool", 1, VKATTN_TYPE_BOOL},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32", 4, VKATTN_TYPE_I32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64", 8, VKATTN_TYPE_NONE},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, "uint8", 1, VKATTN_TYPE_NONE},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, "int8", 1, VKATTN_TYPE_NONE},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, "double", 8, VKATTN_TYPE_NONE},
};

const Element *element(ElementType type) {
    for (const Element &each : kElements)
        if (each.type == type) return &each;
    return nullptr;
}

const Declared kAbsent;

Declared declared(const Ort::ConstValueInfo &value) {
    Declared found;
    if (!value) return found;
    found.name = value.GetName();
    if (found.name.empty()) return found;
    found.present = true;
    found.constant = value.IsConstantInitializer();
    const Ort::ConstTypeInfo type = value.TypeInfo();
    if (!type || type.GetONNXType() != ONNX_TYPE_TENSOR) return found;
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    found.type = tensor.GetElementType();
    if (auto shape = tensor.GetShape(); !shape.empty()) found.shape = std::move(shape);
    return found;
}

HostTensor copied(const Ort::ConstValue &value) {
    const auto info = value.GetTensorTypeAndShapeInfo();
    HostTensor copy{info.GetElementType(), info.GetShape(), {}};
    copy.bytes.resize(value.GetTensorSizeInBytes());
    if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), value.GetTensorRawData(), copy.bytes.size());
    return copy;
}

template <typename From>
std::vector<float> converted(const std::vector<std::byte> &bytes) {
    std::vector<From> values(bytes.size() / sizeof(From));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(From));
    return {values.begin(), values.end()};
}

} // namespace

vkattn_type stored_type(ElementType type) { return element(type) ? element(type)->stored : VKATTN_TYPE_NONE; }
std::size_t element_bytes(ElementType type) { return element(type) ? element(type)->bytes : 0; }
const char *element_name(ElementType type) { return element(type) ? element(type)->name : "another type"; }

std::int64_t elements_of(std::span<const std::int64_t> shape) {
    std::int64_t product = 1;
    for (const std::int64_t size : shape) product *= size;
    return product;
}

std::size_t Tensor::bytes() const { return static_cast<std::size_t>(elements()) * element_bytes(type); }

std::vector<float> HostTensor::floats() const {
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16) return converted<Ort::Float16_t>(bytes);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) return converted<Ort::BFloat16_t>(bytes);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) return converted<std::uint8_t>(bytes);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) return converted<float>(bytes);
    throw Failure(ORT_INVALID_GRAPH,
                  std::string("a constant is ") + element_name(type) + ", expected float, float16, bfloat16 or uint8");
}

Node::Node(Ort::ConstNode node)
    : node_(node), name_(node.GetName()), op_(node.GetOperatorType()), domain_(node.GetDomain()),
      since_version_(node.GetSinceVersion()), values_(node.GetInputs()) {
    for (const auto &value : values_) inputs_.push_back(declared(value));
    for (const auto &value : node.GetOutputs()) outputs_.push_back(declared(value));
}

const Declared &Node::input(std::size_t index) const { return index < inputs_.size() ? inputs_[index] : kAbsent; }
const Declared &Node::output(std::size_t index) const { return index < outputs_.size() ? outputs_[index] : kAbsent; }

template <typename T>
T Node::attribute(const char *name, T otherwise) const {
    Ort::ConstOpAttr found{nullptr};
    const Ort::Status missing = node_.GetAttributeByName(name, found);
    if (!missing.IsOK() || !found) return otherwise;
    Ort::ThrowOnError(found.GetValue(otherwise));
    return otherwise;
}

bool Node::has_attribute(const char *name) const {
    Ort::ConstOpAttr found{nullptr};
    const Ort::Status missing = node_.GetAttributeByName(name, found);
    return missing.IsOK() && found;
}

std::int64_t Node::integer(const char *name, std::int64_t otherwise) const { return attribute(name, otherwise); }
float Node::number(const char *name, float otherwise) const { return attribute(name, otherwise); }
std::string Node::text(const char *name, const std::string &otherwise) const { return attribute(name, otherwise); }

HostTensor Node::constant(std::size_t index) const {
    Ort::ConstValue value{nullptr};
    Ort::ThrowOnError(values_.at(index).GetInitializer(value));
    if (!value) throw Failure(ORT_INVALID_GRAPH, "input " + inputs_[index].name + " has no value");
    return copied(value);
}

Tensor Call::input(std::size_t index) const {
    if (index >= wiring_.inputs.size()) return {};
    const Wiring::Source &source = wiring_.inputs[index];
    if (source.constant)
        return {true, source.constant->type, source.constant->shape, source.constant->memory->address(), nullptr};
    if (source.context_index < 0) return {};
    const Ort::ConstValue value = context_.GetInput(static_cast<std::size_t>(source.context_index));
    if (!value) return {};
    const auto info = value.GetTensorTypeAndShapeInfo();
    Tensor tensor{true, info.GetElementType(), info.GetShape()};
    if (tensor.elements() == 0) return tensor;
    const OrtMemoryDevice *place = Ort::GetEpApi().Value_GetMemoryDevice(value);
    if (device_.holds(place))
        tensor.address = const_cast<void *>(value.GetTensorRawData());
    else if (!is_host(place))
        throw Failure(ORT_INVALID_ARGUMENT,
                      "input " + std::to_string(index) +
                          " lies in another device's memory, expected this device's or the host's");
    else
        tensor.host = value.GetTensorRawData();
    return tensor;
}

bool Call::wants_output(std::size_t index) const {
    return index < wiring_.outputs.size() && wiring_.outputs[index] >= 0;
}

Tensor Call::output(std::size_t index, const std::vector<std::int64_t> &shape) const {
    const Ort::UnownedValue value = context_.GetOutput(static_cast<std::size_t>(wiring_.outputs.at(index)), shape);
    const auto info = value.GetTensorTypeAndShapeInfo();
    Tensor tensor{true, info.GetElementType(), info.GetShape()};
    if (tensor.elements() == 0) return tensor;
    tensor.address = const_cast<void *>(value.GetTensorRawData());
    if (!tensor.address) // ONNX Runtime makes the tensor all the same
        throw Failure(ORT_EP_FAIL, "output " + std::to_string(index) + ": no memory for " +
                                       std::to_string(value.GetTensorSizeInBytes()) + " bytes on " + device_.name());
    device_.memory().forget_host_copy(tensor.address, value.GetTensorSizeInBytes());
    return tensor;
}

View Call::view(const Tensor &tensor) const {
    View view;
    view.layout.type = stored_type(tensor.type);
    view.layout.rank = static_cast<std::uint32_t>(std::max<std::size_t>(tensor.shape.size(), 1));
    if (tensor.shape.size() > 4) { // whoever has more dimensions says how they lie
        view.layout.rank = 1;
        view.layout.shape[0] = static_cast<std::uint64_t>(tensor.elements());
    } else {
        std::copy(tensor.shape.begin(), tensor.shape.end(), view.layout.shape);
        if (tensor.shape.empty()) view.layout.shape[0] = 1;
    }
    if (tensor.address) view.region = device_.memory().region(tensor.address);
    if (tensor.host) {
        temporaries_.push_back(device_.memory().holding({static_cast<const std::byte *>(tensor.host), tensor.bytes()}));
        view.region = temporaries_.back()->region();
    }
    return view;
}

View Call::temporary(vkattn_type type, std::initializer_list<std::uint64_t> shape) {
    View view;
    view.layout = vkattn::tensor(type, shape);
    temporaries_.push_back(std::make_shared<Scratch>(device_.memory(), vkattn_tensor_bytes(&view.layout)));
    view.region = temporaries_.back()->region();
    return view;
}

View Call::bytes(vkattn_type type, std::span<const std::uint8_t> values, std::initializer_list<std::uint64_t> shape) {
    View view;
    view.layout = vkattn::tensor(type, shape);
    if (values.empty()) return view;
    temporaries_.push_back(device_.memory().holding(std::as_bytes(values)));
    view.region = temporaries_.back()->region();
    return view;
}

View Call::numbers(std::span<const std::int32_t> values, std::initializer_list<std::uint64_t> shape) {
    const auto *data = reinterpret_cast<const std::uint8_t *>(values.data());
    return bytes(VKATTN_TYPE_I32, {data, values.size_bytes()}, shape);
}

std::vector<std::int64_t> Call::integers(const Tensor &tensor) const {
    std::vector<std::byte> data(tensor.bytes());
    if (tensor.host)
        std::memcpy(data.data(), tensor.host, data.size());
    else
        device_.memory().read(data.data(), tensor.address, data.size());
    std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements()));
    if (tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
        std::memcpy(values.data(), data.data(), data.size());
    } else if (tensor.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) {
        std::vector<std::int32_t> narrow(values.size());
        std::memcpy(narrow.data(), data.data(), data.size());
        values.assign(narrow.begin(), narrow.end());
    } else {
        throw Failure(ORT_INVALID_ARGUMENT,
                      std::string("lengths are ") + element_name(tensor.type) + ", expected int32 or int64");
    }
    return values;
}

void Call::submit(const vkattn::Plan &plan, std::span<const std::pair<vkattn_role, View>> bound) const {
    std::vector<vkattn_binding> bindings;
    for (const auto &[role, view] : bound)
        if (view.region.buffer) bindings.push_back({role, view.region});
    vkattn::check(vkattn_submit(plan.get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()), nullptr));
}

void Call::submit(const vkattn::Plan &plan, std::initializer_list<std::pair<vkattn_role, View>> bound) const {
    submit(plan, std::span(bound.begin(), bound.size()));
}

} // namespace vkattn_ort
