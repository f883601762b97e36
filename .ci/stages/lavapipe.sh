# shellcheck shell=bash
# What Debian 12 can test, but for the masks, which Debian testing's driver has instead, with more kernels, as this one has
# the sequences; and for the suites of other stages, of which reads_inside_memory runs some. What is missing here was not built
# for want of a tool. Masks in pairs: scripts/test alone. Portability: the GPU lab, on its drivers. Other builds of the source: release.
run_tests build-ci "$on_debian" -LE '^other_stages$'
tests=$(ctest --test-dir build-ci -N)
for name in command consume_documentation consume_python consume_python_documentation consume_python_functions consume_python_sample consume_pkg_config consume_wheel documentation faults faults_in_self_test metal packaging reads_inside_memory sample_sharded_mpi textgen vkattn_plot; do
    grep -q ": $name\$" <<<"$tests" || { echo "no test $name, expected it" && return 1; }
done
