// MatMulNBits: products with weights of 4 bits, stored as vkattn has them.
#include "operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn_ort {
namespace {

constexpr std::uint64_t kBlock = 32; // elements of Q4_0 and Q4_1

// The weights of a node, [outputs, inputs], in blocks along the inputs.
struct Blocks {
    std::uint64_t outputs, inputs, block_size;
    std::vector<std::byte> packed;     // two numbers a byte, the low one first
    std::vector<float> scales, points; // one a block; points: the number that stands for 0

    std::uint64_t blocks() const { return (inputs + block_size - 1) / block_size; }
    std::uint8_t number(std::uint64_t output, std::uint64_t input) const {
        const auto byte = static_cast<std::uint8_t>(packed[output * blocks() * block_size / 2 + input / 2]);
        return input % 2 == 0 ? byte & 15 : byte >> 4;
    }
    std::uint64_t block(std::uint64_t output, std::uint64_t input) const {
        return output * blocks() + input / block_size;
    }
};

constexpr float kMiddle = 8.0f; // the point of weights that have none

std::vector<float> points_of(const Node &node, const Blocks &blocks) {
    std::vector<float> points(blocks.outputs * blocks.blocks(), kMiddle);
    if (!node.input(3).present) return points;
    const HostTensor given = node.constant(3);
    if (given.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) return given.floats();
    const std::uint64_t row = (blocks.blocks() + 1) / 2; // bytes
    for (std::uint64_t output = 0; output < blocks.outputs; ++output)
        for (std::uint64_t block = 0; block < blocks.blocks(); ++block) {
            const auto byte = static_cast<std::uint8_t>(given.bytes.at(output * row + block / 2));
            points[output * blocks.blocks() + block] = static_cast<float>(block % 2 == 0 ? byte & 15 : byte >> 4);
        }
    return points;
}

// Their sizes, without numbers.
Blocks sizes_of(const Node &node) {
    Blocks blocks{};
    blocks.outputs = static_cast<std::uint64_t>(node.integer("N", 0));
    blocks.inputs = static_cast<std::uint64_t>(node.integer("K", 0));
    blocks.block_size = static_cast<std::uint64_t>(node.integer("block_size", 32));
    return blocks;
}

Blocks blocks_of(const Node &node) {
    Blocks blocks = sizes_of(node);
    blocks.packed = node.constant(1).bytes;
    blocks.scales = node.constant(2).floats();
    blocks.points = points_of(node, blocks);
    return blocks;
}

void put(std::vector<std::byte> &bytes, float number) {
    const Ort::Float16_t half(number);
    const auto *data = reinterpret_cast<const std::byte *>(&half);
    bytes.insert(bytes.end(), data, data + sizeof(half));
}

// Rows of Q4_0, or of Q4_1 where some block's point is not the middle: ggml's blocks, whose bytes hold elements i and i + 16.
std::vector<std::byte> ggml_blocks(const Blocks &blocks, bool with_minimum) {
    std::vector<std::byte> bytes;
    bytes.reserve(blocks.outputs * blocks.inputs / kBlock * (with_minimum ? 20 : 18));
    for (std::uint64_t output = 0; output < blocks.outputs; ++output)
        for (std::uint64_t first = 0; first < blocks.inputs; first += kBlock) {
            const std::uint64_t block = blocks.block(output, first);
            put(bytes, blocks.scales[block]);
            if (with_minimum) put(bytes, -blocks.points[block] * blocks.scales[block]);
            for (std::uint64_t each = 0; each < kBlock / 2; ++each)
                bytes.push_back(static_cast<std::byte>(blocks.number(output, first + each) |
                                                       blocks.number(output, first + each + kBlock / 2) << 4));
        }
    return bytes;
}

// The weights as plain numbers, F16 or F32.
std::vector<std::byte> plain_numbers(const Blocks &blocks, vkattn_type type) {
    std::vector<std::byte> bytes;
    bytes.reserve(blocks.outputs * blocks.inputs * (type == VKATTN_TYPE_F16 ? 2 : 4));
    for (std::uint64_t output = 0; output < blocks.outputs; ++output)
        for (std::uint64_t input = 0; input < blocks.inputs; ++input) {
            const std::uint64_t block = blocks.block(output, input);
            const float weight =
                (static_cast<float>(blocks.number(output, input)) - blocks.points[block]) * blocks.scales[block];
            const auto *data = reinterpret_cast<const std::byte *>(&weight);
            if (type == VKATTN_TYPE_F16)
                put(bytes, weight);
            else
                bytes.insert(bytes.end(), data, data + sizeof(weight));
        }
    return bytes;
}

constexpr float kSmallestNormal = 6.104e-5f; // of float16: below it fewer bits are left

// Blocks of ggml's with scales of f16 where the layout has an equal there; else plain numbers, in f32 where f16
// would not hold them.
vkattn_type type_for(const Blocks &blocks) {
    const auto by_magnitude = [](float one, float other) { return std::abs(one) < std::abs(other); };
    float smallest = std::numeric_limits<float>::infinity(); // but 0, which float16 has
    for (const float scale : blocks.scales)
        if (scale != 0.0f) smallest = std::min(smallest, std::abs(scale));
    const float largest = std::abs(*std::ranges::max_element(blocks.scales, by_magnitude));
    const float furthest = std::abs(*std::ranges::max_element(blocks.points, by_magnitude));
    if (!(smallest >= kSmallestNormal && largest < 2000.0f && furthest <= 16.0f)) return VKATTN_TYPE_F32;
    if (blocks.block_size % kBlock != 0 || blocks.inputs % kBlock != 0) return VKATTN_TYPE_F16;
    const bool centred = std::ranges::all_of(blocks.points, [](float point) { return point == kMiddle; });
    return centred ? VKATTN_TYPE_Q4_0 : VKATTN_TYPE_Q4_1;
}

class Product : public Operator {
  public:
    Product(const Node &node, Device &device) {
        const Blocks blocks = blocks_of(node);
        const vkattn_type type = type_for(blocks);
        const bool plain = type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_F32;
        const std::vector<std::byte> bytes =
            plain ? plain_numbers(blocks, type) : ggml_blocks(blocks, type == VKATTN_TYPE_Q4_1);
        inputs_ = blocks.inputs;
        weight_.layout = vkattn::tensor(type, {blocks.outputs, blocks.inputs});
        memory_ = std::make_unique<Scratch>(device.memory(), vkattn_tensor_bytes(&weight_.layout));
        device.memory().write(memory_->address(), bytes.data(), bytes.size());
        weight_.region = memory_->region();
    }

