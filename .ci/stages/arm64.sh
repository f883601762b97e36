# shellcheck shell=bash
# 64-bit ARM with its CPU driver, both emulated.
compile_shaders
# shellcheck disable=SC2086
scripts/cross-compile aarch64-linux-gnu $by_other_compilers -DVKATTN_BUILD_TESTS=OFF
QEMU_LD_PREFIX=$(scripts/arm64-root)
use_driver /usr/share/vulkan/icd.d/lvp_icd.aarch64.json # below that folder
export QEMU_LD_PREFIX VKATTN_VALIDATION=0               # it has no layers
qemu-aarch64 build-aarch64-linux-gnu/tools/vkattn estimate gqa-8 mla --d-model 4096 --heads 32 --context 32k
some_cases | xargs -P "$jobs" -n 4 qemu-aarch64 build-aarch64-linux-gnu/tools/vkattn check
