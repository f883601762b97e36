#include "tools/estimate/report.hpp"

#include "tools/estimate/cache_choice.hpp"
#include "tools/io/csv.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace vkattn::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();
constexpr std::array<const char *, VKATTN_LAYER_KIND_COUNT> kKindNames{
    "mha", "latent_mha", "latent_query", "mla", "compressed_kv", "encoder_layer", "mla_block"};

std::string tokens_text(std::uint64_t tokens) { return format_value(static_cast<double>(tokens), Unit::kTokens); }
std::string flops_text(double flops) { return format_value(flops, Unit::kCount); }
std::string bound_text(std::uint64_t value) { return value == kUnbounded ? "no limit" : format_grouped(value); }

bool has_memory(std::span<const Estimate> estimates) { return estimates.front().info.memory_bytes != 0; }

bool is_mla(const Estimate &estimate) {
    return estimate.model.config.kind == VKATTN_LAYER_MLA || estimate.model.config.kind == VKATTN_LAYER_MLA_BLOCK;
}

void check_estimate(const EstimateModel &model, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    if (vkattn_estimate(&model.config, &info, &result) != VKATTN_SUCCESS)
        throw InputError(model.name, vkattn_last_error());
}

// How far the memory reaches that states leave.
void leave_states(Estimate &estimate) {
    vkattn_estimate_result &result = estimate.result;
    vkattn_estimate_info rest = estimate.info;
    if (rest.memory_bytes == 0 || estimate.state_bytes() == 0) return;
    rest.memory_bytes -= std::min(estimate.state_bytes(), rest.memory_bytes - 1);
    vkattn_estimate_result reduced{};
    check_estimate(estimate.model, rest, reduced);
    result.max_context_len = reduced.max_context_len;
    const std::uint64_t room = estimate.info.memory_bytes - std::min(estimate.info.memory_bytes, result.weight_bytes);
    result.max_sequences = room / (result.cache_bytes / rest.batch + estimate.model.state_bytes);
}

Estimate estimate_one(const EstimateModel &model, vkattn_estimate_info info, bool scales_rows) {
    info.batch = std::max(1U, info.batch);
    info.context_len = std::max<std::uint64_t>(1, info.context_len);
    if (info.prefill_len == 0) info.prefill_len = info.context_len;
    if (info.num_layers == 0) info.num_layers = std::max(1U, model.num_layers);
    if (info.weight_type == VKATTN_TYPE_NONE) info.weight_type = model.weight_type;
    if (info.weight_type == VKATTN_TYPE_NONE) info.weight_type = VKATTN_TYPE_F16;
    if (info.cache_type == VKATTN_TYPE_NONE) info.cache_type = info.weight_type;
    if (model.with_biases) info.with_biases = 1;
    if (model.config.kind == VKATTN_LAYER_ENCODER) info.causal = 0;
    Estimate estimate{.model = model};
    if (scales_rows) {
        info.key_scaling = VKATTN_SCALING_ROW;
        info.value_scaling = is_mla(estimate) ? VKATTN_SCALING_NONE : VKATTN_SCALING_ROW;
    }
    estimate.info = info;
    check_estimate(model, info, estimate.result);
    leave_states(estimate);
    return estimate;
}

std::string joined(std::span<const std::string> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
}

bool counts_feed_forward(const Estimate &estimate) {
    const vkattn_layer_kind kind = estimate.model.config.kind;
    return kind == VKATTN_LAYER_ENCODER || kind == VKATTN_LAYER_MLA_BLOCK;
}

// What a whole model needs beside these layers: with what the caller has to add.
std::string left_out(std::span<const Estimate> estimates, std::vector<std::string> others) {
    std::vector<std::string> with, without;
    for (const Estimate &estimate : estimates)
        (counts_feed_forward(estimate) ? with : without).push_back(estimate.model.name);
    const std::string whose = with.empty() ? "" : " of " + joined(without);
    others.insert(others.begin(), {"embeddings", "activations"});
    if (!without.empty()) others.insert(others.begin(), "feed-forward layers" + whose);
    return joined(others);
}

