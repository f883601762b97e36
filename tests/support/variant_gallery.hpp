// The gallery of docs/variants.md, and what its entries compute. Of builds that have vkattn_jit.
#pragma once

#include "variants.hpp"

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace vkattn_test {

// Sizes of the gallery's problems.
constexpr int kPast = 60, kQueries = 33, kKeys = 96, kBatch = 2, kHeads = 4;

// The text of a heading of the gallery.
std::string gallery_text(const std::string &name);

AttentionProblem plain_problem(std::mt19937 &random, vkattn_type type = VKATTN_TYPE_F32);

// What an entry of the gallery computes.
struct Entry {
    const char *name;
    std::function<HostTensor(std::mt19937 &)> captured{};
    std::function<double(const HostTensor &, double, int, int, int, int)> score{};
    std::function<bool(const HostTensor &, int, int, int, int)> mask{};
    std::function<double(const HostTensor &, double, int, int, int)> lse{};
    std::function<double(const HostTensor &, double, int, int, int, int)> output{};
};

const std::vector<Entry> &gallery();

const Entry &entry_of(const std::string &name);

// Sets the functions of an entry, and what they capture.
void add_entry(AttentionProblem &problem, const Entry &entry, std::mt19937 &random);

double number(const HostTensor &tensor, int element);

// Numbers from 0 to `most`.
HostTensor integers(Shape shape, std::mt19937 &random, int most);

} // namespace vkattn_test
