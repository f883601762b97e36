# shellcheck shell=bash
# The kernels as they run on poorer devices than any at hand; the poorest has layouts and copies, too.
compile_on_debian vkattn_tests
awk '!/^#/ {
    print $1, "VKATTN_DEVICE_TRAITS=" $2, "build-ci/tests/vkattn_tests",
        "--test-suite=attention.numbers,operators" ($1 == "minimum" ? ",attention.layouts,kv_append" : "")
}' tests/simulated_devices | try_devices env
