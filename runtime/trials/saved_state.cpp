#include "runtime/trials/saved_state.hpp"

#include "runtime/spirv/specialise.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/hash.hpp"
#include "vkattn_shaders/table.hpp"
#include "vkattn_variant/identity.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr char kMagic[8] = {'v', 'k', 'a', 't', 't', 'n', '0', '9'};

struct SavedHeader {
    char magic[8];
    uint64_t identity; // of device, driver, traits, features and this library with its shaders
    uint64_t checksum; // of everything after the header
    uint64_t verdict_bytes;
    uint64_t attention_tuning_bytes;
    uint64_t backward_tuning_bytes;
    uint64_t linear_tuning_bytes;
    uint64_t variant_bytes;
    uint64_t pipeline_bytes;
};

void add_features(Hash &hash, const DeviceFeatures &features) {
    for (const bool feature :
         {features.buffer_device_address, features.vulkan_memory_model, features.shader_float16, features.shader_int8,
          features.storage_16bit, features.storage_8bit, features.integer_dot_product, features.maintenance4,
          features.subgroup_size_control, features.full_subgroups, features.cooperative_matrix,
          features.cooperative_matrix_reductions, features.flexible_matrices, features.workgroup_matrices,
          features.bfloat16_cooperative_matrix, features.mixed_float_dot_product})
        hash.add(feature);
}

uint64_t hash_of_shaders() {
    Hash hash;
    hash.add(kShaderTexts);
    hash.add(spirv::kSpecialiserVersion);
    for (const Shader *shader : shaders::table()) hash.add(shader->code.stored().data(), shader->code.stored().size());
    return hash.value();
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
    Hash hash;
    hash.add(bytes.data(), bytes.size());
    return hash.value();
}

SavedState ignored(std::string reason) {
    SavedState state;
    state.reason = std::move(reason);
    return state;
}

// Whether content, which follows the header, has the sizes that the header says, and its checksum.
bool is_whole(const SavedHeader &header, std::span<const std::byte> content) {
    uint64_t room = content.size();
    for (uint64_t bytes : {header.verdict_bytes, header.attention_tuning_bytes, header.backward_tuning_bytes,
                           header.linear_tuning_bytes, header.variant_bytes, header.pipeline_bytes}) {
        if (bytes > room) return false;
        room -= bytes;
    }
    return room == 0 && header.verdict_bytes % sizeof(SavedVerdict) == 0 &&
           header.attention_tuning_bytes % sizeof(SavedAttentionTuning) == 0 &&
           header.backward_tuning_bytes % sizeof(SavedBackwardTuning) == 0 &&
           header.linear_tuning_bytes % sizeof(SavedLinearTuning) == 0 && header.checksum == checksum_of(content);
}

template <class Record>
std::vector<Record> records_of(std::span<const std::byte> bytes) {
    std::vector<Record> records(bytes.size() / sizeof(Record));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(records)).begin());
    return records;
}

} // namespace

uint64_t identity_of(const DeviceCaps &caps) {
    Hash hash;
    for (const int number : {VKATTN_VERSION_MAJOR, VKATTN_VERSION_MINOR, VKATTN_VERSION_PATCH}) hash.add(number);
    hash.add(caps.name, std::strlen(caps.name));
    hash.add(caps.driver_info, std::strlen(caps.driver_info));
    hash.add(caps.vendor_id);
    hash.add(caps.device_id);
    hash.add(caps.driver_version);
    hash.add(caps.device_uuid);
    hash.add(caps.driver_uuid);
    hash.add(caps.buffers_have_addresses);
    hash.add(caps.push_descriptors);
    hash.add(caps.traits);
    add_features(hash, caps.features);
    static const uint64_t shaders = hash_of_shaders();
    hash.add(shaders);
    return hash.value();
}

std::vector<std::byte> save_state(Context &context) {
    const std::vector<SavedVerdict> verdicts = context.verdicts().save();
    const std::vector<SavedAttentionTuning> attention = context.tunings().attention.save();
    const std::vector<SavedBackwardTuning> backward = context.tunings().backward.save();
    const std::vector<SavedLinearTuning> linear = context.tunings().linear.save();
    const std::vector<std::byte> variants = context.variants().save();
    const std::vector<std::byte> pipelines = context.pipelines().saved();
    std::vector<std::byte> content;
    const auto append = [&](std::span<const std::byte> part) {
        content.insert(content.end(), part.begin(), part.end());
        return part.size();
    };
    SavedHeader header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.identity = identity_of(context.caps());
    header.verdict_bytes = append(std::as_bytes(std::span(verdicts)));
    header.attention_tuning_bytes = append(std::as_bytes(std::span(attention)));
    header.backward_tuning_bytes = append(std::as_bytes(std::span(backward)));
    header.linear_tuning_bytes = append(std::as_bytes(std::span(linear)));
    header.variant_bytes = append(variants);
    header.pipeline_bytes = append(pipelines);
    header.checksum = checksum_of(content);
    const std::span<const std::byte> head = std::as_bytes(std::span(&header, 1));
    content.insert(content.begin(), head.begin(), head.end());
    return content;
}

SavedState read_state(std::span<const std::byte> bytes, const DeviceCaps &caps) {
    SavedHeader header{};
    if (bytes.size() < sizeof header) return ignored(text(bytes.size(), " bytes, expected at least ", sizeof header));
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::span<const std::byte> content = bytes.subspan(sizeof header);
    constexpr size_t kFormat = 2; // digits of it end the magic
    if (std::memcmp(header.magic, kMagic, sizeof kMagic - kFormat) != 0)
        return ignored("not made by vkattn_context_save");
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return ignored("of another version of the library");
    if (header.identity != identity_of(caps)) return ignored("of another device, driver, library or other traits");
    if (!is_whole(header, content)) return ignored("damaged");
    std::span<const std::byte> rest = content;
    const auto take = [&](uint64_t part) {
        const std::span<const std::byte> taken = rest.first(part);
        rest = rest.subspan(part);
        return taken;
    };
    SavedState state;
    state.verdicts = records_of<SavedVerdict>(take(header.verdict_bytes));
    state.attention_tunings = records_of<SavedAttentionTuning>(take(header.attention_tuning_bytes));
    state.backward_tunings = records_of<SavedBackwardTuning>(take(header.backward_tuning_bytes));
    state.linear_tunings = records_of<SavedLinearTuning>(take(header.linear_tuning_bytes));
    state.variants = take(header.variant_bytes);
    state.pipelines = take(header.pipeline_bytes);
    return state;
}

} // namespace vkattn
