// A decoder of Llama's or DeepSeek V3's kind, made of vkattn's plans alone: embedding, norms, attention with a cache,
// gated feed-forward, logits. Nothing but token numbers goes to the device, nothing but logits comes back.
#pragma once

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct DecoderOptions {
    std::filesystem::path model;  // a folder with config.json and model.safetensors (or an index and its shards)
    std::uint32_t capacity = 512; // tokens that the cache holds
    vkattn_type cache_type = VKATTN_TYPE_F16;
};

class Decoder {
  public:
    // Reads the model and uploads it. Throws InputError: names what is missing and what is not known.
    Decoder(const vkattn::Context &context, const DecoderOptions &options);
    ~Decoder();
    Decoder(const Decoder &) = delete;
    Decoder &operator=(const Decoder &) = delete;

    // Appends tokens, at most to the capacity, and returns the logits of what comes after the last of them. One token
    // is one submission, of a program that is recorded once.
    std::vector<float> append(std::span<const std::int32_t> tokens);
    // The same, and the logits after each: [tokens, vocabulary].
    std::vector<float> append_for_all(std::span<const std::int32_t> tokens);
    // Forgets all tokens.
    void clear();

    std::uint32_t vocabulary_size() const;
    std::uint64_t parameters() const;
    std::uint64_t cache_bytes() const; // of all layers, for the whole capacity

  private:
    struct Model;
    class Pass;
    std::unique_ptr<Model> model_;
    std::unique_ptr<Pass> step_; // of one token; made when it is first needed
};
