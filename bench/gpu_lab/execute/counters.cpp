#include "counters.hpp"

#include "buffer.hpp"
#include "findings.hpp"
#include "operands.hpp"
#include "settings.hpp"

#include <algorithm>
#include <cinttypes>

namespace execute {
namespace {

constexpr uint64_t kLineBytes = 128;
constexpr size_t kBanks = 32;

// The GPU address of a lane's access; of scratch there is none.
uint64_t address_of(const Wave &wave, const Instruction &instruction, int lane) {
    const Operand &address = instruction.operands[instruction.memory_address];
    if (instruction.name.compare(0, 7, "buffer_") == 0) {
        const BufferDescriptor buffer(wave, instruction.operands[instruction.memory_base].index);
        uint64_t at = buffer.base + instruction.offset +
                      read_scalar(wave, instruction.operands[size_t(instruction.memory_base) + 1]);
        int next = address.index;
        if (instruction.has_index_register) at += uint64_t(wave.vectors[next++][lane]) * buffer.stride;
        if (instruction.has_offset_register) at += wave.vectors[next][lane];
        return at;
    }
    const bool has_base = instruction.memory_base != Instruction::kNoOperand &&
                          instruction.operands[instruction.memory_base].is_register();
    uint64_t at = uint64_t(int64_t(as_signed(instruction.offset)));
    if (!has_base)
        return at + (uint64_t(wave.vectors[address.index + 1][lane]) << 32 | wave.vectors[address.index][lane]);
    at += read_scalar_pair(wave, instruction.operands[instruction.memory_base]);
    return at + (address.source == Source::vector ? wave.vectors[address.index][lane] : 0);
}

// Lanes that shared memory serves in one pass.
int lanes_of_pass(uint32_t bytes) { return bytes <= 4 ? 32 : bytes == 8 ? 16 : 8; }

// Cycles of one pass: the most distinct words that one bank has to give.
uint32_t cycles_of_pass(const std::vector<uint32_t> &words) {
    std::array<uint32_t, kBanks> load{};
    for (size_t k = 0; k < words.size(); k++)
        if (std::find(words.begin(), words.begin() + std::ptrdiff_t(k), words[k]) == words.begin() + std::ptrdiff_t(k))
            load[words[k] % kBanks]++;
    return *std::max_element(load.begin(), load.end());
}

bool is_vector_arithmetic(Kind kind) { return kind <= Kind::slow; }

} // namespace

Counters &counters() {
    static Counters result;
    return result;
}

Counters::Counters() {
    if (settings().counters.empty()) return;
    file_ = fopen(settings().counters.c_str(), "w");
    if (!file_) stop("the file of counters '" + settings().counters + "' cannot be written");
}

void Counters::begin_dispatch(const Dispatch &dispatch) {
    number_++;
    if (settings().log)
        fprintf(stderr, "execute: dispatch %" PRIu64 " of program %" PRIx64 ": %u %u %u workgroups of %u %u %u\n",
                number_, dispatch.code, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2],
                dispatch.group_size[0], dispatch.group_size[1], dispatch.group_size[2]);
    if (!file_) return;
    dispatch_ = dispatch;
    instructions_ = {};
    active_lanes_ = lane_slots_ = shared_cycles_ = shared_fewest_cycles_ = requested_lines_ = lane_bytes_ =
        longest_wave_ = barriers_ = 0;
    lines_.clear();
}

void Counters::count(const Wave &wave, const Instruction &instruction) {
    const Kind kind = instruction.kind;
    instructions_[size_t(kind)]++;
    if (is_vector_arithmetic(kind)) {
        active_lanes_ += uint64_t(__builtin_popcountll(wave.exec()));
        lane_slots_ += uint64_t(wave.lanes);
    }
    if (kind == Kind::shared) count_shared(wave, instruction);
    if (kind == Kind::load || kind == Kind::store || kind == Kind::atomic) count_memory(wave, instruction);
}

