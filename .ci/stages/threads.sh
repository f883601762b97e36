# shellcheck shell=bash
# Many threads, under ThreadSanitizer; then on two drivers at once.
compile_shaders
flags="-O0 -g1 -fno-omit-frame-pointer -fsanitize=thread"
# shellcheck disable=SC2086
CC=clang CXX=clang++ CFLAGS=$flags CXXFLAGS=$flags VKATTN_BUILD_DIR=build-tsan scripts/compile \
    vkattn_concurrency_tests $by_other_compilers -DVKATTN_BUILD_TESTS=ON
TSAN_OPTIONS=suppressions=$PWD/.ci/tsan.supp VKATTN_VALIDATION=0 build-tsan/tests/vkattn_concurrency_tests
compile_on_debian vkattn_concurrency_tests
use_driver "$VK_DRIVER_FILES:$swiftshader"
build-ci/tests/vkattn_concurrency_tests --test-case="*all devices*"
