#include "counters.hpp"

#include "findings.hpp"
#include "settings.hpp"

#include <algorithm>
#include <cinttypes>

namespace execute {
namespace {

bool is_vector_arithmetic(Kind kind) { return kind <= Kind::slow; }
bool is_memory(Kind kind) { return kind == Kind::load || kind == Kind::store || kind == Kind::atomic; }

FILE *open(const std::string &name, const char *what) {
    if (name.empty()) return nullptr;
    FILE *file = fopen(name.c_str(), "w");
    if (!file) stop(std::string("the file of ") + what + " '" + name + "' cannot be written");
    return file;
}

std::string text_of(const Instruction &instruction) {
    std::string text = instruction.text.substr(instruction.text.find_first_not_of(" \t"));
    std::replace(text.begin(), text.end(), '\t', ' ');
    return text;
}

// Words in hexadecimal, by spaces.
std::string code_of(const Instruction &instruction) {
    std::string result;
    for (size_t k = 0; k < instruction.length; k += 4) {
        uint32_t word;
        char text[16];
        memcpy(&word, &instruction.code[k], sizeof word);
        snprintf(text, sizeof text, "%s%08x", k ? " " : "", word);
        result += text;
    }
    return result;
}

} // namespace

Counters &counters() {
    static Counters result;
    return result;
}

Counters::Counters()
    : file_(open(settings().counters, "counters")), instructions_file_(open(settings().instructions, "instructions")) {
    if (!file_ && (instructions_file_ || settings().model))
        stop("VKATTN_EXECUTE: model and instructions are for counters, expected counters=FILE, too");
    if (settings().model) model_ = std::make_unique<ModelledTime>(gpu_facts(settings().gpu));
}

void Counters::begin_submission() {
    submission_++;
    is_flushed_ = true;
    if (model_) model_->begin_submission();
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
    counts_.clear();
    active_lanes_ = lane_slots_ = lds_cycles_ = lds_fewest_cycles_ = requested_lines_ = lane_bytes_ = longest_wave_ =
        barriers_ = 0;
    lines_.clear();
    if (model_) model_->begin_dispatch(dispatch, settings().generation);
}

void Counters::begin_workgroup() {
    if (model_) model_->begin_workgroup();
}

void Counters::count(const Wave &wave, const Instruction &instruction) {
    const Kind kind = instruction.kind;
    instructions_[size_t(kind)]++;
    if (is_vector_arithmetic(kind)) {
        active_lanes_ += uint64_t(__builtin_popcountll(wave.exec()));
        lane_slots_ += uint64_t(wave.lanes);
    }
    find_access(wave, instruction, access_);
    if (kind == Kind::shared) {
        lds_cycles_ += access_.lds_cycles;
        lds_fewest_cycles_ += access_.lds_fewest_cycles;
    }
    if (is_memory(kind)) {
        lane_bytes_ += access_.bytes;
        requested_lines_ += access_.lines.size();
        lines_.insert(access_.lines.begin(), access_.lines.end());
    }
    const Stall stall = model_ ? model_->count(wave, instruction, access_) : Stall{};
    if (instructions_file_) add(instruction, stall);
}

void Counters::add(const Instruction &instruction, const Stall &stall) {
    const size_t place = (instruction.address - dispatch_.code) / 4;
    if (place >= counts_.size()) counts_.resize(place + 256);
    InstructionCounts &counts = counts_[place];
    counts.instruction = &instruction;
    counts.count++;
    counts.stall_cycles += stall.cycles;
    if (stall.access) counts.stalls[stall.access] += stall.cycles;
    counts.lds_cycles += access_.lds_cycles;
    counts.lds_fewest_cycles += access_.lds_fewest_cycles;
    counts.lines += access_.lines.size();
}

void Counters::pass_barrier(const Workgroup &group) {
    barriers_++;
    if (model_) model_->pass_barrier(group);
}

void Counters::end_workgroup(const Workgroup &group) {
    for (const Wave *wave : group.waves) longest_wave_ = std::max(longest_wave_, wave->executed);
    if (model_) model_->end_workgroup(group);
}

void Counters::end_dispatch() {
    if (!file_) return;
    write_dispatch();
    if (instructions_file_) write_instructions();
}

void Counters::write_dispatch() {
    const auto &groups = dispatch_.groups, &size = dispatch_.group_size;
    uint64_t total = 0;
    fprintf(file_,
            "{\"submission\": %" PRIu64 ", \"dispatch\": %" PRIu64 ", \"program\": \"%" PRIx64
            "\", \"shader\": \"%s\", \"workgroups\": [%u, %u, %u], \"workgroup_size\": [%u, %u, %u], ",
            submission_, number_, dispatch_.code, dispatch_.shader.name.c_str(), groups[0], groups[1], groups[2],
            size[0], size[1], size[2]);
    fprintf(file_, "\"waits_for_earlier\": %s, ", is_flushed_ ? "true" : "false");
    is_flushed_ = false;
    fprintf(file_, "\"lanes\": %d, \"lds_bytes\": %u, \"vector_registers\": %u, \"instructions\": {", dispatch_.lanes,
            dispatch_.lds_bytes(), dispatch_.vector_registers());
    for (size_t k = 0; k < instructions_.size(); k++) {
        fprintf(file_, "\"%s\": %" PRIu64 ", ", kind_name(Kind(k)), instructions_[k]);
        total += instructions_[k];
    }
    fprintf(file_, "\"total\": %" PRIu64 "}, \"longest_wave\": %" PRIu64 ", \"barriers\": %" PRIu64 ", ", total,
            longest_wave_, barriers_);
    fprintf(file_, "\"active_lanes\": %.3f, \"lds_cycles\": %" PRIu64 ", \"lds_fewest_cycles\": %" PRIu64 ", ",
            double(active_lanes_) / double(std::max<uint64_t>(lane_slots_, 1)), lds_cycles_, lds_fewest_cycles_);
    fprintf(file_, "\"requested_lines\": %" PRIu64 ", \"distinct_lines\": %zu, \"lane_bytes\": %" PRIu64,
            requested_lines_, lines_.size(), lane_bytes_);
    if (model_) fprintf(file_, ", \"modelled\": %s", model_->end_dispatch().c_str());
    fprintf(file_, "}\n");
    fflush(file_);
}

void Counters::write_instructions() {
    fprintf(instructions_file_, "{\"dispatch\": %" PRIu64 ", \"given\": \"%s\", \"instructions\": [", number_,
            dispatch_.shader.given.c_str());
    const char *separator = "";
    for (const InstructionCounts &counts : counts_) {
        if (!counts.instruction) continue;
        const Instruction &instruction = *counts.instruction;
        const auto longest = std::max_element(counts.stalls.begin(), counts.stalls.end(),
                                              [](const auto &a, const auto &b) { return a.second < b.second; });
        const std::string waits_for =
            longest == counts.stalls.end()
                ? ""
                : ", \"waits_for\": " + std::to_string(longest->first->address - dispatch_.code);
        fprintf(instructions_file_,
                "%s{\"offset\": %" PRIu64 ", \"code\": \"%s\", \"text\": \"%s\", \"kind\": \"%s\", \"count\": %" PRIu64
                ", \"stall_cycles\": %" PRIu64 ", \"lds_cycles\": %" PRIu64 ", \"lds_fewest_cycles\": %" PRIu64
                ", \"lines\": %" PRIu64 "%s}",
                separator, instruction.address - dispatch_.code, code_of(instruction).c_str(),
                text_of(instruction).c_str(), kind_name(instruction.kind), counts.count, counts.stall_cycles,
                counts.lds_cycles, counts.lds_fewest_cycles, counts.lines, waits_for.c_str());
        separator = ", ";
    }
    fprintf(instructions_file_, "]}\n");
    fflush(instructions_file_);
}

} // namespace execute
