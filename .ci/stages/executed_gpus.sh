# shellcheck shell=bash
# The kernels' machine code, executed on AMD GPUs that are not there: with matrix units, with those of bf16, and in waves of 64.
# Waves run in random order, switched within 60 instructions; races, reads of what nobody wrote, accesses beyond buffers
# and missing waits fail. Beside that, single instructions at their operands' edges. Left out: shaders of lists that are made wrong on
# purpose, and read shared memory that they then have not written.
status=0
if ! scripts/gpu-lab install; then
    without_testing "no machine code was executed"
    return
fi
export VKATTN_BUILD_DIR=build-modern VKATTN_VALIDATION=0
for target in gpu_lab_execute vkattn_command vkattn_shared vkattn_tests; do compile_in_testing $target; done
scripts/modern-root install python3-pytest python3-numpy >/dev/null || status=$?
VKATTN_PROFILE_GPU=amd-navi31 $pytest bench/gpu_lab/tests/test_profile.py || status=$? # builds anew: beside nothing else
VKATTN_PROFILE_GPU=amd-navi31 $pytest bench/gpu_lab/tests/test_wholes.py || status=$?
tests="build-modern/tests/vkattn_tests"
{
    # the longest first; on one, what sees the same of each GPU; and that what is found fails
    execute="VKATTN_EXECUTE=order=random,switch=60 scripts/gpu-lab execute"
    echo "self-test-navi31 $execute amd-navi31 $tests --test-suite=self_test --test-case-exclude=*shader?of?lists*"
    echo "removed-barriers bench/gpu_lab/execute/tests/removed_barriers amd-navi31"
    echo "caches-navi31 $execute amd-navi31 $tests --test-suite=caches,programs,rotation"
    # but what waits for the host on a GPU, where submissions are executed at once
    echo "operators-navi31 $execute amd-navi31 $tests --test-suite=merge,operators,submit --test-case-exclude=*queue?waits*"
    echo "scales-navi31 $execute amd-navi31 $tests --test-suite=scales"
    for gpu in navi31 gfx1201 vega10; do
        echo "attention-$gpu $execute amd-$gpu $tests --test-suite=attention.numbers"
        echo "layers-$gpu $execute amd-$gpu $tests --test-suite=kv_append,layers"
        echo "cases-$gpu $execute amd-$gpu build-modern/tools/vkattn check $(echo tests/data/*.safetensors)"
        [ $gpu = navi31 ] || echo "self-test-$gpu $execute amd-$gpu $tests --test-suite=self_test --test-case=*every?kernel*"
    done
    echo "instructions VKATTN_EXECUTE_INSTRUCTIONS=build-modern/bench/gpu_lab/execute/execute_instructions" \
        "scripts/modern-root run $pytest bench/gpu_lab/execute/tests"
} | try_devices env || status=$?
exit $status
