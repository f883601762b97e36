#include "dispatch.hpp"

#include "counters.hpp"
#include "decoder.hpp"
#include "findings.hpp"
#include "memory_races.hpp"
#include "removals.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <xmmintrin.h>

namespace execute {
namespace {

constexpr uint32_t kScratchBytesOfLane = 65536;
constexpr uint64_t kMostInstructionsOfWave = 2'000'000'000;
constexpr unsigned kFlushDenormals = 0x8040; // of the processor's MXCSR

std::mt19937_64 &generator() {
    static std::mt19937_64 result(settings().seed);
    return result;
}

template <class T>
void arrange(std::vector<T> &items) {
    if (settings().order == Order::reversed) std::reverse(items.begin(), items.end());
    if (settings().order == Order::random) std::shuffle(items.begin(), items.end(), generator());
}

// f32's denormals are flushed where the program's mode says so.
class FloatMode {
  public:
    explicit FloatMode(uint32_t resources) : before_(_mm_getcsr()) {
        const uint32_t mode = resources >> 12 & 255;
        if (mode & 15) stop("a program does not round to nearest, which is not known here");
        if ((mode >> 4 & 3) == 0) _mm_setcsr(before_ | kFlushDenormals);
    }
    ~FloatMode() { _mm_setcsr(before_); }

  private:
    unsigned before_;
};

// The two halves of a dual instruction read before either writes.
void execute_dual(Wave &wave, const Instruction &first) {
    const Instruction &second = *first.inner;
    uint32_t *target = wave.vectors[first.operands[0].index];
    uint32_t before[kMostLanes], after[kMostLanes];
    memcpy(before, target, sizeof before);
    first.execute(wave, first);
    memcpy(after, target, sizeof after);
    memcpy(target, before, sizeof before);
    second.execute(wave, second);
    memcpy(target, after, sizeof after);
}

class WorkgroupRun {
  public:
    WorkgroupRun(const Dispatch &dispatch, Program &program) : dispatch_(dispatch), program_(program) {
        group_.lds.resize(dispatch.lds_bytes());
    }

    // Returns the instructions that the workgroup's waves executed.
    uint64_t run(uint64_t index) {
        begin(index);
        std::vector<size_t> order(group_.waves.size());
        std::iota(order.begin(), order.end(), size_t(0));
        arrange(order);
        while (!all_done()) {
            if (settings().order == Order::random) arrange(order);
            bool ran = false;
            for (const size_t k : order) ran |= run_some(*group_.waves[k]);
            if (!ran) pass_barrier();
        }
        counters().end_workgroup(group_);
        uint64_t executed = 0;
        for (const Wave *wave : group_.waves) executed += wave->executed;
        return executed;
    }

  private:
    void begin(uint64_t index) {
        const auto &groups = dispatch_.groups;
        const std::array<uint32_t, 3> place = {uint32_t(index % groups[0]), uint32_t(index / groups[0] % groups[1]),
                                               uint32_t(index / groups[0] / groups[1])};
        for (size_t k = 0; k < 3; k++) {
            group_.id[k] = dispatch_.first_group[k] + place[k];
            size_[k] = place[k] + 1 == groups[k] ? dispatch_.last_size[k] : dispatch_.group_size[k];
        }
        counters().begin_workgroup();
        group_.number = number_of_next_workgroup();
        group_.epoch = 1;
        for (size_t k = 0; settings().poison && k + 4 <= group_.lds.size(); k += 4) memcpy(&group_.lds[k], &kPoison, 4);
        group_.lds_words.assign(group_.lds.size() / 4, {});
        const uint32_t threads = size_[0] * size_[1] * size_[2];
        const auto lanes = uint32_t(dispatch_.lanes);
        const uint32_t waves = (threads + lanes - 1) / lanes;
        if (dispatch_.has_scratch()) scratch_.assign(size_t(kScratchBytesOfLane) * kMostLanes * waves, 0xfe);
        while (pool_.size() < waves) pool_.push_back(std::make_unique<Wave>());
        group_.waves.clear();
        for (uint32_t k = 0; k < waves; k++) {
            group_.waves.push_back(pool_[k].get());
            begin_wave(*pool_[k], k, waves, threads);
        }
    }

    void begin_wave(Wave &wave, uint32_t id, uint32_t waves, uint32_t threads) {
        wave.reset(settings().poison);
        wave.lanes = dispatch_.lanes;
        wave.generation = settings().generation;
        wave.first_shared = int(dispatch_.vector_registers());
        wave.shared_registers = int(dispatch_.shared_registers());
        wave.workgroup = &group_;
        wave.id = int(id);
        wave.pc = dispatch_.code;
        wave.scratch_bytes = dispatch_.has_scratch() ? kScratchBytesOfLane : 0;
        wave.scratch = wave.scratch_bytes ? &scratch_[size_t(id) * kMostLanes * wave.scratch_bytes] : nullptr;
        set_scalars(wave, id, waves);
        set_thread_ids(wave, id * uint32_t(wave.lanes), threads);
    }

