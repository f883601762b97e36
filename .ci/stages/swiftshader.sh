# shellcheck shell=bash
# SwiftShader takes a second for every pipeline: what computes, but not every type, size and mask.
compile_on_debian all
use_driver "$swiftshader"
ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(attention\.(layouts|numbers)|sequences|kv_append|merge|operators|layers|cases|api\.wrap|sample_.*)$' -E "$slow|sample_textgen"
