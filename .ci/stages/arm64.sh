# shellcheck shell=bash
# 64-bit ARM with its CPU driver, both emulated.
compile_shaders
scripts/cross-compile aarch64-linux-gnu "$compiled_shaders" -DVKATTN_WERROR=ON -DVKATTN_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=None
QEMU_LD_PREFIX=$(scripts/arm64-root)
use_driver /usr/share/vulkan/icd.d/lvp_icd.aarch64.json # below that folder
export QEMU_LD_PREFIX VKATTN_VALIDATION=0               # it has no layers
qemu-aarch64 build-aarch64-linux-gnu/tools/vkattn estimate gqa-8 mla --d-model 4096 --heads 32 --context 32k
try_devices qemu-aarch64 <<END
arm64-tests build-aarch64-linux-gnu/tests/vkattn_tests --test-suite=api,api.arguments,estimate,case?files,safetensors,device_table,linear_planner,attention.numbers
arm64-cases build-aarch64-linux-gnu/tools/vkattn check $(echo tests/data/*.safetensors)
END
qemu-aarch64 build-aarch64-linux-gnu/tests/consume/c99/vkattn_consume_c99
