#include "rotary.hpp"

#include "operators.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn_ort {
namespace {

using Halves = std::vector<Ort::Float16_t>;

Halves identity_matrix(std::uint64_t size) {
    Halves matrix(size * size, Ort::Float16_t(0.0f));
    for (std::uint64_t each = 0; each < size; ++each) matrix[each * size + each] = Ort::Float16_t(1.0f);
    return matrix;
}

// The pair of elements that table column `pair` turns.
std::pair<std::uint64_t, std::uint64_t> pair_of(std::uint64_t pair, std::uint64_t pairs, bool interleaved) {
    return interleaved ? std::pair(2 * pair, 2 * pair + 1) : std::pair(pair, pair + pairs);
}

Halves turning_matrix(std::uint64_t size, std::uint64_t pairs, bool interleaved) {
    Halves matrix(size * size, Ort::Float16_t(0.0f));
    for (std::uint64_t pair = 0; pair < pairs; ++pair) {
        const auto [first, second] = pair_of(pair, pairs, interleaved);
        matrix[first * size + second] = Ort::Float16_t(-1.0f);
        matrix[second * size + first] = Ort::Float16_t(1.0f);
    }
    return matrix;
}

// Returns [positions, size] of a table [positions, pairs]: each element's factor, `beyond` of those that are not rotated.
std::vector<std::byte> widened(const HostTensor &table, std::uint64_t size, bool interleaved, float beyond) {
    const std::size_t bytes = element_bytes(table.type);
    const auto positions = static_cast<std::uint64_t>(table.shape[0]),
               pairs = static_cast<std::uint64_t>(table.shape[1]);
    std::byte other[4]{};
    const Ort::Float16_t half(beyond);
    const Ort::BFloat16_t brain(beyond);
    if (table.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) std::memcpy(other, &beyond, 4);
    if (table.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16) std::memcpy(other, &half, 2);
    if (table.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) std::memcpy(other, &brain, 2);
    std::vector<std::byte> rows(positions * size * bytes);
    for (std::uint64_t position = 0; position < positions; ++position) {
        std::byte *row = rows.data() + position * size * bytes;
        for (std::uint64_t each = 2 * pairs; each < size; ++each) std::memcpy(row + each * bytes, other, bytes);
        for (std::uint64_t pair = 0; pair < pairs; ++pair) {
            const std::byte *value = table.bytes.data() + (position * pairs + pair) * bytes;
            const auto [first, second] = pair_of(pair, pairs, interleaved);
            std::memcpy(row + first * bytes, value, bytes);
            std::memcpy(row + second * bytes, value, bytes);
        }
    }
    return rows;
}

// Returns [T,H,D] of the tokens of [B,H,L,D], from sequence `batch` on; all of them where they lie behind each other.
vkattn_tensor tokens_of(const vkattn_tensor &heads, std::uint64_t batch, bool all) {
    const std::uint64_t tokens = heads.shape[2] * (all ? heads.shape[0] : 1);
    return vkattn::tensor(heads.type, {tokens, heads.shape[1], heads.shape[3]}, {heads.strides[2], heads.strides[1], 1},
                          heads.offset + batch * heads.strides[0]);
}

bool tokens_in_a_row(const vkattn_tensor &heads) {
    return heads.shape[0] == 1 || heads.strides[0] == heads.shape[2] * heads.strides[2];
}

} // namespace

