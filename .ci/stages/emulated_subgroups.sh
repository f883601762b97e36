# shellcheck shell=bash
# The kernels of subgroups and matrix units, in widths that no CPU driver has, as NVIDIA's and Intel's GPUs take them: made of
# shared memory. AMD's are executed.
compile_emulated vkattn_tests
export VKATTN_TEST_KERNELS=all
for gpu in nvidia xe2; do
    echo "emulated-$gpu VKATTN_EMULATED_GPU=$gpu build-emulated/tests/vkattn_tests --test-suite=attention.numbers"
done | try_devices env
