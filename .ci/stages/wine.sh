# shellcheck shell=bash
# Windows programs on Wine, whose Vulkan is this system's. What links the Vulkan loader is not there: mingw-w64 has no library
# to link it by. Left out: what takes long, and sees nothing of Windows; concurrency is what it has of threads.
compile_shaders
scripts/cross-compile mingw-w64 "$compiled_shaders" -DVKATTN_WERROR=ON -DVKATTN_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=None
export VKATTN_VALIDATION=0 # Windows' loader would find no layers
programs=build-mingw-w64
scripts/wine $programs/tools/vkattn.exe check tests/data/*.safetensors
xvfb-run --auto-servernum ctest --test-dir $programs --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(api\.arguments|concurrency|saved_state|files_and_arithmetic|command|consume_.*|sample_hello_attention)$'
