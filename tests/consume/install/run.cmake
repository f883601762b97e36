# Installs the build VKATTN_BUILD once, for those tests that need no more than what is installed.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
run(${CMAKE_COMMAND} --install "${VKATTN_BUILD}" --prefix "${PREFIX}" --config "${CONFIG}")
