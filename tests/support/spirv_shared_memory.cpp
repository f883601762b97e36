#include "spirv_shared_memory.hpp"

#include <map>
#include <stdexcept>
#include <string>

namespace vkattn_test {
namespace {

// The SPIR-V specification's numbers.
enum Instruction : std::uint32_t {
    kTypeBool = 20,
    kTypeInt = 21,
    kTypeFloat = 22,
    kTypeVector = 23,
    kTypeArray = 28,
    kTypePointer = 32,
    kConstantTrue = 41,
    kConstantFalse = 42,
    kConstant = 43,
    kSpecConstantTrue = 48,
    kSpecConstantFalse = 49,
    kSpecConstant = 50,
    kSpecConstantOp = 52,
    kVariable = 59,
    kDecorate = 71
};
constexpr std::uint32_t kSpecId = 1, kWorkgroup = 4, kHeaderWords = 5;

std::uint32_t binary(std::uint32_t operation, std::uint32_t a, std::uint32_t b) {
    const auto signed_a = static_cast<std::int32_t>(a), signed_b = static_cast<std::int32_t>(b);
    switch (operation) {
    case 128: // OpIAdd, and so on
        return a + b;
    case 130:
        return a - b;
    case 132:
        return a * b;
    case 134:
        return b == 0 ? 0 : a / b;
    case 137:
        return b == 0 ? 0 : a % b;
    case 164:
    case 170:
        return a == b;
    case 165:
    case 171:
        return a != b;
    case 166:
        return (a != 0) || (b != 0);
    case 167:
        return (a != 0) && (b != 0);
    case 172:
        return a > b;
    case 173:
        return signed_a > signed_b;
    case 174:
        return a >= b;
    case 175:
        return signed_a >= signed_b;
    case 176:
        return a < b;
    case 177:
        return signed_a < signed_b;
    case 178:
        return a <= b;
    case 179:
        return signed_a <= signed_b;
    case 194:
        return a >> (b & 31U);
    case 196:
        return a << (b & 31U);
    case 197:
        return a | b;
    case 198:
        return a ^ b;
    case 199:
        return a & b;
    default:
        throw std::runtime_error("SPIR-V: specialisation by operation " + std::to_string(operation) +
                                 ", expected one of uint, int and bool");
    }
}

class Reader {
  public:
    explicit Reader(std::span<const std::uint32_t> constants) : constants_(constants) {}

    void read(std::span<const std::uint32_t> words) {
        switch (words[0] & 0xffffU) {
        case kDecorate:
            if (words[2] == kSpecId) spec_ids_[words[1]] = words[3];
            break;
        case kTypeBool:
            bytes_[words[1]] = 4;
            break;
        case kTypeInt:
        case kTypeFloat:
            bytes_[words[1]] = words[2] / 8;
            break;
        case kTypeVector:
            bytes_[words[1]] = bytes_[words[2]] * words[3];
            break;
        case kTypeArray:
            bytes_[words[1]] = bytes_[words[2]] * value(words[3]);
            break;
        case kTypePointer:
            pointees_[words[1]] = words[3];
            break;
        case kVariable:
            if (words[3] == kWorkgroup) add_variable(pointees_[words[1]]);
            break;
        default:
            read_constant(words);
        }
    }

    std::uint64_t shared_bytes() const { return shared_bytes_; }

  private:
    void read_constant(std::span<const std::uint32_t> words) {
        switch (words[0] & 0xffffU) {
        case kConstantTrue:
        case kSpecConstantTrue:
            values_[words[2]] = specialised(words[2], 1);
            break;
        case kConstantFalse:
        case kSpecConstantFalse:
            values_[words[2]] = specialised(words[2], 0);
            break;
        case kConstant:
        case kSpecConstant:
            values_[words[2]] = specialised(words[2], words[3]);
            break;
        case kSpecConstantOp:
            operations_[words[2]] = {words.begin() + 3, words.end()};
            break;
        default:
            break;
        }
    }

    std::uint32_t specialised(std::uint32_t id, std::uint32_t otherwise) const {
        const auto found = spec_ids_.find(id);
        return found != spec_ids_.end() && found->second < constants_.size() ? constants_[found->second] : otherwise;
    }

    // Only of what sizes arrays: others work on types that this does not know.
    std::uint32_t value(std::uint32_t id) const {
        const auto found = operations_.find(id);
        if (found == operations_.end()) return values_.at(id);
        constexpr std::uint32_t kNot = 168, kSelect = 169;
        const auto &words = found->second;
        if (words[0] == kNot) return value(words[1]) == 0;
        if (words[0] == kSelect) return value(words[1]) != 0 ? value(words[2]) : value(words[3]);
        return binary(words[0], value(words[1]), value(words[2]));
    }

    void add_variable(std::uint32_t type) {
        const std::uint64_t bytes = bytes_[type];
        if (bytes == 0) throw std::runtime_error("SPIR-V: shared memory of a type without a size, expected numbers");
        shared_bytes_ += bytes;
    }

    std::span<const std::uint32_t> constants_;
    std::map<std::uint32_t, std::uint32_t> spec_ids_, values_, pointees_;
    std::map<std::uint32_t, std::span<const std::uint32_t>> operations_;
    std::map<std::uint32_t, std::uint64_t> bytes_; // of types
    std::uint64_t shared_bytes_ = 0;
};

} // namespace

std::uint64_t shared_memory_bytes(std::span<const std::uint32_t> spirv, std::span<const std::uint32_t> constants) {
    Reader reader(constants);
    std::span<const std::uint32_t> rest = spirv.subspan(kHeaderWords);
    while (!rest.empty()) {
        const std::size_t length = rest[0] >> 16U;
        if (length == 0 || length > rest.size()) throw std::runtime_error("SPIR-V: an instruction without an end");
        reader.read(rest.first(length));
        rest = rest.subspan(length);
    }
    return reader.shared_bytes();
}

} // namespace vkattn_test
