// A case as the library sees it: a description, the bytes to upload and the tensors to fetch. Knows no device.
#pragma once

#include "tools/cases/case_file.hpp"

#include <vkattn/vkattn.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace vkattn::tools {

// bytes belong to the case or to Problem::converted; for a quantised layout they are f32 values, which are quantised on the
// device. rotated: they are rotated before that, as VKATTN_ROTATION_HADAMARD says.
struct ProblemInput {
    vkattn_role role;
    vkattn_tensor layout;
    std::span<const std::byte> bytes;
    bool rotated = false;
};

// One output: where the library writes it, and what it is in a file. The bytes of both are the same.
struct ProblemOutput {
    std::string name;
    vkattn_role role;
    vkattn_tensor layout;
    Dtype dtype;
    std::vector<std::uint64_t> shape;
};

struct LayerProblem {
    vkattn_layer_config config{};
    std::vector<vkattn_weight> weights; // names and data belong to the case
    vkattn_layer_call call{};
};

// The description that is pointed to, and the pointer set where it is planned.
struct BackwardProblem {
    vkattn_attention_desc attention{};
    vkattn_attention_backward_desc gradients{};
};

using Description = std::variant<vkattn_attention_desc, BackwardProblem, LayerProblem, vkattn_index_desc,
                                 vkattn_linear_desc, vkattn_linear_attention_desc, vkattn_causal_conv1d_desc>;

// Must not outlive the case that it was made of.
struct Problem {
    Description description;
    std::vector<ProblemInput> inputs;
    std::vector<ProblemOutput> outputs;
    std::vector<std::unique_ptr<HostTensor>> converted;
    std::string functions; // of a variant of attention; "": none
};

// Makes the problem that gives the named outputs ("output" is always among them). Throws InputError.
Problem make_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel);

// The type that the library knows for a dtype; VKATTN_TYPE_NONE for those it does not.
vkattn_type type_of(Dtype dtype);

// Builds a Problem part by part; what the two sides below have in common.
class ProblemBuilder {
  public:
    ProblemBuilder(const CaseFile &input, std::span<const std::string> wanted) : input_(input), wanted_(wanted) {}

    const CaseFile &input() const { return input_; }
    bool wants(const std::string &output) const;

    // Fails on the first tensor of the case that is not in the list.
    void check_inputs(std::span<const std::string_view> known) const;

    // Fails on the first wanted output that is not in the list.
    void check_wanted(std::span<const std::string_view> given) const;

    // Fails unless the tensor is there, is F32, F16 or BF16, and has one of two ranks.
    const HostTensor &required_float(const std::string &name, std::size_t rank, std::size_t other_rank) const;
    void check_float(const std::string &name, const HostTensor &tensor, std::size_t rank, std::size_t other_rank) const;

    // The layout of a contiguous tensor. Fails unless it has 1 to 4 dimensions.
    vkattn_tensor contiguous(const std::string &name, vkattn_type type, std::span<const std::uint64_t> shape) const;

    // Keeps a tensor for as long as the problem lives.
    const HostTensor &keep(HostTensor tensor);

    // Adds an input and returns its layout.
    vkattn_tensor add(vkattn_role role, const vkattn_tensor &layout, const HostTensor &tensor);

    // Adds the tensors of these names if the case has them; an absent layout otherwise.
    vkattn_tensor add_attn_mask();
    vkattn_tensor add_key_padding_mask();
    vkattn_tensor add_block_mask(); // fails if the configuration has its sizes and the case no such tensor
    vkattn_tensor add_integers(vkattn_role role, const std::string &name); // I32 or I64, held to 32 bits
    vkattn_tensor add_f32_vector(vkattn_role role, const std::string &name);

    // Add to a description of attention what the case has of these; K and V are added before.
    void add_rotation(vkattn_attention_desc &desc);
    void add_key_list(vkattn_attention_desc &desc);
    void add_functions(vkattn_attention_desc &desc); // and the tensors that they capture

    // Adds a contiguous output and returns its layout.
    vkattn_tensor add_output(const std::string &name, vkattn_role role, Dtype dtype, std::vector<std::uint64_t> shape);
    void add_output(ProblemOutput output) { problem_.outputs.push_back(std::move(output)); }

    Problem finish(Description description);

    [[noreturn]] void fail(const std::string &what_and_expected) const;

  private:
    const CaseFile &input_;
    std::span<const std::string> wanted_;
    Problem problem_;
};

Problem make_attention_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel);
Problem make_attention_backward_problem(const CaseFile &input, std::span<const std::string> wanted,
                                        vkattn_kernel kernel);
Problem make_linear_problem(const CaseFile &input, std::span<const std::string> wanted);
Problem make_linear_attention_problem(const CaseFile &input, std::span<const std::string> wanted);
Problem make_causal_conv1d_problem(const CaseFile &input, std::span<const std::string> wanted);
Problem make_index_problem(const CaseFile &input, std::span<const std::string> wanted);
Problem make_layer_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel);

} // namespace vkattn::tools