// What the lines of parameters and weights count.
std::string counted(std::span<const Estimate> estimates) {
    if (std::ranges::none_of(estimates, counts_feed_forward)) return " of attention alone";
    if (std::ranges::all_of(estimates, counts_feed_forward)) return " without embeddings";
    return "";
}

std::string fitting_sentence(std::span<const Estimate> estimates) {
    std::vector<std::string> fitting;
    for (const Estimate &estimate : estimates)
        if (estimate.fits()) fitting.push_back(estimate.model.name);
    if (fitting.empty()) return "None of them fits.";
    if (fitting.size() == estimates.size() && fitting.size() > 1) return "All fit: " + joined(fitting) + ".";
    return joined(fitting) + (fitting.size() == 1 ? " fits." : " fit.");
}

std::string misfit_sentence(const Estimate &estimate) {
    const vkattn_estimate_result &result = estimate.result;
    std::string text = estimate.model.name + " does not fit: it needs " + format_bytes(estimate.bytes_needed());
    if (result.weight_bytes > estimate.info.memory_bytes)
        return text + ", its weights alone " + format_bytes(result.weight_bytes) + ".";
    return text + " (weights " + format_bytes(result.weight_bytes) + ", cache " + format_bytes(result.cache_bytes) +
           (estimate.state_bytes() != 0 ? ", states " + format_bytes(estimate.state_bytes()) : "") +
           "); its longest context is " + format_grouped(result.max_context_len) + " tokens.";
}

std::string cache_of_a_token(const Estimate &estimate) { return format_bytes(estimate.result.cache_bytes_per_token); }

// Why the winner wins: a small cache as a rule, small weights where another has the smaller cache.
std::string reason(const Estimate &best, std::span<const Estimate *const> rivals) {
    const auto per_token = [](const Estimate *estimate) { return estimate->result.cache_bytes_per_token; };
    const Estimate &most = **std::ranges::max_element(rivals, {}, per_token);
    const Estimate &least = **std::ranges::min_element(rivals, {}, per_token);
    std::string text = "it caches " + cache_of_a_token(best) + " a token";
    if (per_token(&most) > per_token(&best)) {
        const double ratio = static_cast<double>(per_token(&most)) / static_cast<double>(per_token(&best));
        text += ", " + format_value(ratio, Unit::kPlain) + " times less than the " + cache_of_a_token(most) + " of " +
                most.model.name;
    }
    text +=
        ", and its weights leave " + format_bytes(best.info.memory_bytes - best.result.weight_bytes) + " for caches";
    if (per_token(&least) < per_token(&best))
        text += "; " + least.model.name + " caches less (" + cache_of_a_token(least) +
                " a token), but its weights take " + format_bytes(least.result.weight_bytes);
    return text;
}

std::string nobody_sentence(std::span<const Estimate *const> rivals) {
    const Estimate &nearest = **std::ranges::max_element(
        rivals, {}, [](const Estimate *estimate) { return estimate->result.max_context_len; });
    std::string text = "None serves a sequence of " + tokens_text(nearest.info.context_len) + " tokens";
    if (nearest.result.max_context_len == 0) return text + ".";
    return text + "; the longest context is that of " + nearest.model.name + ", " +
           format_grouped(nearest.result.max_context_len) + " tokens" + (nearest.info.batch > 1 ? " a sequence." : ".");
}

std::string winner_sentence(std::span<const Estimate *const> rivals) {
    const auto sequences = [](const Estimate *estimate) { return estimate->result.max_sequences; };
    const Estimate *best = *std::ranges::max_element(rivals, {}, sequences);
    if (sequences(best) == 0) return nobody_sentence(rivals);
    const std::string count = format_grouped(sequences(best));
    if (rivals.size() == 1)
        return best->model.name + " serves " + count + (sequences(best) == 1 ? " sequence: " : " sequences: ") +
               reason(*best, rivals) + ".";
    std::vector<std::string> equals;
    for (const Estimate *rival : rivals)
        if (rival != best && sequences(rival) == sequences(best)) equals.push_back(rival->model.name);
    std::string text = best->model.name + " serves the most sequences, " + count;
    if (!equals.empty()) text += " (as many as " + joined(equals) + ")";
    return text + ": " + reason(*best, rivals) + ".";
}