Rotation::Rotation(Device &device, const HostTensor &cos, const HostTensor &sin, std::uint64_t head_dim,
                   bool interleaved)
    : positions_(static_cast<std::uint64_t>(cos.shape.at(0))), head_dim_(head_dim) {
    const auto pairs = static_cast<std::uint64_t>(cos.shape.at(1));
    const auto placed = [&](vkattn_type type, std::uint64_t rows, const void *data, std::size_t bytes) {
        memory_.push_back(std::make_shared<Scratch>(device.memory(), bytes));
        device.memory().write(memory_.back()->address(), data, bytes);
        return View{vkattn::tensor(type, {rows, head_dim}), memory_.back()->region()};
    };
    const auto table = [&](const HostTensor &of, float beyond) {
        const auto rows = widened(of, head_dim, interleaved, beyond);
        return placed(stored_type(of.type), positions_, rows.data(), rows.size());
    };
    const auto matrix = [&](const Halves &of) {
        return placed(VKATTN_TYPE_F16, head_dim, of.data(), of.size() * sizeof(Ort::Float16_t));
    };
    cos_ = table(cos, 1.0f);
    sin_ = table(sin, 0.0f);
    identity_ = matrix(identity_matrix(head_dim));
    turn_ = matrix(turning_matrix(head_dim, pairs, interleaved));
}

std::shared_ptr<const Rotation> Rotation::shared(Device &device, const HostTensor &cos, const HostTensor &sin,
                                                 std::uint64_t head_dim, bool interleaved) {
    if (cos.shape.size() != 2 || cos.shape != sin.shape || cos.type != sin.type)
        throw Failure(ORT_INVALID_ARGUMENT,
                      "cos_cache and sin_cache differ, expected two tables of one shape and type");
    if (2 * static_cast<std::uint64_t>(cos.shape[1]) > head_dim)
        throw Failure(ORT_INVALID_ARGUMENT, "cos_cache has " + std::to_string(cos.shape[1]) +
                                                " columns, expected at most half of the head size " +
                                                std::to_string(head_dim));
    std::vector<std::byte> key = cos.bytes;
    key.insert(key.end(), sin.bytes.begin(), sin.bytes.end());
    const std::uint64_t numbers[] = {head_dim, interleaved, static_cast<std::uint64_t>(cos.shape[0]),
                                     static_cast<std::uint64_t>(cos.type)};
    const auto tail = std::as_bytes(std::span(numbers));
    key.insert(key.end(), tail.begin(), tail.end());
    return device.shared<Rotation>(
        key, [&] { return std::make_shared<const Rotation>(device, cos, sin, head_dim, interleaved); });
}

Rotation::Rows Rotation::look_up(Call &call, std::span<const std::int64_t> positions) const {
    for (const std::int64_t position : positions)
        if (position < 0 || static_cast<std::uint64_t>(position) >= positions_)
            throw Failure(ORT_INVALID_ARGUMENT, "position " + std::to_string(position) + ", expected 0 to " +
                                                    std::to_string(positions_ - 1) + ", the rows of cos_cache");
    const std::vector<std::int32_t> narrow(positions.begin(), positions.end());
    const View tokens = call.numbers(narrow, {1, positions.size()});
    const auto rows_of = [&](const View &table) {
        const View rows = call.temporary(VKATTN_TYPE_F32, {1, positions.size(), head_dim_});
        vkattn_embedding_desc desc{};
        desc.tokens = tokens.layout;
        desc.weight = table.layout;
        desc.output = rows.layout;
        call.submit(call.context().embedding_plan(desc),
                    {{VKATTN_ROLE_TOKENS, tokens}, {VKATTN_ROLE_WEIGHT, table}, {VKATTN_ROLE_OUTPUT, rows}});
        return rows;
    };
    return {rows_of(cos_), rows_of(sin_)};
}

