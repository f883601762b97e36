# shellcheck shell=bash
# Windows programs on Wine, whose Vulkan is this system's: the command and a sample. What links the Vulkan loader is not there:
# mingw-w64 has no library to link it by. The programs of tests on Wine: scripts/long-tests.
# All have one X server: programs of one prefix share a desktop, and end with the server of whoever came first. It is begun before
# what is compiled, so that it is there when they come.
export DISPLAY=:150
Xvfb $DISPLAY -screen 0 640x480x24 -nolisten tcp >build-ci/xvfb.log 2>&1 &
trap "kill $!" EXIT
compile_shaders
# shellcheck disable=SC2086
scripts/cross-compile mingw-w64 $by_other_compilers -DVKATTN_BUILD_TESTS=OFF
export VKATTN_VALIDATION=0 # Windows' loader would find no layers
programs=build-mingw-w64
scripts/wine $programs/samples/hello_attention.exe # makes what Wine keeps, for the two that go on side by side
{
    echo "command VKATTN_PROGRAM=$PWD/$programs/tools/vkattn.exe VKATTN_EMULATOR=$PWD/scripts/wine $pytest tests/tools/command_test.py"
    echo "cases scripts/wine $programs/tools/vkattn.exe check" tests/data/*.safetensors
} | try_devices env
