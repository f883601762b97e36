#include "assembler.hpp"

#include "settings.hpp"

#include <cstring>
#include <elf.h>
#include <stdexcept>

extern "C" {
void LLVMInitializeAMDGPUTargetInfo(void);
void LLVMInitializeAMDGPUTarget(void);
void LLVMInitializeAMDGPUTargetMC(void);
void LLVMInitializeAMDGPUAsmParser(void);
void LLVMInitializeAMDGPUAsmPrinter(void);
int LLVMGetTargetFromTriple(const char *triple, void **target, char **message);
void *LLVMCreateTargetMachine(void *target, const char *triple, const char *processor, const char *features,
                              int optimisation, int relocation, int code_model);
void *LLVMModuleCreateWithName(const char *name);
void LLVMSetTarget(void *module, const char *triple);
void LLVMSetModuleInlineAsm2(void *module, const char *text, size_t length);
int LLVMTargetMachineEmitToMemoryBuffer(void *machine, void *module, int kind, char **message, void **buffer);
const char *LLVMGetBufferStart(void *buffer);
size_t LLVMGetBufferSize(void *buffer);
void LLVMDisposeMemoryBuffer(void *buffer);
void LLVMDisposeModule(void *module);
void LLVMDisposeTargetMachine(void *machine);
}

namespace execute {
namespace {

constexpr const char *kTriple = "amdgcn-mesa-mesa3d";
constexpr int kObjectFile = 1;

void *make_machine(int lanes) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeAMDGPUAsmPrinter();
    void *target = nullptr;
    char *message = nullptr;
    if (LLVMGetTargetFromTriple(kTriple, &target, &message)) throw std::runtime_error(message);
    std::string features;
    if (settings().generation >= 10) features = lanes == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
    if (settings().generation >= 11) features += ",+real-true16";
    return LLVMCreateTargetMachine(target, kTriple, settings().processor.c_str(), features.c_str(), 0, 0, 0);
}

std::vector<uint8_t> code_of(const uint8_t *object) { // the section .text of an ELF file
    Elf64_Ehdr header;
    memcpy(&header, object, sizeof header);
    const auto section = [&](size_t k) {
        Elf64_Shdr result;
        memcpy(&result, object + header.e_shoff + k * header.e_shentsize, sizeof result);
        return result;
    };
    const Elf64_Shdr names = section(header.e_shstrndx);
    for (size_t k = 0; k < header.e_shnum; k++) {
        const Elf64_Shdr candidate = section(k);
        const char *name = reinterpret_cast<const char *>(object + names.sh_offset + candidate.sh_name);
        if (strcmp(name, ".text") == 0)
            return {object + candidate.sh_offset, object + candidate.sh_offset + candidate.sh_size};
    }
    throw std::runtime_error("the object file has no code");
}

} // namespace

std::vector<uint8_t> assemble(const std::string &text, int lanes) {
    void *machine = make_machine(lanes);
    void *module = LLVMModuleCreateWithName("test");
    LLVMSetTarget(module, kTriple);
    const std::string assembly = ".text\n" + text + "\n";
    LLVMSetModuleInlineAsm2(module, assembly.data(), assembly.size());
    char *message = nullptr;
    void *buffer = nullptr;
    const int failed = LLVMTargetMachineEmitToMemoryBuffer(machine, module, kObjectFile, &message, &buffer);
    if (failed) throw std::runtime_error(message ? message : "assembly failed");
    const auto code = code_of(reinterpret_cast<const uint8_t *>(LLVMGetBufferStart(buffer)));
    LLVMDisposeMemoryBuffer(buffer);
    LLVMDisposeModule(module);
    LLVMDisposeTargetMachine(machine);
    return code;
}

} // namespace execute
