# shellcheck shell=bash
# What executes GPUs' machine code, held to account by itself: single instructions at their operands' edges, what it counts and models,
# wholes that it runs as float64 does, and that barriers and waits taken out of kernels fail. The kernels' numbers: executed_gpus.
status=0
if ! scripts/gpu-lab install; then
    without_testing "what executes machine code was not tested"
    return
fi
export VKATTN_BUILD_DIR=build-modern VKATTN_VALIDATION=0
compile_for_execution
scripts/modern-root install python3-pytest python3-numpy libggml0-backend-vulkan >/dev/null || status=$?
VKATTN_PROFILE_GPU=amd-navi31 $pytest bench/gpu_lab/tests/test_profile.py || status=$? # builds anew: beside nothing else
try_devices env <<END || status=$?
removed-barriers bench/gpu_lab/execute/tests/removed_barriers amd-navi31
wholes VKATTN_PROFILE_GPU=amd-navi31 $pytest bench/gpu_lab/tests/test_wholes.py
instructions VKATTN_EXECUTE_INSTRUCTIONS=build-modern/bench/gpu_lab/execute/execute_instructions scripts/modern-root run $pytest bench/gpu_lab/execute/tests
END
exit $status