void Rotation::rotate(Call &call, const vkattn_tensor &x, const vkattn_tensor &y, const View &source,
                      const View &target, const Rows &rows) const {
    View between = call.temporary(VKATTN_TYPE_F32, {x.shape[0], x.shape[1], head_dim_});
    vkattn_linear_desc desc{};
    desc.input = x;
    desc.weight = identity_.layout;
    desc.multiplier = rows.cos.layout;
    desc.output = between.layout;
    call.submit(call.context().linear_plan(desc), {{VKATTN_ROLE_INPUT, source},
                                                   {VKATTN_ROLE_WEIGHT, identity_},
                                                   {VKATTN_ROLE_MULTIPLIER, rows.cos},
                                                   {VKATTN_ROLE_OUTPUT, between}});
    desc.multiplier = rows.sin.layout;
    desc.residual = between.layout;
    desc.output = y;
    call.submit(call.context().linear_plan(desc), {{VKATTN_ROLE_INPUT, source},
                                                   {VKATTN_ROLE_WEIGHT, turn_},
                                                   {VKATTN_ROLE_MULTIPLIER, rows.sin},
                                                   {VKATTN_ROLE_RESIDUAL, between},
                                                   {VKATTN_ROLE_OUTPUT, target}});
}

void Rotation::apply(Call &call, const View &x, const View &y, std::span<const std::int64_t> positions) const {
    const HeadSizes sizes = sizes_of(x);
    if (positions.empty() || sizes.heads == 0) return;
    Rows rows = look_up(call, positions);
    const bool all = tokens_in_a_row(x.layout) && tokens_in_a_row(y.layout);
    for (std::uint64_t batch = 0; batch < (all ? 1 : sizes.batch); ++batch) {
        const vkattn_tensor from = tokens_of(x.layout, batch, all), to = tokens_of(y.layout, batch, all);
        for (View *row : {&rows.cos, &rows.sin})
            row->layout = vkattn::tensor(VKATTN_TYPE_F32, {from.shape[0], sizes.heads, head_dim_}, {head_dim_, 0, 1},
                                         batch * sizes.len * head_dim_);
        rotate(call, from, to, x, y, rows);
    }
}

View with_bias(Call &call, const View &x, const View &bias, std::uint64_t first) {
    const auto [batch, heads, len, dim] = sizes_of(x);
    View sum = heads_in_rows(call.temporary(x.layout.type, {batch, len, heads * dim}), sizes_of(x), heads * dim);
    const Halves matrix = identity_matrix(dim);
    const View identity = call.bytes(
        VKATTN_TYPE_F16, {reinterpret_cast<const std::uint8_t *>(matrix.data()), matrix.size() * 2}, {dim, dim});
    const bool all = tokens_in_a_row(x.layout);
    for (std::uint64_t sequence = 0; sequence < (all ? 1 : batch); ++sequence) {
        vkattn_linear_desc desc{};
        desc.input = tokens_of(x.layout, sequence, all);
        desc.weight = identity.layout;
        desc.output = tokens_of(sum.layout, sequence, all);
        desc.residual = vkattn::tensor(bias.layout.type, {desc.input.shape[0], heads, dim}, {0, dim, 1},
                                       bias.layout.offset + first);
        call.submit(call.context().linear_plan(desc), {{VKATTN_ROLE_INPUT, x},
                                                       {VKATTN_ROLE_WEIGHT, identity},
                                                       {VKATTN_ROLE_RESIDUAL, bias},
                                                       {VKATTN_ROLE_OUTPUT, sum}});
    }
    return sum;
}

namespace {

// Returns the size of a head as far as it is known before a call; 0: it is not.
std::uint64_t head_dim_of(const Node &node, std::size_t cos_input) {
    const auto &shape = node.input(0).shape;
    const std::int64_t heads = node.integer("num_heads", 0);
    if (!shape || (shape->size() != 3 && shape->size() != 4)) return 0;
    if (shape->size() == 4) return static_cast<std::uint64_t>(std::max<std::int64_t>((*shape)[3], 0));
    if (heads > 0) return static_cast<std::uint64_t>(std::max<std::int64_t>((*shape)[2] / heads, 0));
    return static_cast<std::uint64_t>(std::max<std::int64_t>((*node.input(cos_input).shape)[1] * 2, 0));
}

// RotaryEmbedding of either domain, which order their inputs differently.
class Rotary : public Operator {
  public:
    Rotary(const Node &node, Device &device, std::size_t positions_input, std::size_t cos_input)
        : positions_input_(positions_input), head_dim_(head_dim_of(node, cos_input)),
          rotation_(Rotation::shared(device, node.constant(cos_input), node.constant(cos_input + 1), head_dim_,
                                     node.integer("interleaved", 0) != 0)) {}