    void compute(Call &call) const override {
        const Tensor x = call.input(0), bias = call.input(5);
        if (x.shape.empty() || x.shape.back() != static_cast<std::int64_t>(inputs_))
            throw Failure(ORT_INVALID_ARGUMENT, "A has " + std::to_string(x.shape.empty() ? 0 : x.shape.back()) +
                                                    " columns, expected K = " + std::to_string(inputs_));
        std::vector<std::int64_t> shape = x.shape;
        shape.back() = static_cast<std::int64_t>(weight_.layout.shape[0]);
        const Tensor y = call.output(0, shape);
        if (y.elements() == 0) return;
        const std::uint64_t rows = static_cast<std::uint64_t>(x.elements()) / inputs_;
        View input = call.view(x), output = call.view(y);
        vkattn_linear_desc desc{};
        desc.input = vkattn::tensor(input.layout.type, {1, rows, inputs_});
        desc.weight = weight_.layout;
        desc.output = vkattn::tensor(output.layout.type, {1, rows, weight_.layout.shape[0]});
        View added;
        if (bias) added = call.view(bias);
        desc.bias = added.layout;
        call.submit(call.context().linear_plan(desc), {{VKATTN_ROLE_INPUT, input},
                                                       {VKATTN_ROLE_WEIGHT, weight_},
                                                       {VKATTN_ROLE_BIAS, added},
                                                       {VKATTN_ROLE_OUTPUT, output}});
    }

  private:
    std::uint64_t inputs_ = 0;
    View weight_;
    std::unique_ptr<Scratch> memory_;
};

std::string sizes_obstacle(const Node &node) {
    const auto elements = [&](std::size_t input) { // of a constant, whose shape is known but of a scalar
        return static_cast<std::uint64_t>(elements_of(node.input(input).shape.value_or(std::vector<std::int64_t>{})));
    };
    const Blocks sizes = sizes_of(node);
    const std::uint64_t outputs = sizes.outputs, row = sizes.blocks();
    const Declared &points = node.input(3);
    const bool are_packed = points.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    if (elements(1) == outputs * row * sizes.block_size / 2 && elements(2) == outputs * row &&
        (!points.present || elements(3) == outputs * (are_packed ? (row + 1) / 2 : row)))
        return "";
    return "B, scales or zero_points have other sizes than N, K and block_size say";
}

} // namespace

std::string product_obstacle(const Node &node) {
    if (std::string obstacle = float_obstacle("A", node.input(0)); !obstacle.empty()) return obstacle;
    if (std::string obstacle = float_obstacle("scales", node.input(2)); !obstacle.empty()) return obstacle;
    if (const Declared &points = node.input(3); points.present && points.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8)
        if (std::string obstacle = float_obstacle("zero_points", points); !obstacle.empty())
            return obstacle + " or packed in uint8";
    if (const std::int64_t bits = node.integer("bits", 4); bits != 4)
        return "weights of " + std::to_string(bits) + " bits, expected 4";
    if (node.integer("weight_prepacked", 0) != 0)
        return "weights packed for another device, expected weight_prepacked 0";
    if (node.input(4).present) return "g_idx is given, expected weights in their order";
    for (const char *size : {"N", "K", "block_size"})
        if (node.integer(size, 0) > INT32_MAX)
            return std::string(size) + " is larger than any weight's, expected at most 2147483647";
    if (node.integer("N", 0) <= 0 || node.integer("K", 0) <= 0) return "N or K is missing, expected both above 0";
    if (const std::int64_t size = node.integer("block_size", 32); size < 16 || (size & (size - 1)) != 0)
        return "block_size is " + std::to_string(size) + ", expected a power of two from 16 on";
    for (const std::size_t each : {std::size_t{1}, std::size_t{2}, std::size_t{3}})
        if (node.input(each).present && !node.input(each).constant)
            return node.input(each).name + " is no constant of the model, expected constant weights";
    return sizes_obstacle(node);
}

std::unique_ptr<Operator> make_product(const Node &node, Device &device) {
    return std::make_unique<Product>(node, device);
}

} // namespace vkattn_ort
