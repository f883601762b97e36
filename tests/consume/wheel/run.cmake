# Makes a wheel of the source and installs it where there is nothing besides; the sample and the tests find its library. Skipped
# where pip reaches no package index.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
set(python "${WORK}/venv/bin/python")
run(${PYTHON} -m venv venv)
execute_process(COMMAND ${python} -m pip download --no-deps --dest index scikit-build-core
    WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
    message("skipped: pip cannot download scikit-build-core, which builds the wheel:\n${output}")
    return()
endif()

string(REGEX REPLACE "^-DCMAKE_CXX_COMPILER_LAUNCHER=" "" launcher "${LAUNCHER}")
run(${CMAKE_COMMAND} -E env --unset=VKATTN_LIBRARY --unset=PYTHONPATH CC=${C_COMPILER} CXX=${CXX_COMPILER}
    "CFLAGS=${C_FLAGS} -Wall -Wextra -Werror" "CXXFLAGS=${CXX_FLAGS} -Wall -Wextra -Werror"
    CMAKE_C_COMPILER_LAUNCHER=${launcher} CMAKE_CXX_COMPILER_LAUNCHER=${launcher}
    ${python} -m pip wheel --no-cache-dir --no-deps --wheel-dir wheels "--config-settings=build-dir=${WORK}/build"
    --config-settings=cmake.build-type=None # nothing of what is looked at needs an optimiser
    "--config-settings=cmake.define.VKATTN_COMPILED_SHADERS=${SHADERS}"
    "${VKATTN_SOURCE}")
file(GLOB wheels RELATIVE "${WORK}/wheels" "${WORK}/wheels/*")
if(NOT wheels MATCHES "^vkattn-[0-9.]+-py3-none-[a-z]+_[a-z0-9_]+\\.whl$")
    message(FATAL_ERROR "pip wheel made ${wheels}, expected one wheel for every Python of the platform")
endif()

run(${python} -m pip install "wheels/${wheels}")
set(clean ${CMAKE_COMMAND} -E env --unset=VKATTN_LIBRARY --unset=PYTHONPATH)
expect_output("/venv/lib/.*libvkattn" ${clean} ${python} -c "import pathlib, vkattn
print(*pathlib.Path(vkattn.__file__).parent.glob('libvkattn*'))")
expect_output("/venv/lib/.*/_interface.py" ${clean} ${python} -c "from vkattn import _interface
print(_interface.__file__)")
expect_output("each is what it is alone" ${clean} ${python} "${VKATTN_SOURCE}/samples/serve_sequences.py")
expect_output("usage: vkattn-plot" ${clean} "${WORK}/venv/bin/vkattn-plot" --help)
execute_process(COMMAND ${clean} "${WORK}/venv/bin/vkattn-plot" bench -o picture.png file.json
    WORKING_DIRECTORY "${WORK}" ERROR_VARIABLE output OUTPUT_QUIET)
if(NOT output MATCHES "matplotlib: is missing, expected it .pip install matplotlib.")
    message(FATAL_ERROR "vkattn-plot without matplotlib printed\n${output}\nexpected how to install it in a venv")
endif()
expect_output("usage: vkattn-lm" ${clean} "${WORK}/venv/bin/vkattn-lm" --help)
execute_process(COMMAND ${clean} "${WORK}/venv/bin/vkattn-lm" complete "${VKATTN_SOURCE}/README.md" text
    WORKING_DIRECTORY "${WORK}" ERROR_VARIABLE output OUTPUT_QUIET)
if(NOT output MATCHES "the package gguf is missing, expected it: pip install 'vkattn.lm.'")
    message(FATAL_ERROR "vkattn-lm without gguf printed\n${output}\nexpected how to install it")
endif()
expect_output("passed" ${clean} "${WORK}/venv/bin/vkattn" check
    "${VKATTN_SOURCE}/tests/data/ref003_gqa4_mask_padding.safetensors")
if(NOT EXISTS "${WORK}/venv/share/man/man1/vkattn.1")
    message(FATAL_ERROR "the wheel brought no man page of vkattn")
endif()
