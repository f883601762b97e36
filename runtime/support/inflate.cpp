#include "runtime/support/inflate.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace vkattn {
namespace {

constexpr uint32_t kMostBits = 15; // of a code
constexpr uint32_t kEndOfBlock = 256;

// Bits, the lowest of each byte first. Beyond the end are zeros, which end_of_input() tells.
class Bits {
  public:
    explicit Bits(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    // The next ones, which stay. count: at most 32.
    uint32_t peek(uint32_t count) {
        for (; held_ < count; held_ += 8) {
            const uint64_t byte = at_ < bytes_.size() ? bytes_[at_] : 0;
            ++at_;
            bits_ |= byte << held_;
        }
        return static_cast<uint32_t>(bits_ & ((uint64_t{1} << count) - 1));
    }
    void skip(uint32_t count) {
        bits_ >>= count;
        held_ -= count;
    }
    uint32_t take(uint32_t count) {
        const uint32_t bits = peek(count);
        skip(count);
        return bits;
    }
    void skip_to_byte() { skip(held_ % 8); }
    bool is_beyond_end() const { return at_ - held_ / 8 > bytes_.size(); }

  private:
    std::span<const uint8_t> bytes_;
    size_t at_ = 0;
    uint64_t bits_ = 0;
    uint32_t held_ = 0;
};

// Symbols by the bits that stand for them.
class Codes {
  public:
    explicit Codes(std::span<const uint8_t> lengths)
        : longest_(*std::ranges::max_element(lengths)), entries_(size_t{1} << longest_) {
        std::array<uint32_t, kMostBits + 1> count{};
        for (const uint8_t length : lengths) ++count[length];
        std::array<uint32_t, kMostBits + 2> next{};
        for (uint32_t length = 1; length <= kMostBits; ++length) {
            next[length + 1] = (next[length] + count[length]) << 1;
            if (next[length] + count[length] > 1u << length)
                throw InflateError("more codes than their bits tell apart");
        }
        for (uint32_t symbol = 0; symbol < lengths.size(); ++symbol)
            if (lengths[symbol] != 0) add(symbol, next[lengths[symbol]]++, lengths[symbol]);
    }

    uint32_t next(Bits &bits) const {
        const uint16_t entry = entries_[bits.peek(longest_)];
        if (entry == 0) throw InflateError("a code that stands for nothing");
        bits.skip(entry % 16);
        return entry / 16;
    }

  private:
    // A code's bits begin with its highest.
    void add(uint32_t symbol, uint32_t code, uint32_t length) {
        uint32_t reversed = 0;
        for (uint32_t i = 0; i < length; ++i) reversed |= (code >> i & 1) << (length - 1 - i);
        const auto entry = static_cast<uint16_t>(symbol * 16 + length);
        for (size_t i = reversed; i < entries_.size(); i += size_t{1} << length) entries_[i] = entry;
    }

    uint32_t longest_;              // code, in bits
    std::vector<uint16_t> entries_; // by the next bits: symbol and length; 0: none
};

using BlockCodes = std::pair<Codes, Codes>; // of literals and lengths, of distances

BlockCodes fixed_codes() {
    std::array<uint8_t, 288> lengths{};
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    std::array<uint8_t, 30> distances{};
    distances.fill(5);
    return {Codes(lengths), Codes(distances)};
}

BlockCodes read_codes(Bits &bits) {
    constexpr std::array<uint8_t, 19> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const uint32_t literals = bits.take(5) + 257, distances = bits.take(5) + 1, given = bits.take(4) + 4;
    std::array<uint8_t, kOrder.size()> code_lengths{};
    for (uint32_t i = 0; i < given; ++i) code_lengths[kOrder[i]] = static_cast<uint8_t>(bits.take(3));
    const Codes codes(code_lengths);
    std::vector<uint8_t> lengths;
    while (lengths.size() < literals + distances) {
        const uint32_t symbol = codes.next(bits);
        if (symbol == 16 && lengths.empty()) throw InflateError("a length like the one before the first");
        const uint8_t length = symbol < 16 ? static_cast<uint8_t>(symbol) : symbol == 16 ? lengths.back() : uint8_t{0};
        const uint32_t repeats = symbol < 16    ? 1
                                 : symbol == 16 ? 3 + bits.take(2)
                                 : symbol == 17 ? 3 + bits.take(3)
                                                : 11 + bits.take(7);
        lengths.insert(lengths.end(), repeats, length);
    }
    if (lengths.size() != literals + distances) throw InflateError("more lengths of codes than there are codes");
    const std::span all(lengths);
    return {Codes(all.first(literals)), Codes(all.subspan(literals))};
}

class Inflating {
  public:
    Inflating(std::span<const uint8_t> deflated, size_t bytes) : bits_(deflated), most_(bytes) { out_.reserve(bytes); }

    std::vector<std::byte> run() {
        for (bool is_last = false; !is_last;) {
            is_last = bits_.take(1) != 0;
            const uint32_t kind = bits_.take(2);
            if (kind == 0)
                add_stored();
            else if (kind == 3)
                throw InflateError("a block of no kind");
            else
                add_block(kind == 1 ? fixed_codes() : read_codes(bits_));
            if (bits_.is_beyond_end()) throw InflateError("an end within a block");
        }
        if (out_.size() != most_) throw InflateError("fewer bytes than expected");
        return std::move(out_);
    }

  private:
    void require_room(size_t bytes) const {
        if (bytes > most_ - out_.size()) throw InflateError("more bytes than expected");
    }

    void add_stored() {
        bits_.skip_to_byte();
        const uint32_t count = bits_.take(16);
        if ((bits_.take(16) ^ 0xffffu) != count) throw InflateError("a block whose length is damaged");
        require_room(count);
        for (uint32_t i = 0; i < count; ++i) out_.push_back(std::byte(bits_.take(8)));
    }

    void add_block(const BlockCodes &codes) {
        for (uint32_t symbol = codes.first.next(bits_); symbol != kEndOfBlock; symbol = codes.first.next(bits_)) {
            if (symbol > kEndOfBlock) {
                copy(symbol - kEndOfBlock - 1, codes.second);
                continue;
            }
            require_room(1);
            out_.push_back(std::byte(symbol));
            if (bits_.is_beyond_end()) throw InflateError("an end within a block");
        }
    }

    // symbol: of a length, from 0. The first four, and each fourth further on, have one bit more.
    void copy(uint32_t symbol, const Codes &distances) {
        if (symbol > 28) throw InflateError("a length of no kind");
        const uint32_t more = symbol < 8 || symbol == 28 ? 0 : symbol / 4 - 1;
        const uint32_t base = symbol == 28 ? 258 : symbol < 8 ? 3 + symbol : 3 + ((4 + symbol % 4) << more);
        const size_t length = base + bits_.take(more);
        const uint32_t far = distances.next(bits_);
        if (far > 29) throw InflateError("a distance of no kind");
        const uint32_t more_far = far < 4 ? 0 : far / 2 - 1;
        const size_t distance = (far < 4 ? 1 + far : 1 + ((2 + far % 2) << more_far)) + bits_.take(more_far);
        if (distance > out_.size()) throw InflateError("a copy of what is before the first byte");
        require_room(length);
        for (size_t i = 0; i < length; ++i) out_.push_back(out_[out_.size() - distance]); // may overlap
    }

    Bits bits_;
    size_t most_;
    std::vector<std::byte> out_;
};

} // namespace

std::vector<std::byte> inflate(std::span<const uint8_t> deflated, size_t bytes) {
    return Inflating(deflated, bytes).run();
}

} // namespace vkattn
