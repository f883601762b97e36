#include "runtime/spirv/structure.hpp"

#include <algorithm>
#include <array>

namespace vkattn::spirv {
namespace {

constexpr uint32_t kNone = ~0u;

class Structure {
  public:
    explicit Structure(Result &result);
    void repair();

  private:
    void find_constructs();
    bool is_there(uint32_t label) const { return numbers_[label] != kNone; }
    bool leaves_from_within(uint32_t header, uint32_t label) const;
    void repair_selection(uint32_t number);
    void repair_loop(uint32_t number);
    void add_block(uint32_t label, Instruction terminator) {
        added_.push_back({.label = label, .terminator = terminator});
    }

    Result &result_;
    std::vector<Block> &blocks_;
    std::vector<uint32_t> numbers_;           // of blocks, by their labels
    std::vector<uint32_t> constructs_;        // by block: the number of the header of the innermost one around it
    std::vector<std::vector<uint32_t>> from_; // by block: those that go there
    std::vector<Block> added_;
};

Structure::Structure(Result &result)
    : result_(result), blocks_(result.body.blocks), numbers_(result.bound(), kNone), constructs_(blocks_.size(), kNone),
      from_(blocks_.size()) {
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
        numbers_[blocks_[i].label] = i;
        if (!blocks_[i].terminator) blocks_[i].terminator = result_.keep(std::array{uint32_t{OpUnreachable}}); // a call
    }
    find_constructs();
}

// A merge block is of the construct around it, a continue target of the loop; other blocks are where what first goes to
// them is.
void Structure::find_constructs() {
    std::vector<bool> is_assigned(result_.bound());
    const auto assign = [&](uint32_t label, uint32_t construct) {
        if (is_assigned[label]) return;
        is_assigned[label] = true;
        if (is_there(label)) constructs_[numbers_[label]] = construct;
    };
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
        const Instruction merge = blocks_[i].merge;
        if (merge) assign(merge[1], constructs_[i]);
        if (merge.opcode() == OpLoopMerge) assign(merge[2], i);
        for_targets(blocks_[i].terminator, [&](uint32_t label) {
            assign(label, merge ? i : constructs_[i]);
            if (is_there(label) && !std::ranges::count(from_[numbers_[label]], i)) from_[numbers_[label]].push_back(i);
        });
    }
}

// Whether a block of the construct goes to the label from a construct within it, or beside other ways.
bool Structure::leaves_from_within(uint32_t header, uint32_t label) const {
    if (!is_there(label)) return false;
    return std::ranges::any_of(from_[numbers_[label]], [&](uint32_t number) {
        if (number == header) return false;
        if (blocks_[number].merge || blocks_[number].terminator.opcode() != OpBranch) return true;
        uint32_t construct = constructs_[number];
        while (construct != kNone && construct != header && !blocks_[construct].merge)
            construct = constructs_[construct];
        return construct != header;
    });
}

// A selection whose branch was decided is none, unless something leaves it from within: it becomes a switch of one case.
void Structure::repair_selection(uint32_t number) {
    Block &block = blocks_[number];
    if (block.terminator.opcode() != OpBranch) return;
    if (!leaves_from_within(number, block.merge[1])) {
        block.merge = {};
        return;
    }
    const auto is_word = [](Instruction type) { return type.opcode() == OpTypeInt && type[2] == 32; };
    const auto type = std::ranges::find_if(result_.globals, is_word);
    if (type == result_.globals.end()) throw CannotSpecialise("a module without integers");
    const uint32_t zero = result_.constant((*type)[1], 0); // may move what `type` points to
    block.terminator = result_.keep(std::array<uint32_t, 3>{OpSwitch, zero, block.terminator[1]});
}

// A loop whose end goes back no longer is none, unless something leaves it from within: its continue target is then a block
// that nothing reaches.
void Structure::repair_loop(uint32_t number) {
    Block &block = blocks_[number];
    const uint32_t merge = block.merge[1], target = block.merge[2];
    if (is_there(target)) return;
    if (!leaves_from_within(number, merge)) {
        block.merge = {};
        return;
    }
    for (const auto &[instruction, line] : block.body)
        if (instruction.opcode() == OpPhi) throw CannotSpecialise("a loop that never goes back and has a phi");
    add_block(target, result_.keep(std::array{uint32_t{OpBranch}, block.label}));
}

void Structure::repair() {
    std::vector<uint32_t> without_block; // labels of merge blocks that nothing reaches
    for (uint32_t number = static_cast<uint32_t>(blocks_.size()); number-- > 0;) { // inner constructs first
        if (!blocks_[number].merge) continue;
        if (blocks_[number].merge.opcode() == OpLoopMerge)
            repair_loop(number);
        else
            repair_selection(number);
        const Instruction merge = blocks_[number].merge;
        if (merge && !is_there(merge[1]) && !std::ranges::count(without_block, merge[1]))
            without_block.push_back(merge[1]);
    }
    for (const uint32_t label : without_block) add_block(label, result_.keep(std::array{uint32_t{OpUnreachable}}));
    std::ranges::move(added_, std::back_inserter(blocks_));
}

// Joins blocks that only one goes to, and that only to them. A merge instruction names a block for good.
class Joining {
  public:
    explicit Joining(Result &result)
        : blocks_(result.body.blocks), numbers_(result.bound(), kNone), entries_(result.bound()),
          renamed_(result.bound()) {}
    void join();

  private:
    bool takes_next(const Block &block) const;
    void rename_in_phis();

    std::vector<Block> &blocks_;
    std::vector<uint32_t> numbers_, entries_, renamed_; // by label
};

bool Joining::takes_next(const Block &block) const {
    if (block.merge || block.terminator.opcode() != OpBranch) return false;
    const uint32_t to = block.terminator[1];
    const Block &next = blocks_[numbers_[to]];
    const bool has_phi = !next.body.empty() && next.body.front().instruction.opcode() == OpPhi;
    return entries_[to] == 1 && next.label != block.label && !has_phi;
}

void Joining::join() {
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
        numbers_[blocks_[i].label] = i;
        for_targets(blocks_[i].terminator, [&](uint32_t label) { ++entries_[label]; });
        for (size_t word = 1; word < 3 && blocks_[i].merge; ++word)
            if (word == 1 || blocks_[i].merge.opcode() == OpLoopMerge) entries_[blocks_[i].merge[word]] += 2;
    }
    std::vector<bool> is_gone(blocks_.size());
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
        Block &block = blocks_[i];
        while (!is_gone[i] && takes_next(block)) {
            const uint32_t number = numbers_[block.terminator[1]];
            Block &next = blocks_[number];
            std::ranges::move(next.body, std::back_inserter(block.body));
            block.merge = next.merge;
            block.terminator = next.terminator;
            renamed_[next.label] = block.label;
            is_gone[number] = true;
        }
    }
    rename_in_phis();
    std::vector<Block> kept;
    for (uint32_t i = 0; i < blocks_.size(); ++i)
        if (!is_gone[i]) kept.push_back(std::move(blocks_[i]));
    blocks_ = std::move(kept);
}

void Joining::rename_in_phis() {
    for (const Block &block : blocks_)
        for (const auto &[instruction, line] : block.body) {
            if (instruction.opcode() != OpPhi) break;
            for (uint32_t i = 4; i < instruction.size(); i += 2)
                while (renamed_[instruction[i]] != 0) instruction[i] = renamed_[instruction[i]];
        }
}

} // namespace

void repair_structure(Result &result) {
    Structure(result).repair();
    Joining(result).join();
}

} // namespace vkattn::spirv
