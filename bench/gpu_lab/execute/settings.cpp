#include "settings.hpp"

#include "findings.hpp"

#include <charconv>
#include <cstdlib>
#include <sstream>

namespace execute {
namespace {

struct Gpu {
    const char *name, *processor;
    int generation;
};
constexpr Gpu kGpus[] = {
    {"polaris10", "gfx803", 8}, {"vega10", "gfx900", 9},   {"navi10", "gfx1010", 10},  {"navi21", "gfx1030", 10},
    {"navi31", "gfx1100", 11},  {"strix1", "gfx1150", 11}, {"gfx1201", "gfx1201", 12},
};

int64_t number(const std::string &name, const std::string &value) {
    int64_t result = 0;
    const char *end = value.data() + value.size();
    const auto [last, error] = std::from_chars(value.data(), end, result);
    if (error != std::errc() || last != end || result < 0)
        stop("VKATTN_EXECUTE: " + name + " is '" + value + "', expected a number of at least 0");
    return result;
}

bool flag(const std::string &name, const std::string &value) {
    if (value != "0" && value != "1") stop("VKATTN_EXECUTE: " + name + " is '" + value + "', expected 0 or 1");
    return value == "1";
}

Order order(const std::string &value) {
    if (value == "forward") return Order::forward;
    if (value == "reversed") return Order::reversed;
    if (value == "random") return Order::random;
    stop("VKATTN_EXECUTE: order is '" + value + "', expected forward, reversed or random");
}

Removal removal(const std::string &value) {
    const size_t last = value.rfind(':'),
                 first = last == std::string::npos || last == 0 ? last : value.rfind(':', last - 1);
    const std::string kind = first == std::string::npos ? "" : value.substr(first + 1, last - first - 1);
    if (kind != "barrier" && kind != "wait")
        stop("VKATTN_EXECUTE: remove is '" + value + "', expected SHADER:barrier:N or SHADER:wait:N");
    return {value.substr(0, first), kind == "barrier", number("remove", value.substr(last + 1))};
}

void set(Settings &result, const std::string &name, const std::string &value) {
    if (name == "order")
        result.order = order(value);
    else if (name == "seed")
        result.seed = uint64_t(number(name, value));
    else if (name == "switch")
        result.switch_after = uint64_t(number(name, value));
    else if (name == "poison")
        result.poison = flag(name, value);
    else if (name == "poison_buffers")
        result.poison_buffers = flag(name, value);
    else if (name == "lds")
        result.lds = flag(name, value);
    else if (name == "memory")
        result.memory = flag(name, value);
    else if (name == "bounds")
        result.bounds = flag(name, value);
    else if (name == "waits")
        result.waits = flag(name, value);
    else if (name == "remove")
        result.remove = removal(value);
    else if (name == "remove_flush")
        result.remove_flush = number(name, value);
    else if (name == "removals")
        result.removals = value;
    else if (name == "fail")
        result.fail = flag(name, value);
    else if (name == "skip_submissions")
        result.skip_submissions = number(name, value);
    else if (name == "counters")
        result.counters = value;
    else if (name == "model")
        result.model = flag(name, value);
    else if (name == "instructions")
        result.instructions = value;
    else if (name == "log")
        result.log = flag(name, value);
    else
        stop("VKATTN_EXECUTE: '" + name +
             "' is unknown, expected one of order, seed, switch, poison, poison_buffers, lds, memory, "
             "bounds, waits, remove, remove_flush, removals, fail, skip_submissions, counters, model, "
             "instructions, log");
}

void choose_gpu(Settings &result, const std::string &gpu) {
    std::string names;
    for (const Gpu &known : kGpus) {
        if (gpu == known.name) {
            result.gpu = known.name;
            result.processor = known.processor;
            result.generation = known.generation;
            return;
        }
        names += std::string(" ") + known.name;
    }
    stop("the GPU '" + gpu + "' is unknown, expected one of" + names);
}

Settings read() {
    Settings result;
    if (const char *gpu = getenv("AMDGPU_GPU_ID")) choose_gpu(result, gpu);
    std::istringstream words(getenv("VKATTN_EXECUTE") ? getenv("VKATTN_EXECUTE") : "");
    for (std::string word; std::getline(words, word, ',');) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos)
            stop("VKATTN_EXECUTE: '" + word + "' has no value, expected NAME=VALUE by commas");
        set(result, word.substr(0, equals), word.substr(equals + 1));
    }
    if (!result.removals.empty() && !result.counters.empty())
        stop("VKATTN_EXECUTE: removals and counters are both set, expected one of them");
    return result;
}

Settings &mutable_settings() {
    static Settings result = read();
    return result;
}

} // namespace

const Settings *known_settings = nullptr;

const Settings &read_settings() { return *(known_settings = &mutable_settings()); }

bool is_rdna1() { return settings().processor == "gfx1010"; }

void set_gpu(const std::string &gpu) { choose_gpu(mutable_settings(), gpu); }

} // namespace execute
