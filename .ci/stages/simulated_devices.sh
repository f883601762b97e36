# shellcheck shell=bash
# The kernels as they run on poorer devices than any at hand, those that lack the most; the poorest has layouts and copies, too. All
# of them: scripts/long-tests.
compile_on_debian vkattn_tests
awk '/^(minimum|mali-g52|apple-m1-moltenvk|amd-polaris10) / {
    print $1, "VKATTN_DEVICE_TRAITS=" $2, "build-ci/tests/vkattn_tests",
        "--test-suite=attention.numbers,operators" ($1 == "minimum" ? ",attention.layouts,kv_append" : "")
}' tests/simulated_devices | try_devices env
