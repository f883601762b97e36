# shellcheck shell=bash
# The kernels through the compilers of GPUs that are not here, held to bench/budgets; problems planned on their drivers, under
# validation. All GPUs of the lab: scripts/long-tests.
status=0
if ! scripts/gpu-lab install; then
    without_testing "no GPU's compiler has seen the kernels"
    return
fi
compile_in_testing vkattn_tests
VKATTN_VALIDATION=0 scripts/gpu-lab check intel-bmg nvidia-ampere intel-dg2 apple-m1 adreno-740 amd-vega10 amd-navi31 ||
    status=$?
for gpu in nvidia-ampere intel-tgl apple-m1 amd-navi31; do
    echo "plans-$gpu VKATTN_SWEEP_PROBLEMS=4 scripts/gpu-lab run $gpu build-modern/tests/vkattn_tests --test-suite=portability,shaders"
done | try_devices env || status=$?
exit $status
