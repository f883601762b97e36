#include "memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vkattn_ort {
namespace {

constexpr std::size_t kMostHostCopyBytes = 64 << 10;
constexpr std::size_t kMostKeptBytes = 64 << 20; // beside half of those in use
constexpr std::size_t kMostHeld = 64;            // tensors, by their bytes
constexpr std::size_t kMostHeldBytes = 64 << 20;

// Sizes in steps of an eighth of their power of two, so that tensors that grow from call to call find kept buffers.
std::size_t rounded(std::size_t bytes) {
    const std::size_t step = std::max<std::size_t>(256, std::bit_floor(bytes) / 8);
    return (bytes + step - 1) / step * step;
}

std::uintptr_t number(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

} // namespace

Scratch::Scratch(Memory &memory, std::size_t bytes) : memory_(memory), address_(memory.allocate(bytes)) {}
Scratch::~Scratch() { memory_.release(address_); }
vkattn_region Scratch::region() const { return address_ ? memory_.region(address_) : vkattn_region{}; }

Memory::~Memory() { (void)vkattn_wait(context_.get(), UINT64_MAX); } // before its buffers go

void *Memory::allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const std::size_t taken = rounded(bytes);
    const std::lock_guard lock(mutex_);
    if (void *kept = take_kept(taken)) return kept;
    try {
        return create(taken);
    } catch (const vkattn::Error &error) {
        const bool is_full = error.result() == VKATTN_ERROR_OUT_OF_DEVICE_MEMORY && !kept_.empty();
        if (!is_full && taken == bytes) throw;
        if (is_full) destroy_kept();
        return create(bytes); // the device's largest buffer may lie between the two
    }
}

void *Memory::take_kept(std::size_t bytes) {
    const auto kept = kept_.find(bytes);
    if (kept == kept_.end()) return nullptr;
    const std::uintptr_t address = kept->second;
    kept_.erase(kept);
    blocks_.at(address).used = true;
    kept_bytes_ -= bytes;
    used_bytes_ += bytes;
    return reinterpret_cast<void *>(address);
}

void *Memory::create(std::size_t bytes) {
    Block block;
    block.buffer = context_.buffer(bytes);
    block.bytes = bytes;
    block.used = true;
    const std::uintptr_t address = next_address_;
    blocks_.emplace(address, std::move(block));
    next_address_ += (bytes + 8191) / 4096 * 4096; // a gap behind each
    used_bytes_ += bytes;
    return reinterpret_cast<void *>(address);
}

void Memory::release(void *address) noexcept {
    if (!address) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(number(address));
    if (found == blocks_.end() || !found->second.used) return;
    Block &block = found->second;
    block.used = false;
    block.host_copies.clear();
    used_bytes_ -= block.bytes;
    try {
        kept_.emplace(block.bytes, found->first);
        kept_bytes_ += block.bytes;
        if (kept_bytes_ > kMostKeptBytes + used_bytes_ / 2) destroy_kept();
    } catch (const std::exception &) { // it stays unused until the device goes
    }
}

void Memory::destroy_kept() {
    context_.wait();
    for (const auto &[bytes, address] : kept_) blocks_.erase(address);
    kept_.clear();
    kept_bytes_ = 0;
}

const std::pair<const std::uintptr_t, Memory::Block> &Memory::find(const void *address) const {
    auto found = blocks_.upper_bound(number(address));
    if (found == blocks_.begin() || (--found)->first + found->second.bytes <= number(address) || !found->second.used)
        throw Failure(ORT_INVALID_ARGUMENT,
                      "a tensor does not lie in this device's memory, expected one of its allocator's");
    return *found;
}

std::pair<const std::uintptr_t, Memory::Block> &Memory::find(const void *address) {
    return const_cast<std::pair<const std::uintptr_t, Block> &>(std::as_const(*this).find(address));
}

vkattn_region Memory::region(const void *address) const {
    const std::lock_guard lock(mutex_);
    const auto &[begin, block] = find(address);
    return block.buffer.region(number(address) - begin);
}

void Memory::erase_copies(Block &block, std::size_t offset, std::size_t bytes) {
    std::erase_if(block.host_copies, [&](const auto &copy) {
        return copy.first < offset + bytes && offset < copy.first + copy.second.size();
    });
}

void Memory::forget_host_copy(const void *address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto &[begin, block] = find(address);
    erase_copies(block, number(address) - begin, bytes);
}

void Memory::write(void *to, const void *from, std::size_t bytes) {
    if (bytes == 0) return;
    vkattn_buffer buffer = nullptr;
    std::size_t offset = 0;
    {
        const std::lock_guard lock(mutex_);
        auto &[begin, block] = find(to);
        buffer = block.buffer.get();
        offset = number(to) - begin;
        erase_copies(block, offset, bytes);
        const auto *data = static_cast<const std::byte *>(from);
        if (bytes <= kMostHostCopyBytes) block.host_copies[offset].assign(data, data + bytes);
    }
    vkattn::check(vkattn_buffer_write(buffer, offset, from, bytes));
}

void Memory::read(void *to, const void *from, std::size_t bytes) const {
    if (bytes == 0) return;
    vkattn_buffer buffer = nullptr;
    std::size_t offset = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto &[begin, block] = find(from);
        buffer = block.buffer.get();
        offset = number(from) - begin;
        const auto copy = block.host_copies.find(offset);
        if (copy != block.host_copies.end() && copy->second.size() >= bytes) {
            std::memcpy(to, copy->second.data(), bytes);
            return;
        }
    }
    vkattn::check(vkattn_buffer_read(buffer, offset, to, bytes));
}

void Memory::copy(void *to, const void *from, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    read(data.data(), from, bytes);
    write(to, data.data(), bytes);
}

std::shared_ptr<Scratch> Memory::holding(std::span<const std::byte> bytes) {
    const std::lock_guard lock(held_mutex_);
    const auto found =
        std::ranges::find_if(held_, [&](const Held &each) { return std::ranges::equal(each.bytes, bytes); });
    if (found != held_.end()) {
        held_.splice(held_.begin(), held_, found);
        return found->memory;
    }
    auto made = std::make_shared<Scratch>(*this, bytes.size());
    write(made->address(), bytes.data(), bytes.size());
    held_.push_front({{bytes.begin(), bytes.end()}, made});
    held_bytes_ += bytes.size();
    while (held_.size() > kMostHeld || (held_bytes_ > kMostHeldBytes && held_.size() > 1)) {
        held_bytes_ -= held_.back().bytes.size();
        held_.pop_back();
    }
    return made;
}

} // namespace vkattn_ort
