#include "accesses.hpp"

#include "buffer.hpp"
#include "operands.hpp"

#include <algorithm>

namespace execute {
namespace {

constexpr size_t kBanks = 32;
constexpr int kMostLanesOfPass = 32;
constexpr size_t kMostWords = 64; // of a pass: 16 lanes of 8 bytes, 8 of 16

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

// Of a pass of the address unit or of LDS, by the bytes of a lane.
int lanes_of_pass(uint32_t bytes) { return bytes <= 4 ? kMostLanesOfPass : bytes == 8 ? 16 : 8; }

// A few distinct numbers.
template <class Number, size_t most>
class Distinct {
  public:
    bool add(Number number) {
        if (std::find(numbers_.begin(), numbers_.begin() + count_, number) != numbers_.begin() + count_) return false;
        numbers_[size_t(count_++)] = number;
        return true;
    }
    uint32_t count() const { return uint32_t(count_); }

  private:
    std::array<Number, most> numbers_;
    std::ptrdiff_t count_ = 0;
};

struct LdsPass {
    Distinct<uint32_t, kMostWords> words;
    std::array<uint32_t, kBanks> load{};

    void add(uint32_t word) {
        if (words.add(word)) load[word % kBanks]++;
    }
    uint32_t cycles() const { return *std::max_element(load.begin(), load.end()); }
};

// A pass takes as many cycles as its busiest bank has distinct words to give.
void find_lds_access(const Wave &wave, const Instruction &instruction, Access &result) {
    const std::string &name = instruction.name;
    const bool has_result = has(name, "_load_") || has(name, "_rtn_"), has_two = has(name, "_2addr_");
    const uint32_t bytes = instruction.bytes, scale = has(name, "stride64") ? bytes * 64 : bytes;
    const int lanes = lanes_of_pass(bytes);
    const uint32_t *addresses = wave.vectors[instruction.operands[has_result ? 1 : 0].index];
    for (int half = 0; half < (has_two ? 2 : 1); half++)
        for (int first = 0; first < wave.lanes; first += lanes) {
            LdsPass pass;
            for (int lane = first; lane < first + lanes; lane++) {
                if (!(wave.exec() >> lane & 1)) continue;
                const uint32_t address =
                    addresses[lane] + (has_two ? instruction.offsets[half] * scale : instruction.offset);
                for (uint32_t k = 0; k < (bytes + 3) / 4; k++) pass.add(address / 4 + k);
            }
            if (pass.words.count() == 0) continue;
            result.lds_cycles += pass.cycles();
            result.lds_fewest_cycles++;
        }
}

// The GPU address of a lane's access; false beyond a buffer's end, where nothing is accessed.
bool find_address(const Wave &wave, const Instruction &instruction, int lane, uint64_t &at) {
    const Operand &address = instruction.operands[instruction.memory_address];
    if (instruction.name.compare(0, 7, "buffer_") == 0) {
        const BufferDescriptor buffer(wave, instruction.operands[instruction.memory_base].index);
        uint32_t index = 0;
        uint64_t offset = instruction.offset;
        int next = address.index;
        if (instruction.has_index_register) index = wave.vectors[next++][lane];
        if (instruction.has_offset_register) offset += wave.vectors[next][lane];
        at = buffer.base + read_scalar(wave, instruction.operands[size_t(instruction.memory_base) + 1]) +
             buffer.place(wave.generation, index, offset, lane);
        return buffer.contains(wave.generation, index, offset, std::min<uint32_t>(instruction.bytes, 4));
    }
    const bool has_base = instruction.memory_base != Instruction::kNoOperand &&
                          instruction.operands[instruction.memory_base].is_register();
    at = uint64_t(int64_t(as_signed(instruction.offset)));
    if (has_base)
        at += read_scalar_pair(wave, instruction.operands[instruction.memory_base]) +
              (address.source == Source::vector ? wave.vectors[address.index][lane] : 0);
    else
        at += uint64_t(wave.vectors[address.index + 1][lane]) << 32 | wave.vectors[address.index][lane];
    return true;
}

void add_lines(uint64_t address, uint32_t bytes, std::vector<uint64_t> &lines) {
    for (uint64_t line = address / kLineBytes; line <= (address + bytes - 1) / kLineBytes; line++)
        if (std::find(lines.rbegin(), lines.rend(), line) == lines.rend()) lines.push_back(line);
}

// The address unit takes 128 bytes a pass, GCN's 64, and a cycle for each line that the pass touches.
void find_memory_access(const Wave &wave, const Instruction &instruction, Access &result) {
    const bool is_gcn = wave.generation < kRdna1;
    const uint64_t unit_bytes = is_gcn ? kLineBytes / 2 : kLineBytes;
    const int lanes = lanes_of_pass(instruction.bytes) / (is_gcn ? 2 : 1);
    for (int first = 0; first < wave.lanes; first += lanes) {
        Distinct<uint64_t, kMostWords> lines;
        for (int lane = first; lane < first + lanes; lane++) {
            uint64_t address;
            if (!(wave.exec() >> lane & 1) || !find_address(wave, instruction, lane, address)) continue;
            result.bytes += instruction.bytes;
            add_lines(address, instruction.bytes, result.lines);
            lines.add(address / unit_bytes);
            lines.add((address + instruction.bytes - 1) / unit_bytes);
        }
        result.address_lines += lines.count();
    }
}

void find_scalar_access(const Wave &wave, const Instruction &instruction, Access &result) {
    if (instruction.operand_count < 2) return; // a clock
    const bool is_buffer = instruction.name.compare(0, 9, "s_buffer_") == 0;
    const uint64_t base = is_buffer ? BufferDescriptor(wave, instruction.operands[1].index).base
                                    : read_scalar_pair(wave, instruction.operands[1]) & ~3ull;
    result.bytes = instruction.bytes;
    add_lines(base + uint64_t(scalar_load_offset(wave, instruction)), instruction.bytes, result.lines);
}

// Scratch lies as words of neighbouring lanes beside each other.
void find_scratch_access(const Wave &wave, const Instruction &instruction, Access &result) {
    result.bytes = uint64_t(__builtin_popcountll(wave.exec())) * instruction.bytes;
    result.address_lines = uint32_t(wave.lanes / kMostLanesOfPass) * ((instruction.bytes + 3) / 4);
}

} // namespace

void find_access(const Wave &wave, const Instruction &instruction, Access &result) {
    result.lds_cycles = result.lds_fewest_cycles = result.address_lines = 0;
    result.bytes = 0;
    result.lines.clear();
    switch (instruction.kind) {
    case Kind::shared:
        return find_lds_access(wave, instruction, result);
    case Kind::lanes:
        result.lds_cycles = result.lds_fewest_cycles = uint32_t(wave.lanes / kMostLanesOfPass);
        return;
    case Kind::load:
    case Kind::store:
    case Kind::atomic:
        return find_memory_access(wave, instruction, result);
    case Kind::scratch:
        return find_scratch_access(wave, instruction, result);
    case Kind::scalar_load:
        return find_scalar_access(wave, instruction, result);
    default:
        return;
    }
}

} // namespace execute
