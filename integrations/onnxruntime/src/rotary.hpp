// Rotary embeddings by tables of cosines and sines (Su et al., "RoFormer", 2021).
#pragma once

#include "heads.hpp"

namespace vkattn_ort {

// Tables of a model, on the device. vkattn's rotary embedding computes its angles, and takes none: y = x * cos + (x turned) * sin is made
// of two lookups of rows and of two products, by the identity and by the matrix that swaps pairs and negates one of each.
class Rotation {
  public:
    // cos, sin: [positions, half of what is rotated]; head_dim: the size of a head, of which the first elements are rotated
    Rotation(Device &device, const HostTensor &cos, const HostTensor &sin, std::uint64_t head_dim, bool interleaved);

    // Returns the same for all nodes with the same tables.
    static std::shared_ptr<const Rotation> shared(Device &device, const HostTensor &cos, const HostTensor &sin,
                                                  std::uint64_t head_dim, bool interleaved);

    // Rotates x, [B,H,L,D], into y by the positions [B * L].
    void apply(Call &call, const View &x, const View &y, std::span<const std::int64_t> positions) const;

  private:
    struct Rows {
        View cos, sin;
    };
    Rows look_up(Call &call, std::span<const std::int64_t> positions) const;
    void rotate(Call &call, const vkattn_tensor &x, const vkattn_tensor &y, const View &source, const View &target,
                const Rows &rows) const;

    std::uint64_t positions_, head_dim_;
    View cos_, sin_, identity_, turn_;
    std::vector<std::shared_ptr<Scratch>> memory_;
};

// Returns first + token, negative where an int64 does not hold it.
inline std::int64_t position_after(std::int64_t first, std::int64_t token) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(token));
}

// Returns x + bias of heads, [B,H,L,D] contiguous in a temporary. bias: [H,D], from an element on. A product by the identity, too.
View with_bias(Call &call, const View &x, const View &bias, std::uint64_t first);

} // namespace vkattn_ort
