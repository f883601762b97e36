# shellcheck shell=bash
# The kernels as they run on poorer devices than any at hand.
compile_on_debian vkattn_tests
awk '!/^#/ {
    print $1, "VKATTN_DEVICE_TRAITS=" $2, "build-ci/tests/vkattn_tests",
        "--test-suite=attention.layouts,attention.numbers,kv_append,operators"
}' tests/simulated_devices | try_devices env
