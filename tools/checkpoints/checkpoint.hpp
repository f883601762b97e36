// A model's weights in one safetensors file, or in shards that an index lists. Reads only what is asked for.
#pragma once

#include "tools/tensors/safetensors_file.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace vkattn::tools {

class Checkpoint {
  public:
    // Opens a .safetensors file, a model.safetensors.index.json, or a folder that has one or the other. Shards are
    // opened when a tensor of theirs is read: the others need not be there. Throws InputError.
    explicit Checkpoint(const std::filesystem::path &path);

    // The file that was opened, for messages.
    const std::string &source() const { return source_; }
    const std::set<std::string> &names() const { return names_; }

    // Reads one of the tensors. Throws InputError if its shard is missing, is damaged or lacks it.
    HostTensor read(const std::string &name);

  private:
    void read_index(const std::filesystem::path &path);
    SafetensorsFile &open(const std::filesystem::path &path);

    std::string source_;
    std::set<std::string> names_;
    std::map<std::string, std::filesystem::path> shards_; // by tensor name; empty: all in source_
    std::map<std::filesystem::path, SafetensorsFile> open_;
};

} // namespace vkattn::tools