struct Row {
    std::string title;
    std::vector<std::string> cells;
};

void print_rows(std::ostream &out, std::span<const Row> rows) {
    std::size_t title_width = 0;
    std::vector<std::size_t> widths(rows.front().cells.size(), 0);
    for (const Row &row : rows) {
        title_width = std::max(title_width, row.title.size());
        for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
    }
    for (const Row &row : rows) {
        out << row.title << std::string(title_width - row.title.size(), ' ');
        for (std::size_t i = 0; i < widths.size(); ++i)
            out << "  " << std::string(widths[i] - row.cells[i].size(), ' ') << row.cells[i];
        out << '\n';
    }
}

class Table {
  public:
    explicit Table(std::span<const Estimate> estimates) : estimates_(estimates) {}

    template <class Cell>
    void add(std::string title, Cell &&cell) {
        Row row{std::move(title), {}};
        for (const Estimate &estimate : estimates_) row.cells.push_back(cell(estimate));
        rows_.push_back(std::move(row));
    }

    template <class Cell>
    void add_of_decoders(const char *title, Cell &&cell) {
        add(title, [&](const Estimate &estimate) { return estimate.has_cache() ? cell(estimate) : std::string("-"); });
    }

    void print(std::ostream &out) const { print_rows(out, rows_); }

  private:
    std::span<const Estimate> estimates_;
    std::vector<Row> rows_;
};

void add_sizes(Table &table, std::span<const Estimate> estimates) {
    table.add("layers", [](const Estimate &e) { return std::to_string(e.info.num_layers); });
    table.add("weights, cache in",
              [](const Estimate &e) { return type_name(e.info.weight_type) + ", " + type_name(e.info.cache_type); });
    table.add("parameters" + counted(estimates),
              [](const Estimate &e) { return format_value(static_cast<double>(e.result.parameters), Unit::kCount); });
    table.add("weights" + counted(estimates), [](const Estimate &e) { return format_bytes(e.result.weight_bytes); });
    table.add_of_decoders("cache, one token", [](const Estimate &e) { return cache_of_a_token(e); });
    table.add_of_decoders("cache, whole batch", [](const Estimate &e) { return format_bytes(e.result.cache_bytes); });
    if (std::ranges::any_of(estimates, [](const Estimate &e) { return e.model.state_bytes != 0; }))
        table.add("states, whole batch", [](const Estimate &e) { return format_bytes(e.state_bytes()); });
}

void add_work(Table &table) {
    table.add("prefill, projections", [](const Estimate &e) { return flops_text(e.result.prefill_projection_flops); });
    table.add("prefill, attention", [](const Estimate &e) { return flops_text(e.result.prefill_attention_flops); });
    table.add_of_decoders("step, projections",
                          [](const Estimate &e) { return flops_text(e.result.decode_projection_flops); });
    table.add_of_decoders("step, attention",
                          [](const Estimate &e) { return flops_text(e.result.decode_attention_flops); });
    table.add_of_decoders("step, bytes moved", [](const Estimate &e) { return format_bytes(e.result.decode_bytes); });
    table.add_of_decoders("step, FLOP/byte",
                          [](const Estimate &e) { return format_value(e.result.decode_intensity, Unit::kPlain); });
}

void add_workspaces(Table &table) {
    const auto text = [](const std::optional<std::uint64_t> &bytes) { return bytes ? format_bytes(*bytes) : "-"; };
    table.add("prefill, workspace", [&](const Estimate &e) { return text(e.prefill_workspace); });
    table.add("step, workspace", [&](const Estimate &e) { return text(e.step_workspace); });
}

bool has_workspaces(std::span<const Estimate> estimates) {
    return std::ranges::any_of(estimates, [](const Estimate &e) { return e.prefill_workspace.has_value(); });
}

void add_reach(Table &table) {
    table.add("fits", [](const Estimate &e) { return std::string(e.fits() ? "yes" : "no"); });
    table.add("longest context", [](const Estimate &e) { return bound_text(e.result.max_context_len); });
    table.add("sequences", [](const Estimate &e) { return bound_text(e.result.max_sequences); });
}

