#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

// FNV-1a, 64 bits (Fowler, Noll and Vo): it finds damage, not malice.
class Hash {
  public:
    void add(const void *data, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i)
            value_ = (value_ ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
    }
    template <class Value>
    void add(const Value &value) {
        add(&value, sizeof value);
    }
    uint64_t value() const { return value_; }

  private:
    uint64_t value_ = 0xcbf29ce484222325u;
};

} // namespace vkattn
