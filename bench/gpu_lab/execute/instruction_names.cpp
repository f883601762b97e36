// Names that changed between generations, and what a name says of an instruction.
#include "assembly_text.hpp"

#include <cstdlib>
#include <cstring>

namespace execute {
namespace {

using std::string;

struct Rename {
    const char *from, *to;
};

bool begins(const string &name, const char *prefix) { return name.compare(0, strlen(prefix), prefix) == 0; }
bool has(const string &name, const char *part) { return name.find(part) != string::npos; }

void replace(string &name, const Rename &rename) {
    const size_t at = name.find(rename.from);
    if (at != string::npos) name.replace(at, strlen(rename.from), rename.to);
}

// RDNA 3 names memory's accesses by bits.
constexpr Rename kMemory[] = {
    {"dwordx16", "b512"},
    {"dwordx8", "b256"},
    {"dwordx4", "b128"},
    {"dwordx3", "b96"},
    {"dwordx2", "b64"},
    {"dword", "b32"},
    {"short_d16_hi", "d16_hi_b16"},
    {"short_d16", "d16_b16"},
};
constexpr Rename kLoads[] = {{"ubyte_d16_hi", "d16_hi_u8"},
                             {"sbyte_d16_hi", "d16_hi_i8"},
                             {"ubyte_d16", "d16_u8"},
                             {"sbyte_d16", "d16_i8"},
                             {"ubyte", "u8"},
                             {"sbyte", "i8"},
                             {"ushort", "u16"},
                             {"sshort", "i16"}};
constexpr Rename kStores[] = {{"_byte_d16_hi", "_d16_hi_b8"}, {"_byte", "_b8"}, {"_short", "_b16"}};
constexpr Rename kAtomics[] = {{"_add", "_add_u32"},   {"_sub", "_sub_u32"},  {"_and", "_and_b32"},
                               {"_or", "_or_b32"},     {"_xor", "_xor_b32"},  {"_cmpswap", "_cmpswap_b32"},
                               {"_swap", "_swap_b32"}, {"_smin", "_min_i32"}, {"_smax", "_max_i32"},
                               {"_umin", "_min_u32"},  {"_umax", "_max_u32"}};
constexpr Rename kDataShare[] = {
    {"ds_read2st64_", "ds_load_2addr_stride64_"},
    {"ds_write2st64_", "ds_store_2addr_stride64_"},
    {"ds_read2_", "ds_load_2addr_"},
    {"ds_write2_", "ds_store_2addr_"},
    {"ds_read_", "ds_load_"},
    {"ds_write_", "ds_store_"},
};
constexpr Rename kScalar[] = {{"_andn1", "_and_not0"},
                              {"_andn2", "_and_not1"},
                              {"_orn2", "_or_not1"},
                              {"s_ff1_i32", "s_ctz_i32"},
                              {"s_flbit_i32_b", "s_clz_i32_u"}};
constexpr Rename kVector[] = {
    {"v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32"},
    {"v_max_num_", "v_max_"},
    {"v_min_num_", "v_min_"},
    {"v_pk_max_num_", "v_pk_max_"},
    {"v_pk_min_num_", "v_pk_min_"},
    {"v_max3_num_", "v_max3_"},
    {"v_min3_num_", "v_min3_"},
    {"v_med3_num_", "v_med3_"},
    {"v_dual_max_num_", "v_dual_max_"},
    {"v_dual_min_num_", "v_dual_min_"},
    {"v_minmax_num_", "v_minmax_"},
    {"v_maxmin_num_", "v_maxmin_"},
};
constexpr Rename kRdna4Scalar[] = {
    {"s_add_co_u32", "s_add_u32"},     {"s_sub_co_u32", "s_sub_u32"}, {"s_add_co_ci_u32", "s_addc_u32"},
    {"s_sub_co_ci_u32", "s_subb_u32"}, {"s_add_co_i32", "s_add_i32"}, {"s_sub_co_i32", "s_sub_i32"},
    {"s_addk_co_i32", "s_addk_i32"},
};
// GCN 4's additions all write a carry; later ones say so.
constexpr Rename kGcn4Vector[] = {{"v_add_u32", "v_add_co_u32"},
                                  {"v_sub_u32", "v_sub_co_u32"},
                                  {"v_subrev_u32", "v_subrev_co_u32"},
                                  {"v_addc_u32", "v_add_co_ci_u32"},
                                  {"v_subb_u32", "v_sub_co_ci_u32"}};
constexpr Rename kLaterVector[] = {{"v_add_u32", "v_add_nc_u32"},
                                   {"v_sub_u32", "v_sub_nc_u32"},
                                   {"v_subrev_u32", "v_subrev_nc_u32"},
                                   {"v_addc_co_u32", "v_add_co_ci_u32"},
                                   {"v_subb_co_u32", "v_sub_co_ci_u32"}};
constexpr Rename kShortVector[] = {{"v_add_u16", "v_add_nc_u16"}, {"v_sub_u16", "v_sub_nc_u16"}};

void rename_memory(string &name) {
    if (has(name, "atomic")) {
        if (isdigit(name.back())) return;
        for (const Rename &rename : kAtomics) {
            const size_t length = strlen(rename.from);
            if (name.size() > length && name.compare(name.size() - length, length, rename.from) == 0) {
                name.replace(name.size() - length, length, rename.to);
                return;
            }
        }
        return;
    }
    for (const Rename &rename : kMemory) replace(name, rename);
    if (has(name, "_load_"))
        for (const Rename &rename : kLoads) replace(name, rename);
    else
        for (const Rename &rename : kStores) replace(name, rename);
}

void rename_addition(string &name, int generation) {
    const auto rename = [&](const Rename &entry) {
        if (begins(name, entry.from)) replace(name, entry);
    };
    if (generation <= kGcn4)
        for (const Rename &entry : kGcn4Vector) rename(entry);
    else
        for (const Rename &entry : kLaterVector) rename(entry);
    for (const Rename &entry : kShortVector) rename(entry);
}

} // namespace

string current_name(string name, int generation) {
    const auto rename_all = [&](const auto &renames) {
        for (const Rename &rename : renames) replace(name, rename);
    };
    for (const char *memory : {"buffer_", "global_", "flat_", "scratch_", "s_load_", "s_buffer_load_"})
        if (begins(name, memory)) rename_memory(name);
    if (begins(name, "ds_")) rename_all(kDataShare);
    if (begins(name, "s_")) rename_all(kScalar);
    if (begins(name, "s_") && generation >= kRdna4) rename_all(kRdna4Scalar);
    if (begins(name, "v_")) {
        rename_all(kVector);
        rename_addition(name, generation);
    }
    return name;
}

namespace {

Kind vector_kind(const string &name) {
    if (has(name, "wmma")) return Kind::matrix;
    for (const char *prefix : {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_", "v_s_"})
        if (begins(name, prefix)) return Kind::transcendental;
    if (begins(name, "v_pk_") || has(name, "_dot2") || has(name, "_dot4") || has(name, "fma_mix")) return Kind::packed;
    if (begins(name, "v_mul_lo_u32") || begins(name, "v_mul_hi_") || has(name, "_u64_u32") || has(name, "_f64"))
        return Kind::slow;
    return Kind::vector;
}

// vm_vsrc(0), in bits 2 to 4: accesses of memory have read their registers.
bool waits_for_sources(const string &name, const string &text) {
    if (name != "s_waitcnt_depctr" && name != "s_wait_alu") return false;
    const size_t number = text.find("0x");
    return has(text, "vm_vsrc(0)") ||
           (number != string::npos && (strtoul(text.c_str() + number, nullptr, 0) >> 2 & 7) == 0);
}

bool is_hint(const string &name) {
    for (const char *prefix :
         {"s_nop",           "s_delay",          "s_clause",  "s_endpgm",  "s_setprio",  "s_set_inst",
          "s_inst_prefetch", "s_sendmsg",        "s_code",    "s_sleep",   "s_wait_alu", "s_waitcnt_depctr",
          "s_prefetch",      "s_barrier_signal", "s_version", "buffer_gl", "buffer_wb",  "global_inv",
          "global_wb",       "s_dcache",         "s_icache",  "s_gl1",     "v_nop"})
        if (begins(name, prefix)) return true;
    return false;
}

Kind scalar_kind(const string &name) {
    if (begins(name, "s_load") || begins(name, "s_buffer_load") || begins(name, "s_memtime") ||
        begins(name, "s_memrealtime"))
        return Kind::scalar_load;
    if (begins(name, "s_barrier")) return Kind::barrier;
    if (begins(name, "s_wait")) return Kind::wait;
    if (begins(name, "s_branch") || begins(name, "s_cbranch")) return Kind::branch;
    return Kind::scalar;
}

Kind kind_of(const Instruction &instruction) {
    const string &name = instruction.name;
    if (instruction.inner && !instruction.is_sub_dword) return Kind::dual;
    if (instruction.orders_shared) return Kind::wait;
    if (is_hint(name)) return Kind::hint;
    if (begins(name, "v_")) return vector_kind(name);
    if (begins(name, "s_")) return scalar_kind(name);
    if (begins(name, "ds_")) return has(name, "permute") || has(name, "swizzle") ? Kind::lanes : Kind::shared;
    if (begins(name, "scratch_")) return Kind::scratch;
    if (has(name, "atomic")) return Kind::atomic;
    return has(name, "_load_") ? Kind::load : Kind::store;
}

uint8_t access_bytes(const string &name) {
    struct Width {
        const char *part;
        uint8_t bytes;
    };
    for (const Width &width : {Width{"b512", 64},
                               {"b256", 32},
                               {"b128", 16},
                               {"b96", 12},
                               {"b64", 8},
                               {"_u8", 1},
                               {"_i8", 1},
                               {"_b8", 1},
                               {"u16", 2},
                               {"i16", 2},
                               {"b16", 2}})
        if (has(name, width.part)) return width.bytes;
    return 4;
}

// What a wait leaves in flight: s_waitcnt's parts, or one of RDNA 4's waits for one or two counters.
void read_wait(Instruction &instruction) {
    const string &name = instruction.name, &text = instruction.text;
    auto &wait = instruction.wait_for;
    const auto set = [&](Counter counter, unsigned long value) { wait[size_t(counter)] = uint8_t(value); };
    const size_t space = text.find_last_of(" \t,");
    const unsigned long number = space == string::npos ? 0 : strtoul(text.c_str() + space + 1, nullptr, 0);
    const auto part = [&](const char *prefix, Counter counter) {
        const size_t at = text.find(prefix);
        if (at != string::npos) set(counter, strtoul(text.c_str() + at + strlen(prefix), nullptr, 0));
    };
    if (name == "s_waitcnt") {
        part("vmcnt(", Counter::loads);
        part("lgkmcnt(", Counter::shared);
        if (!has(text, "(") && number == 0) set(Counter::loads, 0), set(Counter::shared, 0);
    } else if (name == "s_waitcnt_vscnt" || name == "s_wait_storecnt") {
        set(Counter::stores, number);
    } else if (name == "s_wait_loadcnt") {
        set(Counter::loads, number);
    } else if (name == "s_wait_dscnt") {
        set(Counter::shared, number);
    } else if (name == "s_wait_kmcnt") {
        set(Counter::scalar, number);
    } else if (name == "s_wait_loadcnt_dscnt") {
        set(Counter::loads, number >> 8 & 63), set(Counter::shared, number & 63);
    } else if (name == "s_wait_storecnt_dscnt") {
        set(Counter::stores, number >> 8 & 63), set(Counter::shared, number & 63);
    }
}

void set_memory_operands(Instruction &instruction) {
    const string &name = instruction.name;
    const auto set = [&](int result, int data, int address, int base) {
        const auto index = [&](int k) {
            return k < 0 || k >= instruction.operand_count ? Instruction::kNoOperand : uint8_t(k);
        };
        instruction.memory_result = index(result), instruction.memory_data = index(data);
        instruction.memory_address = index(address), instruction.memory_base = index(base);
    };
    if (begins(name, "buffer_"))
        set(0, 0, 1, 2);
    else if (instruction.kind == Kind::atomic && instruction.returns)
        set(0, 2, 1, 3);
    else if (instruction.kind == Kind::atomic || has(name, "_store_"))
        set(-1, 1, 0, 2);
    else
        set(0, -1, 1, 2);
}

} // namespace

void classify(Instruction &instruction) {
    const string &name = instruction.name;
    instruction.orders_shared = waits_for_sources(name, instruction.text);
    instruction.kind = kind_of(instruction);
    instruction.ends = name == "s_endpgm";
    instruction.is_barrier = name == "s_barrier" || name == "s_barrier_wait";
    instruction.arrives_at_barrier = name == "s_barrier" || name == "s_barrier_signal";
    instruction.bytes = access_bytes(name);
    if (instruction.kind == Kind::wait) read_wait(instruction);
    if (begins(name, "buffer_") || begins(name, "global_") || begins(name, "flat_") || begins(name, "scratch_"))
        set_memory_operands(instruction);
    if (instruction.kind == Kind::branch && instruction.operand_count == 1)
        instruction.target = instruction.next + uint64_t(int64_t(int16_t(instruction.operands[0].constant)) * 4);
}

const char *kind_name(Kind kind) {
    static constexpr const char *kNames[] = {"vector", "dual",        "transcendental", "packed", "matrix", "slow",
                                             "scalar", "scalar_load", "load",           "store",  "atomic", "scratch",
                                             "shared", "lanes",       "barrier",        "wait",   "branch", "hint"};
    static_assert(std::size(kNames) == size_t(Kind::count));
    return kNames[size_t(kind)];
}

} // namespace execute