void Counters::count_shared(const Wave &wave, const Instruction &instruction) {
    const std::string &name = instruction.name;
    const bool has_result = name.find("_load_") != std::string::npos || name.find("_rtn_") != std::string::npos;
    const bool has_two = name.find("_2addr_") != std::string::npos;
    const uint32_t bytes = instruction.bytes, scale = name.find("stride64") != std::string::npos ? bytes * 64 : bytes;
    const int lanes = lanes_of_pass(bytes);
    const uint32_t *addresses = wave.vectors[instruction.operands[has_result ? 1 : 0].index];
    for (int half = 0; half < (has_two ? 2 : 1); half++)
        for (int first = 0; first < wave.lanes; first += lanes) {
            std::vector<uint32_t> words;
            for (int lane = first; lane < first + lanes; lane++) {
                if (!(wave.exec() >> lane & 1)) continue;
                const uint32_t address =
                    addresses[lane] + (has_two ? instruction.offsets[half] * scale : instruction.offset);
                for (uint32_t k = 0; k < (bytes + 3) / 4; k++) words.push_back(address / 4 + k);
            }
            if (words.empty()) continue;
            shared_cycles_ += cycles_of_pass(words);
            shared_fewest_cycles_++;
        }
}

void Counters::count_memory(const Wave &wave, const Instruction &instruction) {
    std::vector<uint64_t> lines;
    for_each_lane(wave, [&](int lane) {
        const uint64_t address = address_of(wave, instruction, lane);
        lane_bytes_ += instruction.bytes;
        for (uint64_t line = address / kLineBytes; line <= (address + instruction.bytes - 1) / kLineBytes; line++)
            if (std::find(lines.rbegin(), lines.rend(), line) == lines.rend()) lines.push_back(line);
    });
    requested_lines_ += lines.size();
    lines_.insert(lines.begin(), lines.end());
}

void Counters::pass_barrier(const Workgroup &) { barriers_++; }

void Counters::end_workgroup(const Workgroup &group) {
    for (const Wave *wave : group.waves) longest_wave_ = std::max(longest_wave_, wave->executed);
}

void Counters::end_dispatch() {
    if (!file_) return;
    const auto &groups = dispatch_.groups, &size = dispatch_.group_size;
    uint64_t total = 0;
    fprintf(file_,
            "{\"dispatch\": %" PRIu64 ", \"program\": \"%" PRIx64
            "\", \"workgroups\": [%u, %u, %u], \"workgroup_size\": [%u, %u, %u], ",
            number_, dispatch_.code, groups[0], groups[1], groups[2], size[0], size[1], size[2]);
    fprintf(file_, "\"lanes\": %d, \"lds_bytes\": %u, \"vector_registers\": %u, \"instructions\": {", dispatch_.lanes,
            dispatch_.lds_bytes(), dispatch_.vector_registers());
    for (size_t k = 0; k < instructions_.size(); k++) {
        fprintf(file_, "\"%s\": %" PRIu64 ", ", kind_name(Kind(k)), instructions_[k]);
        total += instructions_[k];
    }
    fprintf(file_, "\"total\": %" PRIu64 "}, \"longest_wave\": %" PRIu64 ", \"barriers\": %" PRIu64 ", ", total,
            longest_wave_, barriers_);
    fprintf(file_, "\"active_lanes\": %.3f, \"lds_cycles\": %" PRIu64 ", \"lds_fewest_cycles\": %" PRIu64 ", ",
            double(active_lanes_) / double(std::max<uint64_t>(lane_slots_, 1)), shared_cycles_, shared_fewest_cycles_);
    fprintf(file_, "\"requested_lines\": %" PRIu64 ", \"distinct_lines\": %zu, \"lane_bytes\": %" PRIu64 "}\n",
            requested_lines_, lines_.size(), lane_bytes_);
    fflush(file_);
}

} // namespace execute
