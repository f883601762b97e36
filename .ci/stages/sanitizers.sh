# shellcheck shell=bash
# Without validation, which other stages have. What a C compiler links has not the sanitizers' C++ part. Not optimised: that
# takes half the time to compile, and most of a test's time is the driver's; but not the command's, whose readers of files and words
# are in files_and_arithmetic and the fuzzers.
flags="-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined"
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$PWD/.ci/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1 VKATTN_VALIDATION=0
status=0
compile_shaders
mkdir -p build-asan
cc -c .ci/keep_libraries.c -o build-asan/keep_libraries.o
export LDFLAGS=$PWD/build-asan/keep_libraries.o
CC=clang CXX=clang++ CFLAGS=$flags CXXFLAGS=$flags \
    run_tests build-asan "$by_other_compilers -DVKATTN_BUILD_FUZZERS=ON" \
    -L '^sanitizers$' ||
    status=$?
VKATTN_BUILD_DIR=build-asan scripts/fuzz 10 || status=$?
exit $status
