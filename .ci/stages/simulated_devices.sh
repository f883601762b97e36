# shellcheck shell=bash
# The kernels as they run on poorer devices than any at hand, those that lack the most; the poorest has layouts and copies, too. All
# of them: scripts/long-tests.
compile_on_debian vkattn_tests
for device in minimum mali-g52 apple-m1-moltenvk amd-polaris10; do
    traits=$(awk -v device=$device '$1 == device { print $2 }' tests/simulated_devices)
    [ -n "$traits" ] || { echo "no $device in tests/simulated_devices, expected it" >&2 && exit 1; }
    suites=attention.numbers,operators
    [ $device != minimum ] || suites+=,attention.layouts,kv_append
    echo "$device VKATTN_DEVICE_TRAITS=$traits build-ci/tests/vkattn_tests --test-suite=$suites"
done | try_devices env
