// A safetensors file that is open: what its header says of it, and its tensors one at a time.
#pragma once

#include "tools/tensors/safetensors.hpp"

#include <nlohmann/json_fwd.hpp>

#include <fstream>
#include <map>
#include <set>
#include <string>

namespace vkattn::tools {

class SafetensorsFile {
  public:
    // Opens a file and checks everything that its header claims against the file. Throws InputError.
    explicit SafetensorsFile(const std::filesystem::path &path);

    const std::map<std::string, std::string> &metadata() const { return metadata_; }
    bool contains(const std::string &name) const { return entries_.contains(name); }
    std::set<std::string> names() const;

    // Reads one tensor that the file contains. Throws InputError, also if its dtype is none of enum Dtype.
    HostTensor read(const std::string &name);
    // Reads every tensor. Throws InputError.
    TensorMap read_all();

  private:
    // Where a tensor lies, from the first byte after the header.
    struct Entry {
        std::string dtype_name;
        std::vector<std::uint64_t> shape;
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
    };

    [[noreturn]] void fail(const std::string &message) const;
    nlohmann::json read_header();
    void read_metadata(const nlohmann::json &value);
    void read_entry(const std::string &name, const nlohmann::json &value);
    void check_extent(const std::string &subject, const Entry &entry) const;
    void check_tiling() const;

    std::string source_;
    std::ifstream stream_;
    std::uint64_t file_size_ = 0;
    std::uint64_t data_size_ = 0;
    std::map<std::string, std::string> metadata_;
    std::map<std::string, Entry> entries_;
};

} // namespace vkattn::tools
