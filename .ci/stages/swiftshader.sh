# shellcheck shell=bash
# SwiftShader takes a second for every pipeline: what computes, but not every type, layout, size, mask and batch, nor layers, whose parts are
# all here, and which are executed as machine code of three GPUs.
compile_on_debian all
use_driver "$swiftshader"
ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(attention\.numbers|kv_append|operators|cases|api\.wrap|sample_.*)$' -E '^sample_(textgen|sharded_mpi)$'
