#include "wave.hpp"

#include "findings.hpp"

#include <algorithm>

namespace execute {

void Wave::reset(bool poison) {
    const uint32_t value = poison ? kPoison : 0;
    std::fill(std::begin(scalars), std::end(scalars), value);
    std::fill(&vectors[0][0], &vectors[0][0] + sizeof vectors / sizeof(uint32_t), value);
    scalars[kNull] = 0;
    scc = 0;
    done = waits_at_barrier = halves_toward_zero = false;
    first_shared = shared_registers = 0;
    executed = 0;
    for (auto &queue : pending) queue.clear();
    pending_registers = shared_accesses = shared_ordered = shared_done_at_barrier = 0;
    pending_set.clear();
}

// The lower half is executed first.
void Wave::share_result(const Instruction &instruction) {
    const Operand &target = instruction.operands[0];
    if (target.source != Source::vector || target.index + target.count <= first_shared) return;
    const uint64_t written = exec() & (instruction.move == LaneMove::none ? ~0ull : move_lanes);
    for (int r = std::max<int>(target.index, first_shared); r < target.index + target.count; r++)
        for (int lane = 0; lane < 32; lane++) {
            const int last = written >> (lane + 32) & 1 ? lane + 32 : lane;
            vectors[r][lane] = vectors[r][lane + 32] = vectors[r][last];
        }
}

void Wave::add_pending(Counter counter, const Instruction &instruction, const Operand *destination, int registers) {
    const PendingLoad load{destination ? destination->source : Source::none,
                           destination ? destination->index : uint16_t(0), uint16_t(registers), exec(), &instruction};
    pending[size_t(counter)].push_back(load);
    if (counter == Counter::shared && load.source != Source::scalar) shared_accesses++;
    if (!destination) return;
    pending_registers++;
    pending_set.add(load.source, load.first, load.count);
}

// Scalar loads return in any order, also before others: only a wait for all is one for them, and each may be one of those that
// are done in the place of an older access.
void Wave::wait(const Instruction &instruction) {
    if (instruction.orders_shared) shared_ordered = shared_accesses;
    const uint32_t before = pending_registers;
    for (size_t counter = 0; counter < size_t(Counter::count); counter++) {
        auto &queue = pending[counter];
        const size_t left = instruction.wait_for[counter];
        if (left == 255 || queue.size() <= left) continue;
        const auto is_scalar = [](const PendingLoad &load) { return load.source == Source::scalar; };
        const auto scalar_loads = size_t(std::count_if(queue.begin(), queue.end(), is_scalar));
        size_t arrived = queue.size() - left;
        if (left) arrived -= std::min(arrived, scalar_loads);
        std::erase_if(queue, [&](const PendingLoad &load) { // the oldest first
            if (arrived == 0 || (left && is_scalar(load))) return false;
            arrived--;
            pending_registers -= load.source != Source::none;
            return true;
        });
    }
    if (pending_registers == before) return;
    pending_set.clear();
    for (const auto &queue : pending)
        for (const PendingLoad &load : queue) pending_set.add(load.source, load.first, load.count);
}

// Accesses of LDS are done in their order.
uint32_t Wave::shared_done() const {
    const auto &queue = pending[size_t(Counter::shared)];
    const auto in_flight = std::count_if(queue.begin(), queue.end(),
                                         [](const PendingLoad &load) { return load.source != Source::scalar; });
    return std::max(shared_ordered, shared_accesses - uint32_t(in_flight));
}

// A register of other lanes, as the two sides of a branch have, is another register.
void Wave::find_pending(const Instruction &instruction) {
    const uint64_t lanes_used = instruction.reads_other_lanes ? all_lanes() : exec();
    for (const auto &queue : pending)
        for (const PendingLoad &load : queue) {
            if (load.source == Source::none || (load.source == Source::vector && !(load.lanes & lanes_used))) continue;
            // loads of one kind arrive in order: the later may have the earlier's destination
            const bool skips_result = instruction.kind == load.instruction->kind && load.source == Source::vector;
            for (size_t k = skips_result; k < instruction.operand_count; k++) {
                const Operand &operand = instruction.operands[k];
                if (operand.source != load.source) continue;
                if (operand.index < load.first + load.count && load.first < operand.index + operand.count)
                    find(*this, instruction, "a register is used before the wait for its load", operand.index,
                         load.instruction->text.c_str());
            }
        }
    if (instruction.kind == Kind::dual && instruction.inner) find_pending(*instruction.inner);
}

} // namespace execute
