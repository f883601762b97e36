# shellcheck shell=bash
# The kernels' machine code, executed on AMD GPUs that are not there: with matrix units, with those of bf16, and in waves of 64.
# Waves run in random order, switched within 60 instructions; races, reads of what nobody wrote, accesses beyond buffers
# and missing waits fail. Left out: shaders of lists that are made wrong on purpose, and read shared memory that they then have not
# written. What executes them is tested by the stage executor.
status=0
if ! scripts/gpu-lab install; then
    without_testing "no machine code was executed"
    return
fi
export VKATTN_BUILD_DIR=build-modern VKATTN_VALIDATION=0
compile_for_execution
tests="build-modern/tests/vkattn_tests"
{
    # the longest first; on one, what sees the same of each GPU
    execute="VKATTN_EXECUTE=order=random,switch=60 scripts/gpu-lab execute"
    judged="*full?self-test*,*each?shader?is?judged*" # in two: all of it takes longer than anything else
    echo "self-test-judged-navi31 $execute amd-navi31 $tests --test-suite=self_test --test-case=$judged"
    echo "self-test-navi31 $execute amd-navi31 $tests --test-suite=self_test --test-case-exclude=*shader?of?lists*,$judged"
    echo "caches-navi31 $execute amd-navi31 $tests --test-suite=caches,programs,rotation"
    # but what waits for the host on a GPU, where submissions are executed at once
    echo "operators-navi31 $execute amd-navi31 $tests --test-suite=merge,operators,submit --test-case-exclude=*queue?waits*"
    echo "layer-gradients-navi31 $execute amd-navi31 $tests --test-suite=layer_gradients"
    echo "gradients-navi31 $execute amd-navi31 $tests --test-suite=gradients"
    echo "captured-gradients-navi31 $execute amd-navi31 $tests --test-case=*variants?capture*,sums?of?captured*,gradients?of?queries*"
    echo "scales-navi31 $execute amd-navi31 $tests --test-suite=scales"
    # RADV has VK_NV_cooperative_matrix2 where it is asked for
    echo "coopmat2-navi31 radv_cooperative_matrix2_nv=true VKATTN_TEST_KERNELS=coopmat2 $execute amd-navi31 $tests --test-suite=attention.numbers,masks.alone --test-case-exclude=*ahead*,*q8_0*"
    for gpu in navi31 gfx1201 vega10; do
        echo "attention-$gpu $execute amd-$gpu $tests --test-suite=attention.numbers"
        echo "layers-$gpu $execute amd-$gpu $tests --test-suite=kv_append,layers"
        echo "cases-$gpu $execute amd-$gpu build-modern/tools/vkattn check $(echo tests/data/*.safetensors)"
        [ $gpu = navi31 ] || echo "self-test-$gpu $execute amd-$gpu $tests --test-suite=self_test --test-case=*every?kernel*"
    done
} | try_devices env || status=$?
exit $status
