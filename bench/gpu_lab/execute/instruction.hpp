// An instruction as it was decoded: operands, modifiers, and the function that executes it for a wave.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace execute {

struct Wave;
struct Instruction;
using Execute = void (*)(Wave &, const Instruction &);

// GCN 4 is gfx8, GCN 5 gfx9, RDNA 1 and 2 are gfx10, RDNA 3 and 4 gfx11 and gfx12.
enum Generation : int { kGcn4 = 8, kGcn5 = 9, kRdna1 = 10, kRdna3 = 11, kRdna4 = 12 };

// Scalar registers beyond s105 have these indices in every generation here.
enum ScalarRegister : uint16_t {
    kVcc = 106,
    kTrap = 108,
    kNull = 124,
    kM0 = 125,
    kExec = 126,
    kScc = 128,
    kFlatScratch = 130
};

enum class Source : uint8_t { none, vector, scalar, constant };

struct Operand {
    Source source = Source::none; // none: "off"
    uint16_t index = 0;           // the first register
    uint8_t count = 1;            // registers
    bool negate = false, absolute = false, sign_extend = false;
    bool is_half = false, is_high = false; // v0.l and v0.h
    bool is_float = false;                 // a constant printed as a float
    uint64_t constant = 0;                 // its bits; of a float, those of f32
    double number = 0;                     // a float's value

    bool is_register() const { return source == Source::scalar && index != kNull; }
};

// Registers: vector ones, then scalar ones.
class RegisterSet {
  public:
    void clear() { words_.fill(0); }
    void add(Source source, uint32_t first, uint32_t count) {
        if (source != Source::vector && source != Source::scalar) return;
        const uint32_t begin = first + (source == Source::scalar ? kScalars : 0);
        for (uint32_t k = begin; k < begin + count && k < kRegisters; k++) words_[k / 64] |= 1ull << (k % 64);
    }
    bool meets(const RegisterSet &other) const {
        uint64_t both = 0;
        for (size_t k = 0; k < words_.size(); k++) both |= words_[k] & other.words_[k];
        return both != 0;
    }

  private:
    static constexpr uint32_t kScalars = 320, kRegisters = 512;
    std::array<uint64_t, kRegisters / 64> words_{};
};

// Data-parallel primitives: from which lane source 0 is read.
enum class LaneMove : uint8_t {
    none,
    quad,
    shift_left,
    shift_right,
    rotate,
    mirror,
    half_mirror,
    broadcast_15,
    broadcast_31,
    share,
    xor_mask,
    eight
};

enum class Counter : uint8_t {
    loads,
    stores,
    shared,
    scalar,
    count
}; // vmcnt, vscnt, lgkmcnt, kmcnt and their successors

enum class Kind : uint8_t {
    vector,
    dual,
    transcendental,
    packed,
    matrix,
    slow,
    scalar,
    scalar_load,
    load,
    store,
    atomic,
    scratch,
    shared,
    lanes,
    barrier,
    wait,
    branch,
    hint,
    count
};
const char *kind_name(Kind kind);

struct Instruction {
    Execute execute = nullptr;
    uint64_t address = 0, next = 0, target = 0;
    std::unique_ptr<Instruction> inner; // the second half of a dual instruction; what SDWA executes
    std::string text, name;             // as LLVM prints it; the name of today's generation
    std::array<uint8_t, 20> code{};     // the first length bytes
    uint8_t length = 4;
    std::array<Operand, 8> operands;
    uint8_t operand_count = 0;

    uint32_t offset = 0, offsets[2] = {};
    bool has_offset_register = false, has_index_register = false, returns = false, clamps = false;
    uint8_t output_scale = 0; // 1: times 2, 2: times 4, 3: halved
    bool has_op_sel = false;
    uint8_t op_sel = 0, op_sel_hi = 0xff, neg_lo = 0, neg_hi = 0; // a bit a source

    LaneMove move = LaneMove::none;
    uint32_t move_by = 0;
    std::array<uint8_t, 8> permutation{};
    uint8_t row_mask = 15, bank_mask = 15;
    bool bound_control = false, fetch_inactive = false;

    bool is_sub_dword = false;                 // SDWA
    std::array<uint8_t, 3> select = {6, 6, 6}; // of the destination and two sources: a byte, 4 or 5 a word, 6 the whole
    enum class Unused : uint8_t { zeros, sign, preserve } unused = Unused::zeros;
    uint8_t first_source = 1; // operands before are written

    // Vector memory: indices of operands; kNoOperand where there is none.
    static constexpr uint8_t kNoOperand = 255;
    uint8_t memory_data = 0, memory_result = 0, memory_address = 1, memory_base = 2;

    Kind kind = Kind::vector;
    std::array<uint8_t, size_t(Counter::count)> wait_for = {255, 255, 255, 255}; // how many may be left; 255: any
    bool ends = false, is_barrier = false, arrives_at_barrier = false, reads_other_lanes = false;
    // vm_vsrc(0): LDS does what the wave asked for before what others ask for later.
    bool orders_shared = false;
    bool is_removed = false; // a barrier or wait that does nothing, to see what notices
    uint8_t bytes = 4;       // of a lane's access
    RegisterSet registers;   // of all operands, of both halves of a dual instruction
};

} // namespace execute