    // User data, then what COMPUTE_PGM_RSRC2 asks for; RDNA 4 has the workgroup's and the wave's places in trap registers.
    void set_scalars(Wave &wave, uint32_t id, uint32_t waves) {
        uint32_t next = 0;
        for (; next < dispatch_.user_scalars(); next++) wave.scalars[next] = dispatch_.user_data[next];
        const auto &place = group_.id;
        if (wave.generation >= kRdna4) {
            wave.scalars[kTrap + 9] = place[0];
            wave.scalars[kTrap + 7] = (place[1] & 0xffff) | place[2] << 16;
            wave.scalars[kTrap + 8] = id << 25;
        } else {
            for (uint32_t k = 0; k < 3; k++)
                if (dispatch_.resources[1] >> (7 + k) & 1) wave.scalars[next++] = place[k];
        }
        if (dispatch_.resources[1] >> 10 & 1) { // the workgroup's size in waves
            const uint32_t place_of_id = wave.generation < kRdna1 || is_rdna1() ? 6 : 20;
            wave.scalars[next++] = waves | id << place_of_id | (id == 0 ? 1u << 31 : 0);
        }
        if (dispatch_.has_scratch() && wave.generation < kRdna3) // workgroups run one after the other
            wave.scalars[next++] = id * dispatch_.scratch_bytes_of_wave();
    }

    void set_thread_ids(Wave &wave, uint32_t first, uint32_t threads) {
        uint64_t exec = 0;
        const uint32_t most = dispatch_.resources[1] >> 11 & 3; // the highest dimension that is asked for
        for (uint32_t lane = 0; lane < uint32_t(wave.lanes) && first + lane < threads; lane++) {
            const uint32_t thread = first + lane;
            const uint32_t x = thread % size_[0], y = thread / size_[0] % size_[1], z = thread / size_[0] / size_[1];
            exec |= 1ull << lane;
            if (wave.generation >= kRdna3) {
                wave.vectors[0][lane] = x | y << 10 | z << 20;
                continue;
            }
            wave.vectors[0][lane] = x;
            if (most >= 1) wave.vectors[1][lane] = y;
            if (most >= 2) wave.vectors[2][lane] = z;
        }
        wave.set_pair(kExec, exec);
    }

    bool run_some(Wave &wave) {
        if (wave.done || wave.waits_at_barrier) return false;
        const uint64_t most = settings().switch_after;
        run_wave(program_, wave, most ? 1 + generator()() % most : 0);
        return true;
    }

    bool all_done() const {
        return std::all_of(group_.waves.begin(), group_.waves.end(), [](const Wave *wave) { return wave->done; });
    }

    void pass_barrier() {
        counters().pass_barrier(group_);
        for (Wave *wave : group_.waves) wave->waits_at_barrier = false;
        group_.epoch++;
    }

    const Dispatch &dispatch_;
    Program &program_;
    Workgroup group_;
    std::array<uint32_t, 3> size_{};
    std::vector<uint8_t> scratch_;
    static inline std::vector<std::unique_ptr<Wave>> pool_;
};

// Of the first submissions that have dispatches: a benchmark's warm-ups.
bool is_skipped() {
    static uint64_t last = 0;
    static int64_t with_dispatches = 0;
    const uint64_t submission = counters().submission();
    with_dispatches += submission != last;
    last = submission;
    return with_dispatches <= settings().skip_submissions;
}

} // namespace

void run_wave(Program &program, Wave &wave, uint64_t most_instructions) {
    const bool counts = counters().is_on(), checks_waits = settings().waits;
    for (uint64_t n = 1;; n++) {
        const Instruction &instruction = program.at(wave.pc);
        wave.pc = instruction.next;
        wave.executed++;
        if (instruction.is_removed)
            note_removed(wave, instruction);
        else if (instruction.kind == Kind::wait)
            wave.wait(instruction);
        else if (checks_waits)
            wave.check_pending(instruction);
        if (counts) counters().count(wave, instruction);
        if (instruction.kind == Kind::dual)
            execute_dual(wave, instruction);
        else
            instruction.execute(wave, instruction);
        if (wave.shared_registers) wave.share_result(instruction);
        if (instruction.ends) wave.end();
        if (instruction.arrives_at_barrier) wave.shared_done_at_barrier = wave.shared_done();
        if (instruction.is_barrier && !instruction.is_removed) wave.waits_at_barrier = true;
        if (instruction.ends || instruction.is_barrier || n == most_instructions) return;
        if (wave.executed > kMostInstructionsOfWave) stop("a wave does not end");
    }
}

namespace {

// Returns the instructions that its waves executed.
uint64_t run_workgroups(const Dispatch &dispatch, Program &program) {
    const FloatMode mode(dispatch.resources[0]);
    begin_dispatch_for_races();
    WorkgroupRun workgroup(dispatch, program);
    std::vector<uint64_t> order(uint64_t(dispatch.groups[0]) * dispatch.groups[1] * dispatch.groups[2]);
    std::iota(order.begin(), order.end(), uint64_t(0));
    arrange(order);
    uint64_t executed = 0;
    for (const uint64_t index : order) executed += workgroup.run(index);
    return executed;
}

} // namespace

void run(const Dispatch &dispatch) {
    if (is_skipped()) return;
    char name[64];
    snprintf(name, sizeof name, "program %llx", static_cast<unsigned long long>(dispatch.code));
    set_current_program(dispatch.shader.name.empty() ? name : dispatch.shader.name);
    Program &code = program(dispatch.code, dispatch.lanes);
    code.set_shader(dispatch.shader.name);
    counters().begin_dispatch(dispatch);
    if (settings().removals.empty())
        run_workgroups(dispatch, code);
    else
        run_with_removals(code, dispatch.shader.name, [&] { return run_workgroups(dispatch, code); });
    counters().end_dispatch();
}

} // namespace execute
