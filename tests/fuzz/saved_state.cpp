// What a context saved, as anybody may have changed it: as it comes, and after a header that says it is whole.
#include "runtime/trials/saved_state.hpp"
#include "runtime/device/tunings.hpp"
#include "runtime/device/verdicts.hpp"

#include "expect.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace {

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (const std::byte byte : bytes) value = (value ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
    return value;
}

// Why it is ignored.
std::string read(std::span<const std::byte> bytes, const vkattn::DeviceCaps &caps) {
    const vkattn::SavedState state = vkattn::read_state(bytes, caps);
    if (!state.reason.empty() &&
        !(state.verdicts.empty() && state.attention_tunings.empty() && state.backward_tunings.empty() &&
          state.linear_tunings.empty() && state.pipelines.empty()))
        std::abort();
    vkattn::Tunings tunings;
    tunings.attention.load(state.attention_tunings);
    tunings.backward.load(state.backward_tunings);
    tunings.linear.load(state.linear_tunings);
    if (tunings.attention.save().size() > state.attention_tunings.size() ||
        tunings.backward.save().size() > state.backward_tunings.size() ||
        tunings.linear.save().size() > state.linear_tunings.size())
        std::abort();
    vkattn::Verdicts verdicts;
    verdicts.load(state.verdicts);
    vkattn::Variants variants([](const vkattn::Shader &) {});
    variants.load(state.variants);
    return state.reason;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const vkattn::DeviceCaps caps{};
    const std::span<const std::byte> given = std::as_bytes(std::span(data, size));
    read(given, caps);
    if (size < 40) return 0;
    // magic, identity, checksum, and the sizes of six parts, the first five of which the input says
    std::uint64_t header[9] = {0, vkattn::identity_of(caps), 0, 0, 0, 0, 0, 0, 0};
    std::memcpy(&header[0], "vkattn09", 8);
    const std::span<const std::byte> content = given.subspan(40);
    std::memcpy(&header[3], data, 40);
    header[8] = content.size() - header[3] - header[4] - header[5] - header[6] - header[7];
    header[2] = checksum_of(content);
    std::vector<std::byte> whole(sizeof header + content.size());
    std::memcpy(whole.data(), header, sizeof header);
    if (!content.empty()) std::memcpy(whole.data() + sizeof header, content.data(), content.size());
    expect(read(whole, caps).find("version") == std::string::npos, "the header is that of today's states");
    return 0;
}