    void compute(Call &call) const override {
        const Tensor x = call.input(0);
        const HeadSizes sizes = sizes_in(x.shape);
        const Tensor y = call.output(0, x.shape);
        if (x.elements() == 0) return;
        const auto placed = [&](const Tensor &of) {
            return x.shape.size() == 4 ? heads_apart(call.view(of), sizes)
                                       : heads_in_rows(call.view(of), sizes, sizes.heads * sizes.head_dim);
        };
        rotation_->apply(call, placed(x), placed(y), positions_at(call, sizes));
    }

  private:
    HeadSizes sizes_in(const std::vector<std::int64_t> &shape) const {
        const std::vector<std::uint64_t> given(shape.begin(), shape.end());
        if (given.size() == 4 && given[3] == head_dim_) return {given[0], given[1], given[2], given[3]};
        if (given.size() != 3 || given[2] % head_dim_ != 0)
            throw Failure(ORT_INVALID_ARGUMENT, "the input's last dimension is " +
                                                    std::to_string(given.empty() ? 0 : given.back()) +
                                                    ", expected heads of " + std::to_string(head_dim_));
        return {given[0], given[2] / head_dim_, given[1], head_dim_};
    }

    std::vector<std::int64_t> positions_at(Call &call, const HeadSizes &sizes) const {
        const std::vector<std::int64_t> given = call.integers(call.input(positions_input_));
        std::vector<std::int64_t> positions(sizes.batch * sizes.len);
        if (given.size() != positions.size() && given.size() != 1)
            throw Failure(ORT_INVALID_ARGUMENT, "position_ids has " + std::to_string(given.size()) +
                                                    " elements, expected " + std::to_string(positions.size()));
        for (std::size_t each = 0; each < positions.size(); ++each)
            positions[each] = given.size() == positions.size()
                                  ? given[each]
                                  : position_after(given[0], static_cast<std::int64_t>(each % sizes.len));
        return positions;
    }

    std::size_t positions_input_;
    std::uint64_t head_dim_;
    std::shared_ptr<const Rotation> rotation_;
};

std::string tables_obstacle(const Node &node, std::size_t cos_input) {
    if (std::string obstacle = float_obstacle("the input", node.input(0)); !obstacle.empty()) return obstacle;
    for (const std::size_t each : {cos_input, cos_input + 1}) {
        if (!node.input(each).constant)
            return node.input(each).name + " is no constant of the model, expected a constant table";
        if (!node.input(each).shape || node.input(each).shape->size() != 2)
            return node.input(each).name + " has not 2 dimensions, expected a table that position_ids look up";
    }
    if (head_dim_of(node, cos_input) == 0)
        return "the size of a head is not known before a call, expected a static shape";
    return "";
}

} // namespace

std::string rotary_obstacle(const Node &node) {
    if (!node.input(3).present) return "position_ids is absent, expected them";
    return tables_obstacle(node, 1);
}

std::string contrib_rotary_obstacle(const Node &node) {
    if (node.integer("is_packed_batching", 0) != 0) return "is_packed_batching is 1, expected 0";
    if (node.number("scale", 1.0f) != 1.0f) return "scale is given, expected 1";
    return tables_obstacle(node, 2);
}

std::unique_ptr<Operator> make_rotary(const Node &node, Device &device) {
    return std::make_unique<Rotary>(node, device, 3, 1);
}

std::unique_ptr<Operator> make_contrib_rotary(const Node &node, Device &device) {
    return std::make_unique<Rotary>(node, device, 1, 2);
}

} // namespace vkattn_ort
