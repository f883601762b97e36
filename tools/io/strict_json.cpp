#include "tools/io/strict_json.hpp"

#include "tools/io/input_error.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

// Looks through a text before it is parsed: nlohmann::json keeps the last of repeated keys in silence. It is not
// nlohmann's callback, which looks through all of an object's members at the end of each. What is no JSON ends it
// without a word; the parser says where.
class Watch : public nlohmann::json_sax<Json> {
  public:
    Watch(std::string_view source, std::string_view subject, int max_depth)
        : source_(source), subject_(subject), max_depth_(static_cast<std::size_t>(max_depth)) {}

    bool null() override { return true; }
    bool boolean(bool /*value*/) override { return true; }
    bool number_integer(number_integer_t /*value*/) override { return true; }
    bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
    bool number_float(number_float_t /*value*/, const string_t & /*text*/) override { return true; }
    bool string(string_t & /*value*/) override { return true; }
    bool binary(binary_t & /*value*/) override { return true; }
    bool start_object(std::size_t /*members*/) override { return open(); }
    bool end_object() override { return close(); }
    bool start_array(std::size_t /*elements*/) override { return open(); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t /*byte*/, const std::string & /*token*/, const Json::exception & /*error*/) override {
        return false;
    }

    bool key(string_t &name) override {
        if (!keys_.back().insert(name).second)
            throw InputError(source_, subject_ + " has " + quote_name(name) + " twice, expected each key once");
        return true;
    }

  private:
    bool open() {
        if (keys_.size() >= max_depth_)
            throw InputError(source_, subject_ + " is nested too deep, expected at most " + std::to_string(max_depth_) +
                                          " levels");
        keys_.emplace_back();
        return true;
    }

    bool close() {
        keys_.pop_back();
        return true;
    }

    std::string source_;
    std::string subject_;
    std::size_t max_depth_;
    std::vector<std::set<std::string>> keys_; // of every object that is open; an array has none
};

} // namespace

Json parse_strict_json(std::string_view text, std::string_view source, std::string_view subject, int max_depth) {
    const std::string name(subject);
    Watch watch(source, subject, max_depth);
    Json parsed;
    try {
        Json::sax_parse(text, &watch);
        parsed = Json::parse(text);
    } catch (const Json::parse_error &error) {
        throw InputError(source,
                         name + " is not JSON at byte " + std::to_string(error.byte) + ", expected a JSON object");
    } catch (const Json::exception &error) {
        throw InputError(source, name + " has a value out of range, expected a JSON object of plain numbers");
    }
    if (!parsed.is_object())
        throw InputError(source, name + " is a JSON " + parsed.type_name() + ", expected a JSON object");
    return parsed;
}

Json read_strict_json(const std::filesystem::path &path, std::string_view subject, std::uintmax_t max_bytes,
                      int max_depth) {
    const std::string name(subject);
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw InputError(path.string(), "cannot be read (" + error.message() + "), expected " + name);
    if (size > max_bytes)
        throw InputError(path.string(), "is " + std::to_string(size) + " bytes long, expected " + name +
                                            " of at most " + std::to_string(max_bytes));
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw InputError(path.string(), "cannot be read, expected " + name);
    return parse_strict_json(text, path.string(), subject, max_depth);
}

} // namespace vkattn::tools
