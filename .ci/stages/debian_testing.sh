# shellcheck shell=bash
# Newer drivers, compilers and validation layers than this Debian's, where they can be fetched; then the kernels at the
# other widths of the CPU driver's vectors, and as they run on older CPU drivers.

# The packages transformers and peft, and those of vkattn_lm, which Debian has not, for Debian testing's Python.
fetch_transformers() {
    [ ! -d build-ci/transformers/transformers ] || [ ! -d build-ci/transformers/gguf ] || [ ! -d build-ci/transformers/peft ] || return 0
    local version
    version=$(scripts/modern-root run python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    set -- install --quiet --no-compile --target build-ci/transformers --python-version "$version" --only-binary=:all: \
        --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64
    python3 -m pip "$@" 'transformers<6' gguf jinja2 ml_dtypes &&
        python3 -m pip "$@" --no-deps peft accelerate psutil # PyTorch is Debian's
}

if ! scripts/modern-root install; then
    without_testing "nothing was tested on its drivers"
    return
fi
use_driver /usr/share/vulkan/icd.d/lvp_icd.json
export VKATTN_BUILD_DIR=build-modern VKATTN_CMAKE_ARGS=$in_testing
# without what builds or compiles all once more, or sees nothing of the driver; layers below, cases on Debian 12's driver
status=0
scripts/modern-root run scripts/test -LE '^debian_12$' ||
    status=$?
library=$PWD/build-ci/tests/consume/add_subdirectory/build/vkattn/libvkattn.so
[ -e "$library" ] || { echo "no $library, expected what the stages documentation and lavapipe leave" && status=1; }
scripts/modern-root install python3-numpy python3-pytest python3-torch && fetch_transformers || status=$?
python="VKATTN_LIBRARY=$library VKATTN_JIT_LIBRARY=${library%/*}/runtime/jit/libvkattn_jit.so PYTHONPATH=$PWD/build-ci/transformers $pytest"
# python: the package beside PyTorch and in models of transformers, with the library that consume_python has.
# guard-pages, self-test: what of them is of this driver's kernels; every kernel's check takes minutes here, and Debian 12's driver
# and RDNA 3 run it. lanes: the shaders are those of the suite, and not validated once more.
# matrices: in layers, where they are chosen rather than requested; of NVIDIA's shape, too: AMD's are executed. instrumented:
# by GPU-assisted validation, every access of what is not executed in CI held to its buffer; without matrix units, since it
# does not know that a subgroup's barriers order what they store. choices: of devices some of whose kernels Debian 12's compiler
# leaves out, too.
try_devices scripts/modern-root run env <<END || status=$?
python-models $python python/tests/test_pytorch.py python/tests/test_torch_gradients.py python/tests/test_transformers.py python/tests/test_rope.py
python-lm $python python/tests/lm --ignore=python/tests/lm/test_llama_cpp.py
matrices-16x8 VKATTN_DEVICE_TRAITS=matrix_m=16,matrix_n=8,matrix_k=16 build-modern/tests/vkattn_tests --test-suite=attention.layouts
matrices VKATTN_DEVICE_TRAITS=matrix_units=1 build-modern/tests/vkattn_tests --test-suite=layers
self-test build-modern/tests/vkattn_tests --test-suite=self_test --test-case=*matrix?shape*
choices build-modern/tests/vkattn_tests --test-suite=device_zoo
lanes-4-linear LP_NATIVE_VECTOR_WIDTH=128 build-modern/tests/vkattn_tests --test-suite=operators --test-case=*quantised?weights*
lanes-4 LP_NATIVE_VECTOR_WIDTH=128 VK_LAYER_CHECK_SHADERS=0 build-modern/tests/vkattn_tests --test-suite=attention.numbers,kv_append
lanes-16 LP_NATIVE_VECTOR_WIDTH=512 VK_LAYER_CHECK_SHADERS=0 build-modern/tests/vkattn_tests --test-suite=attention.numbers,kv_append
guard-pages VKATTN_GUARD_PAGES=1 VKATTN_VALIDATION=0 build-modern/tests/vkattn_tests --test-suite=guard_pages
instrumented VKATTN_DEVICE_TRAITS=cooperative_matrix=0 VK_LAYER_GPUAV_ENABLE=1 VK_LAYER_VALIDATE_CORE=0 VK_LAYER_MESSAGE_ID_FILTER=WARNING-Setting-Limit-Adjusted,GPUAV-Compile-time-general-buffer,VALIDATION-SETTINGS build-modern/tests/vkattn_tests --test-suite=sequences --test-case=*append*,*lie*,*outside*,*onto*
END
exit $status
