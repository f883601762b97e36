#include "tools/checkpoints/checkpoint.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"

namespace vkattn::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestIndex = 100'000'000;
constexpr int kDeepestIndex = 8;
constexpr const char *kIndexName = "model.safetensors.index.json";
constexpr const char *kSingleName = "model.safetensors";

fs::path file_in(const fs::path &path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return path;
    if (fs::exists(path / kIndexName, error)) return path / kIndexName;
    if (fs::exists(path / kSingleName, error)) return path / kSingleName;
    throw InputError(path.string(), "is a folder without a checkpoint, expected " + std::string(kIndexName) + " or " +
                                        kSingleName + " in it");
}

// An index may come from anyone: its shards lie beside it and nowhere else.
bool is_plain_file_name(const std::string &name) {
    const std::string forbidden("/\\:\0", 4);
    return !name.empty() && name != "." && name != ".." && name.find_first_of(forbidden) == std::string::npos;
}

} // namespace

Checkpoint::Checkpoint(const fs::path &path) {
    const fs::path file = file_in(path);
    source_ = file.string();
    if (file.extension() == ".json")
        read_index(file);
    else
        names_ = open(file).names();
}

void Checkpoint::read_index(const fs::path &path) {
    const nlohmann::json index = read_strict_json(path, "the index of a checkpoint", kLargestIndex, kDeepestIndex);
    const auto map = index.find("weight_map");
    if (map == index.end() || !map->is_object())
        throw InputError(source_, "has no \"weight_map\", expected an object of tensor names and their shards");
    for (const auto &[name, shard] : map->items()) {
        if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string &>()))
            throw InputError(source_,
                             "tensor " + quote_name(name) + " lies in shard " +
                                 quote_name(shard.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) +
                                 ", expected the name of a file in the folder of the index");
        shards_[name] = path.parent_path() / shard.get_ref<const std::string &>();
        names_.insert(name);
    }
}

SafetensorsFile &Checkpoint::open(const fs::path &path) {
    const auto found = open_.find(path);
    if (found != open_.end()) return found->second;
    return open_.emplace(path, SafetensorsFile(path)).first->second;
}

HostTensor Checkpoint::read(const std::string &name) {
    if (shards_.empty()) return open(source_).read(name);
    const fs::path &shard = shards_.at(name);
    std::error_code error;
    if (!fs::exists(shard, error))
        throw InputError(source_, "tensor " + quote_name(name) + " lies in shard " +
                                      quote_name(shard.filename().string()) +
                                      ", which does not exist, expected it in the folder of the index");
    SafetensorsFile &file = open(shard);
    if (!file.contains(name))
        throw InputError(shard.string(), "lacks tensor " + quote_name(name) + ", expected it by " + source_);
    return file.read(name);
}

} // namespace vkattn::tools
