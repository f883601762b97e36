#include "strict_json.hpp"

#include "input_error.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

// Watches the parser: nlohmann::json keeps the last of repeated keys in silence.
class Watch {
  public:
    Watch(std::string_view source, std::string_view subject, int max_depth)
        : source_(source), subject_(subject), max_depth_(max_depth) {}

    bool operator()(int depth, Json::parse_event_t event, const Json &parsed) {
        const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
        if (opens && depth >= max_depth_)
            throw InputError(source_, subject_ + " is nested too deep, expected at most " + std::to_string(max_depth_) +
                                          " levels");
        if (event == Json::parse_event_t::object_start) keys_.emplace_back();
        if (event == Json::parse_event_t::object_end) keys_.pop_back();
        if (event == Json::parse_event_t::key) add_key(parsed.get_ref<const std::string &>());
        return true;
    }

  private:
    void add_key(const std::string &key) {
        if (!keys_.back().insert(key).second)
            throw InputError(source_, subject_ + " has " + quote_name(key) + " twice, expected each key once");
    }

    std::string source_;
    std::string subject_;
    int max_depth_;
    std::vector<std::set<std::string>> keys_;
};

} // namespace

Json parse_strict_json(std::string_view text, std::string_view source, std::string_view subject, int max_depth) {
    const std::string name(subject);
    Watch watch(source, subject, max_depth);
    Json parsed;
    try {
        parsed = Json::parse(text, std::ref(watch));
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
