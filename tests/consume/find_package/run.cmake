# Installs a build of vkattn into a folder of its own, then builds and runs the project beside this file against it.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
install_vkattn()
build("${CMAKE_CURRENT_LIST_DIR}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
expect_output("1 -2 3 0.25" "${WORK}/build/consumer")