std::string use_text(const vkattn_estimate_info &info) {
    std::string text = "context " + tokens_text(info.context_len) + ", prefill " + tokens_text(info.prefill_len) +
                       (info.causal != 0 ? " causal" : "") + ", batch " + std::to_string(info.batch);
    if (info.memory_bytes != 0) text += ", memory " + format_bytes(info.memory_bytes);
    if (info.key_scaling != VKATTN_SCALING_NONE) text += ", a scale of each cached row";
    return text;
}

void print_notes(std::ostream &out, std::span<const Estimate> estimates) {
    out << "Prefill and step (one new token a sequence) in FLOP, a multiply-add being 2.\nNot counted: "
        << left_out(estimates, {}) << ". ";
    out << (has_workspaces(estimates)
                ? "Workspaces are those of one call on this device; layers that run in turn share one.\n"
                : "Workspaces need a device: --device.\n");
    const auto mla = std::ranges::find_if(estimates, is_mla);
    if (mla != estimates.end())
        out << mla->model.name
            << (mla->model.config.mla_form == VKATTN_MLA_ABSORB
                    ? " is counted in its absorbed form; naive (--mla-form) prefills cheaper and steps dearer.\n"
                    : " is counted in its naive form; absorbed (--mla-form) it steps cheaper and prefills dearer.\n");
    for (const Estimate &estimate : estimates)
        for (const std::string &note : estimate.model.notes) out << clean_line(note) << ".\n";
}

void print_cache_types(std::ostream &out, std::span<const Estimate> estimates) {
    std::vector<Row> rows;
    for (const std::vector<std::string> &words : cache_table(estimates)) {
        Row row{clean_line(words.front()), {}};
        for (std::size_t i = 1; i < words.size(); ++i) row.cells.push_back(clean_line(words[i]));
        rows.push_back(std::move(row));
    }
    if (rows.empty()) return;
    out << "Cache of the whole batch by the type of K and V, beside how much more perplexity than in f16 a model had\n"
           "with them in that type, and with them rotated ("
        << measured_on() << "):\n\n";
    print_rows(out, rows);
    out << '\n';
    for (const std::string &sentence : cache_advice(estimates)) out << clean_line(sentence) << '\n';
    out << "Other models and sizes of heads differ, and of latents it was not measured: `vkattn-lm perplexity` "
           "measures "
           "yours.\n\n";
}

OrderedJson cache_types_json(const Estimate &estimate) {
    OrderedJson types = OrderedJson::array();
    for (const CacheChoice &choice : cache_choices(estimate)) {
        OrderedJson type{{"key_type", type_name(choice.cost.key_type)},
                         {"value_type", type_name(choice.cost.value_type)},
                         {"rotated", choice.cost.rotated},
                         {"perplexity_percent", choice.cost.percent},
                         {"perplexity_percent_error", choice.cost.error},
                         {"cache_bytes_per_token", choice.bytes_per_token},
                         {"cache_bytes", choice.bytes}};
        if (estimate.info.memory_bytes != 0) {
            type["fits"] = choice.fits;
            type["max_context_len"] = choice.max_context_len;
        }
        types.push_back(std::move(type));
    }
    return types;
}

OrderedJson bound_json(std::uint64_t value) { return value == kUnbounded ? OrderedJson(nullptr) : OrderedJson(value); }

