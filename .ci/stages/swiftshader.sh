# shellcheck shell=bash
# SwiftShader takes a second for every pipeline: what computes, but not every type, layout, size, mask and batch, nor layers and
# caches, whose parts are all here, and which are executed as machine code of three GPUs.
compile_on_debian all
use_driver "$swiftshader"
ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(attention\.numbers|operators|sample_(hello_attention|borrow_device))$'
# shellcheck disable=SC2046
build-ci/tools/vkattn check $(some_cases)
