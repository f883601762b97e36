// The functions of LLVM's C API that are used here, declared without its headers.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
void LLVMInitializeAMDGPUTargetInfo(void);
void LLVMInitializeAMDGPUTarget(void);
void LLVMInitializeAMDGPUTargetMC(void);
void LLVMInitializeAMDGPUDisassembler(void);
void *LLVMCreateDisasmCPUFeatures(const char *triple, const char *processor, const char *features, void *info, int tag,
                                  void *operand_info, void *symbol_lookup);
size_t LLVMDisasmInstruction(void *context, uint8_t *bytes, uint64_t size, uint64_t address, char *text,
                             size_t text_size);
}
