# shellcheck shell=bash
# What the stages share. .ci/run reads it in the root of the repository, then each stage in a shell of its own.
jobs=$(getconf _NPROCESSORS_ONLN)
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
export VKATTN_VALIDATION=1
# what has been compiled need not be again in another folder
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_IGNOREOPTIONS=-Werror CCACHE_SLOPPINESS=pch_defines,time_macros

without_testing() { # without_testing WHAT: Debian testing cannot be installed, so that WHAT is not tested
    echo "!! Debian testing cannot be installed: $1 (VKATTN_CI_WITHOUT_TESTING=1: allowed) !!"
    [ "${VKATTN_CI_WITHOUT_TESTING-}" = 1 ]
}

# shellcheck disable=SC2034
pytest="/usr/bin/python3 -B -m pytest -q -p no:cacheprovider" # of this Debian, and in Debian testing

use_driver() { export VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1; }

some_cases() { printf '%s\n' tests/data/*.safetensors | awk 'NR % 8 == 1'; } # every eighth of the reference cases, where all take long

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

# The builds that several stages use: the first one compiles, the others find nothing left to do.
on_debian="-DVKATTN_WERROR=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
# For builds that share no object with another by ccache: a precompiled header would keep both from it.
of_ci="-DCMAKE_PROJECT_vkattn_INCLUDE=$PWD/.ci/builds.cmake"
# Compiled sooner: the kernels do the work. Without the lines of shaders that scripts/gpu-lab profile leaves in that folder.
in_testing="$of_ci -DVKATTN_WERROR=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DVKATTN_SHADER_LINES=OFF"
compile() { # compile TARGET CMAKE_ARGUMENTS [COMMAND...]: by scripts/compile, run by the command
    local target=$1 arguments=$2
    shift 2
    # shellcheck disable=SC2086
    "$@" scripts/compile "$target" -DVKATTN_BUILD_TOOLS=ON -DVKATTN_BUILD_TESTS=ON $arguments
}
compile_on_debian() { VKATTN_BUILD_DIR=build-ci compile "$1" "$on_debian" env; }
compile_in_testing() { VKATTN_BUILD_DIR=build-modern compile "$1" "$in_testing" scripts/modern-root run; }
compile_for_execution() { # with what executes machine code
    local target
    for target in gpu_lab_execute vkattn_command vkattn_shared vkattn_tests; do compile_in_testing $target; done
}
# For builds by other compilers: the shaders of build-ci rather than the same once more.
# shellcheck disable=SC2034
by_other_compilers="$of_ci -DVKATTN_COMPILED_SHADERS=$PWD/build-ci/generated -DVKATTN_WERROR=ON -DCMAKE_BUILD_TYPE=None"
compile_shaders() { compile_on_debian vkattn_tools; }
compile_emulated() {
    VKATTN_BUILD_DIR=build-emulated compile "$1" "$on_debian -DVKATTN_EMULATED_SUBGROUPS=ON -DVKATTN_BUILD_SAMPLES=OFF" env
}

run_tests() { # run_tests BUILD_DIR CMAKE_ARGUMENTS [CTEST_ARGUMENT...]
    local build=$1 arguments=$2
    shift 2
    VKATTN_BUILD_DIR=$build VKATTN_CMAKE_ARGS=$arguments scripts/test "$@"
}

try_devices() { # try_devices COMMAND...: with the arguments of each line of the input behind its name, side by side; tells their times
    xargs -P "$jobs" -L 1 bash -c '
        name=$1 log=build-ci/$1.log words=$0 start=$SECONDS
        shift
        $words "$@" >"$log" 2>&1
        status=$?
        echo "$name: $(grep -v "^skipped in " "$log" | tail -n 1), $((SECONDS - start)) s"
        [ $status -eq 0 ] || cat "$log"
        exit $status' "$*"
}
