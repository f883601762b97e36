# Builds and runs the project beside this file: what is left runs, what is left out is told by its option.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
build("${CMAKE_CURRENT_LIST_DIR}" "-DVKATTN_SOURCE=${VKATTN_SOURCE}" ${LAUNCHER}
    "-DVKATTN_COMPILED_SHADERS=${SHADERS}" -DCMAKE_BUILD_TYPE=None) # nothing of what is looked at needs an optimiser
expect_output("all as expected" "${WORK}/build/consumer")
