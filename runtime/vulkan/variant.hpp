#pragma once

#include "runtime/support/usage.hpp"
#include "runtime/vulkan/shader.hpp"

#include <vkattn/variants.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vkattn {

struct VariantFile;

// Functions of a user's own in the shaders that take them. It lives as long as its context, as pipelines do. Thread safe.
class Variant {
  public:
    Variant(std::string functions, uint32_t defined) : functions_(std::move(functions)), defined_(defined) {}
    Variant(const Variant &) = delete;
    Variant &operator=(const Variant &) = delete;

    // Whether it defines one of the functions: bits of vkattn_variant_functions.
    bool defines(uint32_t functions) const { return (defined_ & functions) != 0; }

    // From now on it has what the info brings, too.
    void add(const VariantFile &file);
    void add_compiler(const vkattn_variant_info &info);

    // Whether there is the shader with the functions in it, or a compiler that can make it.
    bool serves(const Shader &shader) const;

    // The shader with the functions in it, compiled if it has not been; itself where it calls none of them.
    const Shader &shader_of(const Shader &shader);

    // What was compiled so far.
    VariantFile compiled() const;

  private:
    struct Module {
        std::vector<uint32_t> code;
        std::string name;
        Shader shader;
    };
    bool changes(const Shader &shader) const { return defines(shader.calls); }
    const Shader &make(const Shader &base, std::vector<uint32_t> code);
    std::vector<uint32_t> compile(const std::string &name) const;

    std::string functions_;
    uint32_t defined_;
    mutable std::mutex mutex_;                              // of what follows
    std::map<std::string, std::vector<uint32_t>> compiled_; // by the names of the shaders without functions
    std::map<std::string, Module> modules_;                 // of those that plans took
    std::vector<std::string> compilable_;
    decltype(vkattn_variant_info::compile) compile_ = nullptr;
    void *user_ = nullptr;
};

// A context's, by their texts.
class Variants {
  public:
    // Fails as vkattn_variant_create does.
    Variant &get(const vkattn_variant_info &info);

    // What was compiled, for a saved state; and what one held.
    std::vector<std::byte> save() const;
    void load(std::span<const std::byte> saved);

  private:
    Variant &named(const std::string &functions, uint32_t defined);

    mutable std::mutex mutex_;
    std::map<std::string, Variant> variants_;
};

} // namespace vkattn

struct vkattn_variant_opaque {
    vkattn_variant_opaque(vkattn::Usage &usage, const void *made_in, vkattn::Variant &named)
        : context(usage), owner(made_in), variant(named) {}
    vkattn::InUse context;
    const void *owner; // the Context
    vkattn::Variant &variant;
};
