// Writes text: a small language model that runs wholly on vkattn, in four variants that differ in their attention
// alone.
#include "decoder.hpp"
#include "sampler.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"
#include "tools/tensors/stored_types.hpp"
#include "vocabulary.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace vkattn::tools;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kClose = 1e-3; // nats a token, between vkattn and PyTorch

struct Options {
    std::string models = TEXTGEN_MODELS;
    std::string model = "gqa";
    std::string prompt = "And the LORD said unto";
    std::uint32_t tokens = 120;
    Sampling sampling;
    std::string cache_type = "f16";
    std::string device;
    bool compare = false;
};

struct Generated {
    std::string text;
    std::uint32_t tokens = 0;
    double seconds = 0; // of all tokens but the first, which the prompt gives and which compiles
    double tokens_per_second() const { return seconds > 0 ? tokens / seconds : 0; }
};

DecoderOptions decoder_options(const Options &options, const std::string &model, std::size_t capacity) {
    const std::filesystem::path named = std::filesystem::path(options.models) / model;
    return {.model = std::filesystem::is_directory(named) ? named : std::filesystem::path(model),
            .capacity = static_cast<std::uint32_t>(capacity),
            .cache_type = type_named("--cache-type", options.cache_type, is_key_value)};
}

void print(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

Generated generate(Decoder &decoder, const Vocabulary &vocabulary, const Options &options, bool streams) {
    std::vector<std::int32_t> prompt = vocabulary.encode(options.prompt);
    Sampler sampler(options.sampling);
    Generated result;
    std::vector<float> logits = decoder.append(prompt);
    Clock::time_point start{};
    for (std::uint32_t i = 0; i < options.tokens; ++i) {
        const std::int32_t token = sampler.choose(logits);
        result.text += vocabulary.piece(token);
        if (streams) print(vocabulary.piece(token));
        if (i + 1 == options.tokens) break;
        logits = decoder.append(std::span(&token, 1));
        if (i == 0) start = Clock::now(); // the first step compiles
        if (i > 0) ++result.tokens;
    }
    if (result.tokens > 0) result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return result;
}

// Token numbers mean nothing to a model of another vocabulary.
void check_tokenizer(const std::filesystem::path &model) {
    for (const char *name : {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"})
        if (std::filesystem::exists(model / name))
            throw InputError((model / name).string(), "is a tokenizer of the model's own, expected a model of the "
                                                      "vocabulary that comes with textgen");
}

int write_text(const Options &options, const vkattn::Context &context, const Vocabulary &vocabulary) {
    const std::size_t capacity = vocabulary.encode(options.prompt).size() + options.tokens;
    const DecoderOptions wanted = decoder_options(options, options.model, capacity);
    check_tokenizer(wanted.model);
    Decoder decoder(context, wanted);
    if (decoder.vocabulary_size() != vocabulary.size())
        throw InputError(options.model, "has " + std::to_string(decoder.vocabulary_size()) + " tokens, expected the " +
                                            std::to_string(vocabulary.size()) + " of the vocabulary");
    print(options.prompt);
    const Generated generated = generate(decoder, vocabulary, options, true);
    std::printf("\n\n%s, %.2f million parameters, cache of %zu tokens in %s: %.1f KiB; %.0f tokens/s on %s\n",
                options.model.c_str(), static_cast<double>(decoder.parameters()) / 1e6, capacity,
                options.cache_type.c_str(), static_cast<double>(decoder.cache_bytes()) / 1024,
                generated.tokens_per_second(), context.facts().name);
    return 0;
}

// Text that the models have not seen, and PyTorch's mean negative log-likelihood of its tokens.
struct HeldBack {
    std::vector<std::int32_t> tokens;
    std::size_t window;
    std::map<std::string, double> expected;
};

HeldBack read_held_back(const Options &options) {
    const std::filesystem::path path = std::filesystem::path(options.models) / "held_back.json";
    const nlohmann::json json = read_strict_json(path, "held-back text", 1 << 20, 3);
    try {
        return {json.at("tokens"), json.at("window"), json.at("negative_log_likelihood")};
    } catch (const nlohmann::json::exception &error) {
        throw InputError(path.string(), error.what());
    }
}

double negative_log_likelihood(std::span<const float> logits, std::int32_t token) {
    double largest = -INFINITY, sum = 0;
    for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
    return largest + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

// Of every token of a window but its first, each window by itself.
double score(Decoder &decoder, const HeldBack &text) {
    const std::size_t size = decoder.vocabulary_size();
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t first = 0; first + text.window <= text.tokens.size(); first += text.window) {
        const std::span<const std::int32_t> window = std::span(text.tokens).subspan(first, text.window);
        decoder.clear();
        const std::vector<float> logits = decoder.append_for_all(window.first(text.window - 1));
        for (std::size_t i = 1; i < text.window; ++i, ++count)
            sum += negative_log_likelihood(std::span(logits).subspan((i - 1) * size, size), window[i]);
    }
    return sum / static_cast<double>(count);
}

std::string first_line(const std::string &text, std::size_t length) {
    std::string line = text.substr(0, text.find('\n', 1));
    std::erase(line, '\n');
    return line.size() > length ? line.substr(0, length - 3) + "..." : line;
}

int compare_variants(const Options &options, const vkattn::Context &context, const Vocabulary &vocabulary) {
    const HeldBack text = read_held_back(options);
    const std::size_t capacity = std::max(text.window, vocabulary.encode(options.prompt).size() + options.tokens);
    std::printf("%-5s %10s %12s %10s %12s %12s  %s\n", "", "parameters", "cache B/tok", "tokens/s", "nats/token",
                "PyTorch's", "continues the prompt with");
    bool all_close = true;
    for (const auto &[name, expected] : text.expected) {
        Decoder decoder(context, decoder_options(options, name, capacity));
        const double nats = score(decoder, text);
        decoder.clear();
        const Generated generated = generate(decoder, vocabulary, options, false);
        all_close = all_close && std::fabs(nats - expected) <= kClose;
        std::printf("%-5s %10llu %12.0f %10.0f %12.5f %12.5f  %s\n", name.c_str(),
                    static_cast<unsigned long long>(decoder.parameters()),
                    static_cast<double>(decoder.cache_bytes()) / static_cast<double>(capacity),
                    generated.tokens_per_second(), nats, expected, first_line(generated.text, 60).c_str());
        std::fflush(stdout);
    }
    if (!all_close) std::printf("differs from PyTorch by more than %g nats a token\n", kClose);
    return all_close ? 0 : 1;
}

void add_options(CLI::App &app, Options &options) {
    app.add_option("--model", options.model,
                   "mha, mqa, gqa, mla, or the folder of a Llama or DeepSeek V3 checkpoint with their vocabulary");
    app.add_option("--models", options.models, "the folder of the vocabulary and the four models");
    app.add_option("--prompt", options.prompt, "what to continue")->check([](const std::string &text) {
        return text.empty() ? "expected some text" : "";
    });
    app.add_option("--tokens", options.tokens, "how many to write")->check(CLI::Range(1, 1 << 16));
    app.add_option("--seed", options.sampling.seed, "the same seed writes the same text");
    app.add_option("--temperature", options.sampling.temperature, "0: always the likeliest")
        ->check(CLI::Range(0.0, 100.0));
    app.add_option("--top-k", options.sampling.top_k, "choose among so many; 0: all");
    app.add_option("--cache-type", options.cache_type, type_names(is_key_value, " or "));
    app.add_option("--device", options.device, "an index or part of a name");
    app.add_flag("--compare", options.compare, "all four, with what PyTorch says of the same text");
}

} // namespace

int main(int argc, char **argv) try {
    Options options;
    CLI::App app("Writes text with a small language model that runs wholly on vkattn.", "textgen");
    app.allow_windows_style_options(false); // on Windows /like/this is a folder, too
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    const vkattn::Context context(options.device);
    const Vocabulary vocabulary(std::filesystem::path(options.models) / "vocabulary.json");
    return (options.compare ? compare_variants : write_text)(options, context, vocabulary);
} catch (const std::exception &error) {
    std::fprintf(stderr, "textgen: error: %s\n", error.what());
    return 2;
}
