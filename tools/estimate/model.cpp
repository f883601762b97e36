#include "tools/estimate/model.hpp"

#include "tools/cases/case_file.hpp"
#include "tools/estimate/config.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"
#include "tools/tensors/foreign_format.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kLargestFile = 16U << 20U;
constexpr int kDeepestNesting = 32;
constexpr const char *kExpected =
    ", expected a configuration in JSON, or the folder of a checkpoint with its config.json";

// A checkpoint's folder or file stands for the config.json in it or beside it, as `run --model` takes them.
std::filesystem::path config_file(const std::filesystem::path &path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return path / "config.json";
    const bool is_checkpoint = path.extension() == ".safetensors" || path.string().ends_with(".safetensors.index.json");
    return is_checkpoint ? path.parent_path() / "config.json" : path;
}

std::string read_text(const std::filesystem::path &path) {
    const std::string name = path.string();
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw InputError(name, "cannot be read (" + error.message() + ")" + kExpected);
    std::ifstream file(path, std::ios::binary);
    std::string first(std::min<std::uintmax_t>(size, 8), '\0');
    file.read(first.data(), static_cast<std::streamsize>(first.size()));
    if (const std::string_view foreign = foreign_format(first); !foreign.empty())
        throw InputError(name, "is " + std::string(foreign) + ": a format that is not read" + kExpected);
    if (size > kLargestFile) throw InputError(name, std::string("is larger than 16 MiB") + kExpected);
    std::string text = first + std::string{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw InputError(name, std::string("cannot be read") + kExpected);
    return text;
}

// A directory's name says more than "config.json".
std::string model_name(const std::string &path) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::absolute(path, error).lexically_normal();
    if (file.filename() == "config.json" && file.parent_path().has_filename())
        return file.parent_path().filename().string();
    return file.stem().string();
}

// The object that a case file has in its metadata, without any tensors.
EstimateModel own_model(const std::string &path, const std::string &text) {
    const CaseFile read = parse_case(path, {{{"vkattn", text}}, {}});
    if (!read.is_layer())
        throw InputError(path, "op '" + read.op + "' has no sizes of its own, expected the configuration of a layer");
    EstimateModel model;
    model.name = model_name(path);
    model.config = read.layer;
    return model;
}

} // namespace

EstimateModel read_model(const std::string &path) {
    const std::filesystem::path file = config_file(path);
    const std::string text = read_text(file);
    const Json json = parse_strict_json(text, file.string(), "the configuration", kDeepestNesting);
    return json.contains("op") ? own_model(file.string(), text)
                               : hugging_face_model(file.string(), model_name(file.string()), json);
}

EstimateModel named_model(const std::string &name, std::uint32_t d_model, std::uint32_t num_heads) {
    EstimateModel model;
    model.name = name;
    if (vkattn_layer_config_from_name(name.c_str(), d_model, num_heads, &model.config) != VKATTN_SUCCESS)
        throw InputError(name, vkattn_last_error());
    return model;
}

std::vector<EstimateModel> usual_models(std::uint32_t d_model, std::uint32_t num_heads) {
    std::vector<EstimateModel> models{named_model("mha", d_model, num_heads)};
    for (const auto &[name, kv_heads] : {std::pair("gqa-8", 8U), std::pair("gqa-4", 4U), std::pair("mqa", 1U)})
        if (num_heads > kv_heads && num_heads % kv_heads == 0) models.push_back(named_model(name, d_model, num_heads));
    models.push_back(named_model("mla", d_model, num_heads));
    return models;
}

} // namespace vkattn::tools
