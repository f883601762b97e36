// The environment variable VKATTN_EXECUTE: NAME=VALUE, by commas.
#pragma once
#include <cstdint>
#include <string>

namespace execute {

enum class Order { forward, reversed, random };

// The n-th barrier or wait that is decoded of each program made of a shader whose name begins so.
struct Removal {
    std::string shader;
    bool is_barrier = true;
    int64_t number = -1; // -1: none
};

struct Settings {
    Order order = Order::forward; // order: in which waves and workgroups run
    uint64_t seed = 1;            // seed: of the random order
    uint64_t switch_after = 0;    // switch: a wave runs 1 to so many instructions in a row; 0: up to a barrier
    bool poison = true;           // poison: registers, LDS, scratch begin as NaN
    bool poison_buffers = true;   // poison_buffers: so does memory that is not zeroed by contract
    bool lds = true;              // lds: races in LDS, and reads of what nobody wrote
    bool memory = true;           // memory: races in memory, in a dispatch and between dispatches
    bool bounds = true;           // bounds: accesses beyond a buffer, even where the hardware clamps them
    bool waits = true;            // waits: registers used before their load has arrived
    Removal remove;               // remove: a barrier or a wait of a shader, SHADER:barrier:N or SHADER:wait:N
    int64_t remove_flush = -1;    // remove_flush: the n-th barrier between dispatches
    std::string removals;         // removals: a file of what notices that each barrier and wait is taken out
    bool fail = true;             // fail: what is found fails the program at its end; 0: it is only told
    int64_t skip_submissions = 0; // skip_submissions: the first n that have dispatches are not executed: warm-ups
    std::string counters;         // counters: a file for a line of JSON a dispatch
    bool model = false;           // model: counters have a modelled time (docs/performance.md)
    std::string instructions;     // instructions: a file for counters by instruction, a line of JSON a dispatch
    bool log = false;             // log: a line a dispatch on standard error
    std::string gpu = "navi31";   // by AMDGPU_GPU_ID
    std::string processor = "gfx1100";
    int generation = 11;
};

// gfx10 as well, but with GCN's place of a wave's number.
bool is_rdna1();

extern const Settings *known_settings; // null until they are read
const Settings &read_settings();

// Read once; ends the program with a line if the environment is wrong.
inline const Settings &settings() { return known_settings ? *known_settings : read_settings(); }

// The GPU of the shim's variable, for tests which have no environment.
void set_gpu(const std::string &gpu);

} // namespace execute
