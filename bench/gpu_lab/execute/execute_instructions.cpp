// execute_instructions GPU: runs instructions for tests, on a wave without a driver. A line of JSON in gives a line out.
//   in: "code": assembly; "lanes": 32 or 64; "exec"; "mode": of float (COMPUTE_PGM_RSRC1's, 0xc0 is RADV's); "scc";
//       "v", "s": values by register, an array a lane for v; "memory": words at address 0x10000; "lds": words
//   "names": true asks for the table's instructions instead
//   out: "executed": the names of the instructions that ran, as the table has them; "v", "s": of the registers that "want_v" and "want_s" name; "scc", "exec", "vcc"; "memory", "lds"; "findings"
#include "assembler.hpp"
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

json answer(const json &problem) {
    if (problem.value("names", false)) return {{"names", instruction_names()}};
    const int lanes = problem.value("lanes", 32);
    std::vector<uint8_t> code = assemble(problem.at("code").get<std::string>() + "\ns_endpgm", lanes);
    code.resize(code.size() + 64);
    std::vector<uint8_t> bytes(problem.value("memory", json::array()).size() * 4);
    forget_programs(kCodeAddress, 1 << 20);
    forget_races(kMemoryAddress, bytes.size());
    memory().map(kCodeAddress, code.size(), code.data());
    if (!bytes.empty()) memory().map(kMemoryAddress, bytes.size(), bytes.data());
    read_words(bytes, nullptr, problem.value("memory", json::array()));

    Workgroup group;
    auto wave = std::make_unique<Wave>();
    wave->reset(false);
    wave->lanes = lanes;
    wave->generation = settings().generation;
    wave->workgroup = &group;
    wave->pc = kCodeAddress;
    wave->scc = problem.value("scc", 0u);
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
