#include "modelled_time.hpp"

#include <algorithm>

namespace execute {
namespace {

constexpr uint32_t kBarrierCycles = 8;
constexpr uint32_t kMostGroupsOfUnit = 32, kMostGroupsOfGcnUnit = 40;

// What a compute unit was given.
struct Unit {
    std::vector<uint64_t> simds, matrix, transcendental, lds, address; // cycles
    std::vector<uint64_t> slots;                                       // of workgroups that it holds, until when
    uint64_t weight = 0;
    size_t next_simd = 0;

    explicit Unit(const Occupancy &occupancy)
        : simds(occupancy.simds), matrix(occupancy.simds), transcendental(occupancy.simds), lds(occupancy.shared_units),
          address(occupancy.shared_units), slots(occupancy.workgroups) {}

    // weight: by which units are filled evenly, the same for all models.
    void add(uint64_t more_weight, uint64_t chain, const std::vector<Work> &waves) {
        weight += more_weight;
        *std::min_element(slots.begin(), slots.end()) += chain;
        for (const Work &work : waves) {
            const size_t simd = next_simd++ % simds.size(), shared = simd * lds.size() / simds.size();
            simds[simd] += work.vector + work.matrix;
            matrix[simd] += work.matrix;
            transcendental[simd] += work.transcendental;
            lds[shared] += work.lds;
            address[shared] += work.address;
        }
    }
};

uint64_t most(const std::vector<Unit> &units, std::vector<uint64_t> Unit::*member) {
    uint64_t result = 0;
    for (const Unit &unit : units)
        result = std::max(result, *std::max_element((unit.*member).begin(), (unit.*member).end()));
    return result;
}

double time_of(const Components &components) { return *std::max_element(components.begin(), components.end()); }

// Of vector units that are busy the matrices' part, if it is the larger one, has the name.
Component bound_of(const Components &components) {
    const auto largest = Component(std::max_element(components.begin(), components.end()) - components.begin());
    const double matrix = components[size_t(Component::matrix)], vector = components[size_t(Component::vector)];
    return largest == Component::vector && matrix > vector / 2 ? Component::matrix : largest;
}

std::string number(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.4f", value);
    return text;
}

std::string field(const char *name, const std::string &value) { return std::string("\"") + name + "\": " + value; }

} // namespace

const char *component_name(Component component) {
    static constexpr const char *kNames[] = {"vector", "matrix", "transcendental", "lds", "address",
                                             "chain",  "l2",     "last_level",     "dram"};
    static_assert(std::size(kNames) == size_t(Component::count));
    return kNames[size_t(component)];
}

Occupancy occupancy(const Dispatch &dispatch, uint32_t waves, const GpuFacts &facts, int generation) {
    const bool is_gcn = generation < kRdna1;
    const bool is_pair = !is_gcn && (dispatch.resources[0] >> 29 & 1); // WGP_MODE
    const uint32_t pair = is_pair ? 2 : 1;
    Occupancy result{facts.compute_units / pair, facts.simds * pair, pair, 0, 0};
    // GCN's vector registers are of 64 lanes, 256 a SIMD, in fours
    const uint32_t granule = is_gcn ? 4 : facts.register_granule * 32 / uint32_t(dispatch.lanes);
    const uint32_t file = is_gcn ? 256 : facts.vector_registers * 32 / uint32_t(dispatch.lanes);
    const uint32_t registers = (dispatch.vector_registers() + granule - 1) / granule * granule;
    result.waves_of_simd = std::max(1u, std::min(facts.waves_of_simd, file / registers));
    const uint32_t held = result.waves_of_simd * result.simds;
    const uint32_t a_simd = (waves + result.simds - 1) / result.simds; // waves of a workgroup
    result.workgroups = waves < result.simds ? held / waves : result.waves_of_simd / a_simd;
    if (dispatch.lds_bytes())
        result.workgroups = std::min(result.workgroups, kLdsBytesOfUnit * pair / dispatch.lds_bytes());
    result.workgroups = std::clamp(result.workgroups, 1u, is_gcn ? kMostGroupsOfGcnUnit : kMostGroupsOfUnit * pair);
    return result;
}

ModelledTime::ModelledTime(const GpuFacts &facts)
    : facts_(facts), models_(models_of(facts)), lines_(facts.l2_bytes, facts.last_level_bytes) {}

void ModelledTime::begin_dispatch(const Dispatch &dispatch, int generation) {
    dispatch_ = dispatch;
    generation_ = generation;
    lines_.begin_dispatch();
    groups_.clear();
}

void ModelledTime::begin_workgroup() {
    lines_.begin_workgroup();
    for (WaveClock &clock : clocks_) clock.reset();
}

Level ModelledTime::touch(const Instruction &instruction, const Access &access) {
    const bool is_write = instruction.kind == Kind::store || instruction.kind == Kind::atomic;
    Level slowest = Level::workgroup;
    for (const uint64_t line : access.lines) slowest = std::max(slowest, lines_.touch(line, is_write));
    return slowest;
}

Stall ModelledTime::count(const Wave &wave, const Instruction &instruction, const Access &access) {
    while (clocks_.size() <= size_t(wave.id)) clocks_.emplace_back().reset();
    WaveClock &clock = clocks_[size_t(wave.id)];
    const uint32_t cycles = clock.count(wave, instruction, access, touch(instruction, access), models_);
    return {cycles, clock.waited_for()};
}

void ModelledTime::pass_barrier(const Workgroup &group) {
    Cycles latest{};
    for (const Wave *wave : group.waves)
        for (size_t k = 0; k < kClocks; k++) latest[k] = std::max(latest[k], clocks_[size_t(wave->id)].now()[k]);
    for (uint32_t &each : latest) each += kBarrierCycles;
    for (const Wave *wave : group.waves)
        if (!wave->done) clocks_[size_t(wave->id)].set_now(latest);
}

void ModelledTime::end_workgroup(const Workgroup &group) {
    GroupCost cost{};
    for (const Wave *wave : group.waves) {
        const WaveClock &clock = clocks_[size_t(wave->id)];
        for (size_t k = 0; k < kClocks; k++) cost.chain[k] = std::max(cost.chain[k], clock.now()[k]);
        cost.waves.push_back(clock.work());
    }
    groups_.push_back(std::move(cost));
}

Components ModelledTime::components(size_t model, const Occupancy &occupancy, const Traffic &traffic) const {
    const GpuFacts &facts = models_[model].facts;
    std::vector<Unit> units(occupancy.units, Unit(occupancy));
    for (const GroupCost &group : groups_) {
        const auto unit = std::min_element(units.begin(), units.end(),
                                           [](const Unit &a, const Unit &b) { return a.weight < b.weight; });
        unit->add(group.chain[0], group.chain[model], group.waves);
    }
    const auto microseconds = [&](double cycles) { return cycles / facts.gigahertz * 1e-3; };
    const auto transfer = [](double bytes, double gbs) { return gbs == 0 ? 0 : bytes / gbs * 1e-3; };
    Components result{};
    const auto set = [&](Component component, double value) { result[size_t(component)] = value; };
    set(Component::vector, microseconds(double(most(units, &Unit::simds))));
    set(Component::matrix, microseconds(double(most(units, &Unit::matrix))));
    set(Component::transcendental, microseconds(double(most(units, &Unit::transcendental))));
    set(Component::lds, microseconds(double(most(units, &Unit::lds))));
    set(Component::address, microseconds(double(most(units, &Unit::address))));
    set(Component::chain, microseconds(double(most(units, &Unit::slots))));
    set(Component::l2, transfer(double(traffic.l2), facts.l2_gbs));
    const bool has_last_level = facts.last_level_bytes != 0;
    // what comes from memory passes the last level, too
    set(Component::last_level,
        has_last_level ? transfer(double(traffic.last_level + traffic.dram), facts.last_level_gbs) : 0);
    set(Component::dram, transfer(double(traffic.dram + (has_last_level ? 0 : traffic.last_level)), facts.memory_gbs));
    return result;
}

std::string ModelledTime::end_dispatch() {
    const Traffic traffic = lines_.end_dispatch();
    const uint32_t waves = groups_.empty() ? 1 : uint32_t(groups_.front().waves.size());
    const Occupancy held = occupancy(dispatch_, waves, facts_, generation_);
    const Components base = components(0, held, traffic);
    uint32_t chain = 0;
    for (const GroupCost &group : groups_) chain = std::max(chain, group.chain[0]);
    std::string parts, changed;
    for (size_t k = 0; k < base.size(); k++)
        parts += (k ? ", " : "") + field(component_name(Component(k)), number(base[k]));
    for (size_t k = 1; k < kClocks; k++)
        changed += (k > 1 ? ", " : "") + field(models_[k].name, number(time_of(components(k, held, traffic))));
    return "{" + field("us", number(time_of(base))) + ", " +
           field("bound", std::string("\"") + component_name(bound_of(base)) + "\"") + ", " +
           field("components", "{" + parts + "}") + ", " + field("us_if", "{" + changed + "}") + ", " +
           field("longest_workgroup_cycles", std::to_string(chain)) + ", " +
           field("longest_workgroup_us", number(chain / facts_.gigahertz * 1e-3)) + ", " +
           field("l2_bytes", std::to_string(traffic.l2)) + ", " +
           field("last_level_bytes", std::to_string(traffic.last_level)) + ", " +
           field("dram_bytes", std::to_string(traffic.dram)) + ", " +
           field("compute_units", std::to_string(facts_.compute_units)) + ", " +
           field("waves_of_simd", std::to_string(held.waves_of_simd)) + ", " +
           field("workgroups_of_unit", std::to_string(held.workgroups)) + ", " +
           field("units", std::to_string(held.units)) + "}";
}

} // namespace execute
