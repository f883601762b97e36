// execute_instructions GPU: runs instructions for tests, on a wave without a driver. A line of JSON in gives a line out.
//   in: "code": assembly; "lanes": 32 or 64; "exec"; "mode": of float (COMPUTE_PGM_RSRC1's, 0xc0 is RADV's); "scc";
//       "shared": the first of the registers that both halves of a wave have together; there are 8
//       "v", "s": values by register, an array a lane for v; "memory": words at address 0x10000; "lds": words
//       "dispatch": {"workgroups": [x, y, z], "threads": of each, "registers": of vectors, "lds_bytes"} executes workgroups, with
//       the address of memory in s[0:1] and of the workgroup behind it, for the counters that the environment asks for;
//       "cold": as a submission's first; "names": true asks for the table's instructions instead
//   out: "v", "s": of the registers that "want_v" and "want_s" name; "scc", "exec", "vcc"; "memory", "lds"; "findings";
//       "executed": the instructions, as the table names them
#include "assembler.hpp"
#include "counters.hpp"
#include "decoder.hpp"
#include "dispatch.hpp"
#include "findings.hpp"
#include "instruction_table.hpp"
#include "memory_map.hpp"
#include "memory_races.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <iostream>
#include <nlohmann/json.hpp>
#include <xmmintrin.h>

namespace {

using nlohmann::json;
using namespace execute;

constexpr uint64_t kCodeAddress = 0x1000000, kMemoryAddress = 0x10000;

void set_registers(Wave &wave, const json &problem) {
    using Numbers = std::map<std::string, uint32_t>;
    using Vectors = std::map<std::string, std::vector<uint32_t>>;
    for (const auto &[name, values] : problem.value("v", Vectors()))
        std::copy(values.begin(), values.end(), wave.vectors[std::stoi(name)]);
    for (const auto &[name, value] : problem.value("s", Numbers())) wave.scalars[std::stoi(name)] = value;
}

void read_words(std::vector<uint8_t> &bytes, LdsWord *written, const json &words) {
    for (size_t k = 0; k < words.size(); k++) {
        const uint32_t value = words[k].get<uint32_t>();
        memcpy(&bytes[4 * k], &value, 4);
        if (written) written[k].is_written = true;
    }
}

json words_of(const std::vector<uint8_t> &bytes) {
    json result = json::array();
    for (size_t k = 0; k + 4 <= bytes.size(); k += 4) {
        uint32_t value;
        memcpy(&value, &bytes[k], 4);
        result.push_back(value);
    }
    return result;
}

// The code, in a mapping of its own.
std::vector<uint8_t> map_code(const json &problem, int lanes) {
    std::vector<uint8_t> code = assemble(problem.at("code").get<std::string>() + "\ns_endpgm", lanes);
    code.resize(code.size() + 64);
    forget_programs(kCodeAddress, 1 << 20);
    memory().map(kCodeAddress, code.size(), code.data());
    return code;
}

std::vector<uint8_t> map_memory(const json &problem) {
    std::vector<uint8_t> bytes(problem.value("memory", json::array()).size() * 4);
    forget_races(kMemoryAddress, bytes.size());
    if (!bytes.empty()) memory().map(kMemoryAddress, bytes.size(), bytes.data());
    read_words(bytes, nullptr, problem.value("memory", json::array()));
    return bytes;
}

json answer_dispatch(const json &problem, const json &wanted) {
    Dispatch dispatch;
    dispatch.lanes = problem.value("lanes", 32);
    const std::vector<uint8_t> code = map_code(problem, dispatch.lanes), bytes = map_memory(problem);
    dispatch.code = kCodeAddress;
    dispatch.groups = wanted.at("workgroups").get<std::array<uint32_t, 3>>();
    dispatch.group_size = dispatch.last_size = {wanted.at("threads").get<uint32_t>(), 1, 1};
    dispatch.user_data[0] = uint32_t(kMemoryAddress);
    const uint32_t granule = dispatch.lanes == 32 ? 8 : 4;
    dispatch.resources[0] = 0xc0 << 12 | (wanted.value("registers", 24u) / granule - 1);
    dispatch.resources[1] = 2 << 1 | 7 << 7 | wanted.value("lds_bytes", 0u) / 512 << 15;
    if (problem.value("cold", true)) counters().begin_submission();
    execute::run(dispatch);
    return {{"memory", words_of(bytes)}, {"findings", findings()}};
}

json answer(const json &problem) {
    if (problem.value("names", false)) return {{"names", instruction_names()}};
    if (problem.contains("dispatch")) return answer_dispatch(problem, problem["dispatch"]);
    const int lanes = problem.value("lanes", 32);
    const std::vector<uint8_t> code = map_code(problem, lanes), bytes = map_memory(problem);

    Workgroup group;
    auto wave = std::make_unique<Wave>();
    wave->reset(false);
    wave->lanes = lanes;
    wave->generation = settings().generation;
    wave->workgroup = &group;
    wave->pc = kCodeAddress;
    wave->scc = problem.value("scc", 0u);
    wave->first_shared = problem.value("shared", 0);
    wave->shared_registers = wave->first_shared ? 8 : 0;
    wave->set_mask(kExec, problem.value("exec", wave->all_lanes()));
    group.waves = {wave.get()};
    group.lds.resize(problem.value("lds", json::array()).size() * 4);
    group.lds_words.resize(group.lds.size() / 4);
    read_words(group.lds, group.lds_words.data(), problem.value("lds", json::array()));
    set_registers(*wave, problem);

    const uint64_t findings_before = findings();
    const unsigned mode = _mm_getcsr();
    if ((problem.value("mode", 0xc0u) >> 4 & 3) == 0) _mm_setcsr(mode | 0x8040);
    while (!wave->done) run_wave(program(kCodeAddress, lanes), *wave, 0);
    _mm_setcsr(mode);

    json result = {{"scc", wave->scc},
                   {"exec", wave->exec()},
                   {"vcc", wave->mask(kVcc)},
                   {"findings", findings() - findings_before},
                   {"executed", program(kCodeAddress, lanes).names()}};
    for (const int index : problem.value("want_v", std::vector<int>()))
        result["v"][std::to_string(index)] = std::vector<uint32_t>(wave->vectors[index], wave->vectors[index] + lanes);
    for (const int index : problem.value("want_s", std::vector<int>()))
        result["s"][std::to_string(index)] = wave->scalars[index];
    if (!bytes.empty()) result["memory"] = words_of(bytes);
    if (!group.lds.empty()) result["lds"] = words_of(group.lds);
    return result;
}

} // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        std::cerr << "usage: execute_instructions GPU\n";
        return 2;
    }
    set_gpu(arguments[1]);
    for (std::string line; std::getline(std::cin, line);) {
        json result;
        try {
            result = answer(json::parse(line));
        } catch (const std::exception &error) {
            result = {{"error", error.what()}};
        }
        std::cout << result.dump() << std::endl;
    }
    fflush(nullptr);
    std::_Exit(0); // findings are part of the answers
}
