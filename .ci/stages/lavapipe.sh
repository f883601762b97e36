# shellcheck shell=bash
# What Debian 12 can test, but for the masks, which Debian testing's driver has instead, with more kernels, as this one has
# the sequences; for suites that reads_inside_memory runs; and for those that sanitizers runs on this driver, and
# debian_testing under validation. What is missing here was not built for want of a tool. Masks in pairs: scripts/test alone.
elsewhere='api|api\.arguments|api\.wrap|attention\.(bindings|layouts|numbers)|bench|caches|cases|checkpoints|command|dropout|files_and_arithmetic|gpu_lab|layer|layers|memory|programs|rotation|saved_state|scales|submit|variants'
run_tests build-ci "$on_debian" -E "^(masks\.(alone|pairs)|(key_lists|top_k|index|kv_append|merge|operators|split|$elsewhere)$)"
tests=$(ctest --test-dir build-ci -N)
for name in command consume_python consume_python_sample consume_pkg_config consume_wheel documentation faults_on_null_driver metal packaging reads_inside_memory sample_sharded_mpi textgen vkattn_plot; do
    grep -q ": $name\$" <<<"$tests" || { echo "no test $name, expected it" && return 1; }
done
