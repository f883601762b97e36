# shellcheck shell=bash
# The kernels of subgroups and matrix units, in widths that no CPU driver has, as GPUs of four kinds take them: made of shared
# memory. bf16 matrices run nowhere else.
compile_emulated vkattn_tests
export VKATTN_TEST_KERNELS=all
for gpu in rdna3 rdna4 nvidia xe2; do
    echo "emulated-$gpu VKATTN_EMULATED_GPU=$gpu build-emulated/tests/vkattn_tests --test-suite=attention.numbers"
done | try_devices env
echo "emulated-layers VKATTN_EMULATED_GPU=rdna4 build-emulated/tests/vkattn_tests --test-suite=layers" | try_devices env
