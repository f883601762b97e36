# shellcheck shell=bash
# What a new user does, with the release: packed by the shaders' newest compiler, it shows the demo on this Debian without any; twice,
# the second time nothing is left to do. The same build passes and is installed, for those who use it, and so is its Debian
# package; it runs on Debian testing's driver, a matrix kernel included; the stage debian_testing tests them all. Left out:
# what sees only the shaders and sources that the stage lavapipe sees. Then the library as one file, the wheel, and what may be left
# out of a build of the source.
test_release_on_matrix_units() ( # FOLDER
    cd "$1"
    use_driver /usr/share/vulkan/icd.d/lvp_icd.json
    scripts/modern-root run bash -euc '
        build/tools/vkattn devices
        if ! build/tools/vkattn devices --kernel coopmat --json | grep -q "\"supported\": true"; then
            echo "release: coopmat cannot run, expected it on this driver"
            exit 1
        fi
        build/tools/vkattn bench --kernel coopmat --q-len 64 --kv-len 64 --repeat 1 # tested before it is used'
)

# The library of the tarball alone, where there is neither a GLSL compiler nor a network: on this Debian, for Windows, in Debian testing
# where that is there.
build_where_nothing_is() ( # FOLDER
    cd "$1"
    export CCACHE_BASEDIR=$1 library="-DVKATTN_BUILD_TOOLS=OFF -DVKATTN_BUILD_TESTS=OFF -DVKATTN_BUILD_SAMPLES=OFF -DVKATTN_BUILD_JIT=OFF
        -DVKATTN_WERROR=ON -DCMAKE_BUILD_TYPE=None"
    unshare --mount --net --propagation private bash -euc '
        for tool in {,"$1"}/usr/bin/{glslang*,glslc,spirv-*}; do
            [ ! -e "$tool" ] || mount --bind /dev/null "$tool"
        done
        VKATTN_BUILD_DIR=build-here scripts/compile vkattn $library
        scripts/cross-compile mingw-w64 $library
        [ -z "$1" ] || VKATTN_BUILD_DIR=build-testing scripts/modern-root run scripts/compile vkattn $library' - "$2"
)

# The library as one file: a program of C on what g++ makes of it, Python on what clang does.
test_amalgamation() ( # BUILD_FOLDER
    cmake --build "$1" --target amalgamation
    cd "$1"/amalgamation/vkattn-*
    flags="-std=c++20 -O1 -Iinclude"
    # shellcheck disable=SC2086
    g++ $flags -Wall -Wextra -Werror -c vkattn.cpp &&
        clang++ $flags -DVKATTN_BUILD -fvisibility=hidden -fPIC -shared vkattn.cpp -o libvkattn.so
    cc -Iinclude -c "$1/../samples/hello_attention.c"
    g++ hello_attention.o vkattn.o -o hello
    ./hello | grep -F "query 3 averages its keys to 1.5"
    # shellcheck disable=SC2086
    VKATTN_LIBRARY=$PWD/libvkattn.so $pytest "$1/../python/tests/test_vkattn.py"
)

if VKATTN_BUILD_DIR=build-ci scripts/compile source_package -DVKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS=OFF >/dev/null 2>&1; then
    echo "source_package packed what Debian 12's compiler leaves out, expected it to refuse"
    return 1
fi
build="build-modern"
if modern_root=$(scripts/modern-root install); then
    compile_in_testing source_package
else
    without_testing "the release was packed without matrix kernels"
    build="build-ci" modern_root=""
    VKATTN_BUILD_DIR=$build scripts/compile source_package -DVKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS=ON
fi
copy=$(mktemp -d)
trap 'rm -rf "$copy"; dpkg --remove vkattn >/dev/null 2>&1' EXIT
release=$(echo $build/vkattn-*[0-9].tar.xz)
tar -xJf "$release" -C "$copy" --strip-components=1
build_where_nothing_is "$copy" "$modern_root"
tar -xJf "${release%.tar.xz}-tests.tar.xz" -C "$copy" --strip-components=1
export CCACHE_BASEDIR=$copy
unshare --mount --propagation private bash -euc '
    for tool in /usr/bin/glslang* /usr/bin/glslc /usr/bin/spirv-*; do
        [ ! -e "$tool" ] || mount --bind /dev/null "$tool"
    done
    cd "$1"
    scripts/demo
    again=$(scripts/demo)
    [[ $again == *"no work to do"* ]] || { echo "$again" && exit 1; }
    export VKATTN_CMAKE_ARGS=-DCMAKE_INSTALL_PREFIX=/usr
    scripts/test -R "^(kv_append|consume_(find_package|pkg_config|c99|no_exceptions))$"
    cd build
    cpack -G DEB
    lintian --fail-on error,warning vkattn_*.deb
    dpkg --install vkattn_*.deb' - "$copy"
vkattn check tests/data/ref003_gqa4_mask_padding.safetensors
test_amalgamation "$copy/build"
# shellcheck disable=SC2046
cc -x c tests/consume/c99/main.c -x none -o "$copy/c99" $(pkg-config --cflags --libs vkattn)
"$copy/c99"
[ "$build" = build-ci ] || test_release_on_matrix_units "$copy"
export CCACHE_BASEDIR=$PWD
compile_on_debian all
ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" -R '^consume_(families|wheel)$'
