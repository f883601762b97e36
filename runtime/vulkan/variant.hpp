#pragma once

#include "runtime/support/usage.hpp"
#include "runtime/vulkan/compiled_variant.hpp"
#include "runtime/vulkan/shader.hpp"

#include <vkattn/variants.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vkattn {

// Functions of a user's own in the shaders that take them. Handles and plans share it, and with the last its pipelines go. Thread
// safe.
class Variant {
  public:
    Variant(std::string functions, uint32_t defined) : functions_(std::move(functions)), defined_(defined) {}
    Variant(const Variant &) = delete;
    Variant &operator=(const Variant &) = delete;

    // Whether it defines one of the functions: bits of vkattn_variant_functions.
    bool defines(uint32_t functions) const { return (defined_ & functions) != 0; }

    // From now on it has what the file brings, too: modules that have no fault.
    void add(CompiledVariant &&file);
    // The first one's is asked for what it does not have.
    void add_compiler(const vkattn_variant_info &info);

    // Whether there is the shader with the functions in it, or a compiler that can make it.
    bool serves(const Shader &shader) const;

    // The shader with the functions in it, compiled if it has not been; itself where it calls none of them.
    const Shader &shader_of(const Shader &shader);

    // What was compiled so far.
    CompiledVariant compiled() const;

    const std::string &functions() const { return functions_; }
    uint32_t defined() const { return defined_; }
    // Calls visit with each of its own, which plans took.
    void each_shader(const std::function<void(const Shader &)> &visit) const;

  private:
    struct Module {
        std::vector<uint32_t> code;
        std::string name; // "" until a plan takes it
        Shader shader{};
    };
    struct Compiler {
        decltype(vkattn_variant_info::compile) compile = nullptr;
        void *user = nullptr;
        std::vector<std::string> modules;
    };
    bool changes(const Shader &shader) const { return defines(shader.calls); }
    const Shader &made(const Shader &base, Module &module) const;
    std::vector<uint32_t> compile(const Compiler &compiler, const std::string &name) const;

    std::string functions_;
    uint32_t defined_;
    mutable std::mutex mutex_;              // of what follows
    std::map<std::string, Module> modules_; // by the names of the shaders without functions
    Compiler compiler_;
};

// A context's, by their texts: those that a handle or a plan has.
class Variants {
  public:
    // forget(shader) is called for each shader of a variant that nobody has any more, before it goes.
    explicit Variants(std::function<void(const Shader &)> forget) : forget_(std::move(forget)) {}

    // Fails as vkattn_variant_create does. Must not outlive this object.
    std::shared_ptr<Variant> get(const vkattn_variant_info &info);

    // What was compiled for those that somebody has, for a saved state.
    std::vector<std::byte> save() const;
    // What a saved state held, for those that are asked for by their texts later. A module with a fault is left out.
    void load(std::span<const std::byte> saved);

  private:
    std::shared_ptr<Variant> named(const std::string &functions, uint32_t defined);
    void release(Variant *variant) noexcept;

    std::function<void(const Shader &)> forget_;
    mutable std::mutex mutex_; // of what follows
    std::map<std::string, std::weak_ptr<Variant>> variants_;
    std::map<std::string, CompiledVariant> loaded_;
};

} // namespace vkattn

struct vkattn_variant_opaque {
    vkattn_variant_opaque(std::shared_ptr<const void> made_in, const void *its, std::shared_ptr<vkattn::Variant> named)
        : context(std::move(made_in)), owner(its), variant(std::move(named)) {}
    std::shared_ptr<const void> context; // keeps it
    const void *owner;                   // the Context
    std::shared_ptr<vkattn::Variant> variant;
};
