#include "wave_clock.hpp"

#include <algorithm>
#include <cmath>

namespace execute {
namespace {

constexpr uint32_t kResultCycles = 4; // from issue to a dependent instruction, beyond the issue's own
constexpr uint32_t kMatrixResultCycles = 8;
constexpr uint32_t kTranscendentalRate = 4; // cycles of 32 lanes
constexpr uint32_t kSlowRate = 4;
constexpr uint32_t kBranchIssues = 4; // all are counted as taken
constexpr size_t kMostInFlight = 64;

bool is_gcn(const Wave &wave) { return wave.generation < kRdna1; }
uint32_t issue_cycles(const Wave &wave) { return is_gcn(wave) ? 4 : 1; }                   // of 16 lanes, or 32
uint32_t passes(const Wave &wave) { return is_gcn(wave) ? 1 : uint32_t(wave.lanes / 32); } // issues of an instruction

void raise(Cycles &value, const Cycles &other) {
    for (size_t k = 0; k < kClocks; k++) value[k] = std::max(value[k], other[k]);
}

void advance(Cycles &value, uint32_t cycles) {
    for (uint32_t &each : value) each += cycles;
}

uint32_t cycles_of(double ns, const GpuFacts &facts) { return uint32_t(std::lround(ns * facts.gigahertz)); }

double latency_ns(const GpuFacts &facts, Level level) {
    switch (level) {
    case Level::workgroup:
        return facts.workgroup_ns;
    case Level::l2:
        return facts.l2_ns;
    case Level::last_level:
        return facts.last_level_bytes ? facts.last_level_ns : facts.dram_ns;
    case Level::dram:
        break;
    }
    return facts.dram_ns;
}

// Cycles for which an instruction holds the vector unit, and after which its result is there.
struct Cost {
    uint32_t busy, result;
};
Cost arithmetic_cost(const Wave &wave, Kind kind, const GpuFacts &facts) {
    const bool is_slow = kind == Kind::slow, is_transcendental = kind == Kind::transcendental;
    if (kind == Kind::matrix) return {facts.matrix_cycles, facts.matrix_cycles + kMatrixResultCycles};
    if (is_gcn(wave)) {
        const uint32_t busy = is_slow || is_transcendental ? 16 : 4;
        return {busy, busy};
    }
    const uint32_t each = passes(wave);
    if (is_transcendental) return {each, kTranscendentalRate * each + kResultCycles + 1};
    const uint32_t busy = is_slow ? kSlowRate * each : each;
    return {busy, busy + kResultCycles};
}

} // namespace

std::array<Model, kClocks> models_of(const GpuFacts &facts) {
    std::array<Model, kClocks> models;
    models.fill({"", facts});
    size_t next = 1;
    const auto change = [&](const char *name, auto GpuFacts::*member, auto value) {
        models[next].name = name;
        models[next++].facts.*member = value;
    };
    change("dram_ns=300", &GpuFacts::dram_ns, 300.0);
    change("dram_ns=800", &GpuFacts::dram_ns, 800.0);
    change("memory_gbs*0.8", &GpuFacts::memory_gbs, 0.8 * facts.memory_gbs);
    change("last_level_ns=400", &GpuFacts::last_level_ns, 400.0);
    change("last_level_bytes=0", &GpuFacts::last_level_bytes, uint64_t(0));
    change("l2_ns=100", &GpuFacts::l2_ns, 100.0);
    change("l2_ns=300", &GpuFacts::l2_ns, 300.0);
    change("l2_gbs*0.5", &GpuFacts::l2_gbs, 0.5 * facts.l2_gbs);
    change("workgroup_ns=100", &GpuFacts::workgroup_ns, 100.0);
    change("scalar_miss=l2", &GpuFacts::scalar_loads_reach_l2, true);
    change("lds_cycles=100", &GpuFacts::lds_cycles, 100u);
    return models;
}

void WaveClock::Queue::add(Cycles back, const Instruction &instruction) { // they return in order
    if (!accesses.empty()) raise(back, accesses.back().back);
    if (accesses.size() == kMostInFlight) accesses.erase(accesses.begin());
    accesses.push_back({back, &instruction});
}

void WaveClock::reset() {
    now_ = address_unit_ = lds_unit_ = transcendental_unit_ = {};
    ready_.fill({});
    for (Queue &queue : queues_) queue.accesses.clear();
    work_ = {};
}

void WaveClock::need(const Operand &operand) {
    if (operand.source != Source::vector) return;
    for (size_t k = operand.index; k < std::min<size_t>(operand.index + operand.count, ready_.size()); k++)
        raise(now_, ready_[k]);
}

void WaveClock::need_all(const Instruction &instruction, size_t first) {
    for (size_t k = first; k < instruction.operand_count; k++) need(instruction.operands[k]);
}

void WaveClock::issue_arithmetic(const Wave &wave, const Instruction &instruction, const GpuFacts &facts) {
    const Kind kind = instruction.kind;
    const Instruction *second = kind == Kind::dual ? instruction.inner.get() : nullptr;
    need_all(instruction, instruction.first_source);
    if (second) need_all(*second, second->first_source);
    const Cost cost = arithmetic_cost(wave, kind, facts);
    if (kind == Kind::transcendental) {
        raise(now_, transcendental_unit_);
        transcendental_unit_ = now_;
        advance(transcendental_unit_, kTranscendentalRate * passes(wave) * issue_cycles(wave));
        work_.transcendental += kTranscendentalRate * passes(wave) * issue_cycles(wave);
    }
    stalled_until_ = now_[0];
    Cycles result = now_;
    advance(result, cost.result);
    advance(now_, cost.busy);
    (kind == Kind::matrix ? work_.matrix : work_.vector) += cost.busy;
    for (const Instruction *half : {&instruction, second}) {
        if (!half || half->first_source == 0 || half->operands[0].source != Source::vector) continue;
        const Operand &written = half->operands[0];
        for (size_t k = written.index; k < std::min<size_t>(written.index + written.count, ready_.size()); k++)
            ready_[k] = result;
    }
}

void WaveClock::issue_memory(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
                             const std::array<Model, kClocks> &models) {
    const bool is_load = instruction.kind == Kind::load ||
                         (instruction.kind == Kind::scratch && instruction.name.find("_load_") != std::string::npos);
    need_all(instruction, is_load ? 1 : 0);
    work_.address += access.address_lines;
    stalled_until_ = now_[0];
    raise(address_unit_, now_);
    advance(address_unit_, access.address_lines);
    Cycles back = address_unit_;
    const bool is_store = !is_load && instruction.kind != Kind::atomic;
    for (size_t k = 0; k < kClocks; k++)
        back[k] += cycles_of(latency_ns(models[k].facts, is_store ? Level::l2 : level), models[k].facts);
    const bool counts_as_load = is_load || instruction.returns || is_gcn(wave);
    queues_[size_t(counts_as_load ? Counter::loads : Counter::stores)].add(back, instruction);
    advance(now_, issue_cycles(wave));
}

void WaveClock::issue_lds(const Wave &wave, const Instruction &instruction, const Access &access,
                          const std::array<Model, kClocks> &models) {
    const std::string &name = instruction.name;
    const bool has_result = instruction.kind == Kind::lanes || name.find("_load_") != std::string::npos ||
                            name.find("_rtn_") != std::string::npos;
    need_all(instruction, has_result ? 1 : 0);
    work_.lds += access.lds_cycles;
    stalled_until_ = now_[0];
    raise(lds_unit_, now_);
    advance(lds_unit_, access.lds_cycles);
    Cycles back = lds_unit_;
    for (size_t k = 0; k < kClocks; k++) back[k] += models[k].facts.lds_cycles;
    queues_[size_t(Counter::shared)].add(back, instruction);
    advance(now_, issue_cycles(wave));
}

void WaveClock::issue_scalar_load(const Wave &wave, const Instruction &instruction, Level level,
                                  const std::array<Model, kClocks> &models) {
    Cycles back = now_;
    for (size_t k = 0; k < kClocks; k++) {
        const GpuFacts &facts = models[k].facts;
        const Level reached = facts.scalar_loads_reach_l2 ? std::min(level, Level::l2) : level;
        back[k] += cycles_of(reached == Level::workgroup ? facts.scalar_ns : latency_ns(facts, reached), facts);
    }
    queues_[size_t(wave.generation >= kRdna4 ? Counter::scalar : Counter::shared)].add(back, instruction);
    advance(now_, issue_cycles(wave));
}

void WaveClock::wait(const Instruction &instruction) {
    for (size_t counter = 0; counter < queues_.size(); counter++) {
        auto &accesses = queues_[counter].accesses;
        const size_t left = instruction.wait_for[counter];
        if (left == 255 || accesses.size() <= left) continue;
        const auto end = accesses.end() - std::ptrdiff_t(left);
        const Cycles &back = (end - 1)->back; // what returned with it is what it waited for
        if (back[0] > now_[0])
            waited_for_ = std::find_if(accesses.begin(), end, [&](const InFlight &each) {
                              return each.back[0] == back[0];
                          })->instruction;
        raise(now_, back);
        accesses.erase(accesses.begin(), end);
    }
}

uint32_t WaveClock::count(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
                          const std::array<Model, kClocks> &models) {
    const uint32_t before = now_[0];
    stalled_until_ = before;
    waited_for_ = nullptr;
    issue(wave, instruction, access, level, models);
    return stalled_until_ - before;
}

void WaveClock::issue(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
                      const std::array<Model, kClocks> &models) {
    switch (instruction.kind) {
    case Kind::vector:
    case Kind::dual:
    case Kind::transcendental:
    case Kind::packed:
    case Kind::matrix:
    case Kind::slow:
        return issue_arithmetic(wave, instruction, models[0].facts);
    case Kind::load:
    case Kind::store:
    case Kind::atomic:
    case Kind::scratch:
        return issue_memory(wave, instruction, access, level, models);
    case Kind::shared:
    case Kind::lanes:
        return issue_lds(wave, instruction, access, models);
    case Kind::scalar_load:
        return issue_scalar_load(wave, instruction, level, models);
    case Kind::wait:
        wait(instruction);
        stalled_until_ = now_[0];
        return advance(now_, issue_cycles(wave));
    case Kind::hint:
        return;
    case Kind::branch:
        return advance(now_, kBranchIssues * issue_cycles(wave));
    default:
        return advance(now_, issue_cycles(wave));
    }
}

} // namespace execute
