# shellcheck shell=bash
# SwiftShader takes a second for every pipeline: the numbers of every kernel, but not every operator, type, layout, size, mask and
# batch, nor layers and caches, which are executed as machine code of three GPUs.
compile_on_debian all
use_driver "$swiftshader"
ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(attention\.numbers|sample_(hello_attention|borrow_device))$'
# shellcheck disable=SC2046
build-ci/tools/vkattn check $(some_cases)
