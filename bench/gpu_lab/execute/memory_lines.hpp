// Which lines of memory the caches hold. Within a dispatch each line comes from beyond L2 once, since its workgroups run side
// by side; between dispatches of a submission L2 and the last level keep what was touched last, as much as they hold.
// A submission begins with empty caches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace execute {

enum class Level : uint8_t { workgroup, l2, last_level, dram }; // the nearest that has a line

// The lines touched last.
class RecentLines {
  public:
    explicit RecentLines(uint64_t bytes);
    bool contains(uint64_t line) const { return lines_.count(line) != 0; }
    // The number of written lines that it has to give away for this one: 0 or 1.
    uint64_t add(uint64_t line, bool is_written);
    void clear();

  private:
    struct Line {
        std::list<uint64_t>::iterator place;
        bool is_written;
    };
    size_t most_;
    std::list<uint64_t> order_; // the last touched at the end
    std::unordered_map<uint64_t, Line> lines_;
};

// Bytes of a dispatch.
struct Traffic {
    uint64_t l2 = 0, last_level = 0, dram = 0;
};

class MemoryLines {
  public:
    MemoryLines(uint64_t l2_bytes, uint64_t last_level_bytes);
    void begin_submission();
    void begin_dispatch();
    void begin_workgroup() { group_++; }
    Level touch(uint64_t line, bool is_write);
    // Also keeps what the dispatch touched.
    Traffic end_dispatch();

  private:
    struct Line {
        uint64_t group = 0; // the last that touched it
        bool is_written = false;
    };
    RecentLines l2_, last_level_;
    bool has_last_level_;
    uint64_t group_ = 0;
    std::unordered_map<uint64_t, Line> lines_; // of the dispatch
    std::vector<uint64_t> order_;              // in which it touched them first
    Traffic traffic_;
};

} // namespace execute
