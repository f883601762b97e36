// config.json of a checkpoint, and the index of its shards.
#include "input_file.hpp"

#include "tools/checkpoints/checkpoint.hpp"
#include "tools/checkpoints/hugging_face_config.hpp"
#include "tools/io/input_error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace vkattn::tools;
    try {
        read_model_attention(input_file("config.json", data, size), size % 3, size % 100);
    } catch (const InputError &) {
    }
    try {
        Checkpoint checkpoint(input_file("model.safetensors.index.json", data, size));
        for (const std::string &name : checkpoint.names()) checkpoint.read(name);
    } catch (const InputError &) {
    }
    return 0;
}
