# shellcheck shell=bash
# What Debian 12 can test, but for the masks, which Debian testing's driver has instead, with more kernels, as this one has
# the sequences; for suites that reads_inside_memory runs; and for those of the stage sanitizers. What is missing here was not
# built for want of a tool. Masks in pairs: scripts/test alone.
run_tests build-ci "$on_debian" -E "^(masks\.(alone|pairs)|(key_lists|top_k|index|kv_append|merge|operators|split|$of_sanitizers)$)"
tests=$(ctest --test-dir build-ci -N)
for name in command consume_python consume_python_sample consume_pkg_config consume_wheel documentation faults_on_null_driver metal packaging reads_inside_memory sample_sharded_mpi textgen vkattn_plot; do
    grep -q ": $name\$" <<<"$tests" || { echo "no test $name, expected it" && return 1; }
done