OrderedJson optional_json(const std::optional<std::uint64_t> &value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson to_json(const Estimate &estimate) {
    const vkattn_estimate_info &info = estimate.info;
    const vkattn_estimate_result &result = estimate.result;
    OrderedJson json{{"name", estimate.model.name},
                     {"op", kKindNames.at(estimate.model.config.kind)},
                     {"num_layers", info.num_layers},
                     {"batch", info.batch},
                     {"prefill_len", info.prefill_len},
                     {"context_len", info.context_len},
                     {"weight_type", type_name(info.weight_type)},
                     {"cache_type", type_name(info.cache_type)},
                     {"with_biases", info.with_biases != 0},
                     {"causal", info.causal != 0},
                     {"counted", counts_feed_forward(estimate) ? "attention and feed-forward" : "attention"},
                     {"parameters", result.parameters},
                     {"weight_bytes", result.weight_bytes},
                     {"cache_bytes_per_token", result.cache_bytes_per_token},
                     {"cache_bytes", result.cache_bytes},
                     {"state_bytes", estimate.state_bytes()},
                     {"prefill_projection_flops", result.prefill_projection_flops},
                     {"prefill_attention_flops", result.prefill_attention_flops},
                     {"decode_projection_flops", result.decode_projection_flops},
                     {"decode_attention_flops", result.decode_attention_flops},
                     {"decode_bytes", result.decode_bytes},
                     {"decode_intensity", result.decode_intensity}};
    json["prefill_workspace_bytes"] = optional_json(estimate.prefill_workspace);
    json["decode_workspace_bytes"] = optional_json(estimate.step_workspace);
    if (info.memory_bytes == 0) return json;
    json["memory_bytes"] = info.memory_bytes;
    json["fits"] = estimate.fits();
    json["max_context_len"] = bound_json(result.max_context_len);
    json["max_sequences"] = bound_json(result.max_sequences);
    return json;
}

} // namespace

std::vector<Estimate> estimate_all(std::span<const EstimateModel> models, const vkattn_estimate_info &use,
                                   bool scales_rows) {
    std::vector<Estimate> estimates;
    for (const EstimateModel &model : models) estimates.push_back(estimate_one(model, use, scales_rows));
    return estimates;
}

std::vector<std::string> verdict(std::span<const Estimate> estimates) {
    const vkattn_estimate_info &info = estimates.front().info;
    std::vector<std::string> sentences{"In " + format_bytes(info.memory_bytes) + " for weights and cache, without " +
                                       left_out(estimates, {"workspaces"}) + ", with " + std::to_string(info.batch) +
                                       (info.batch == 1 ? " sequence of " : " sequences of ") +
                                       tokens_text(info.context_len) + " tokens: " + fitting_sentence(estimates)};
    std::vector<const Estimate *> rivals;
    for (const Estimate &estimate : estimates) {
        if (!estimate.fits()) sentences.push_back(misfit_sentence(estimate));
        if (estimate.has_cache())
            rivals.push_back(&estimate);
        else
            sentences.push_back(estimate.model.name + " keeps no cache, so that it is not compared by sequences.");
    }
    if (!rivals.empty()) sentences.push_back(winner_sentence(rivals));
    return sentences;
}

void print_table(std::ostream &out, std::span<const Estimate> estimates) {
    out << use_text(estimates.front().info) << "\n\n";
    Table table(estimates);
    table.add("", [](const Estimate &estimate) { return clean_line(estimate.model.name); });
    add_sizes(table, estimates);
    add_work(table);
    if (has_workspaces(estimates)) add_workspaces(table);
    if (has_memory(estimates)) add_reach(table);
    table.print(out);
    out << '\n';
    print_cache_types(out, estimates);
    print_notes(out, estimates);
    if (!has_memory(estimates)) return;
    out << '\n';
    for (const std::string &sentence : verdict(estimates)) out << clean_line(sentence) << '\n';
}

void print_json(std::ostream &out, std::span<const Estimate> estimates) {
    OrderedJson report{{"estimates", OrderedJson::array()}};
    OrderedJson notes = OrderedJson::array();
    for (const Estimate &estimate : estimates) {
        report["estimates"].push_back(to_json(estimate));
        report["estimates"].back()["cache_types"] = cache_types_json(estimate);
        for (const std::string &note : estimate.model.notes) notes.push_back(note);
    }
    report["notes"] = notes;
    if (has_memory(estimates)) report["verdict"] = verdict(estimates);
    report["perplexity_measured_on"] = measured_on();
    report["advice"] = cache_advice(estimates);
    out << report.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

void print_csv(std::ostream &out, std::span<const Estimate> estimates) {
    std::vector<OrderedJson> rows;
    for (const Estimate &estimate : estimates) rows.push_back(to_json(estimate));
    write_csv(out, rows);
}

} // namespace vkattn::tools
