# Builds and runs the project beside this file, whose shared library must have nothing to show but the C interface, and must
# not need a Vulkan loader to be loaded. It is installed, for other tests.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
build("${CMAKE_CURRENT_LIST_DIR}" "-DVKATTN_SOURCE=${VKATTN_SOURCE}" ${LAUNCHER}
    "-DVKATTN_COMPILED_SHADERS=${SHADERS}" -DCMAKE_BUILD_TYPE=None) # nothing of what is looked at needs an optimiser
expect_output("1 -2 3 0.25" "${WORK}/build/consumer")
file(GLOB library "${WORK}/build/vkattn/libvkattn.so.*.*.*")
run(nm --dynamic --defined-only --extern-only --format=just-symbols "${library}")
string(REGEX REPLACE "(^|\n)(vkattn_[a-z_0-9]+@@VKATTN_0\\.1|VKATTN_0\\.1(@@VKATTN_0\\.1)?|_fini|_init)" "" others "${output}")
string(STRIP "${others}" others)
if(NOT others STREQUAL "" OR NOT output MATCHES "vkattn_version@@")
    message(FATAL_ERROR "libvkattn.so: expected symbols vkattn_* of version VKATTN_0.1, and no others; other ones:\n${others}")
endif()
run(readelf --dynamic "${library}")
if(output MATCHES "libvulkan" OR NOT output MATCHES "soname: .libvkattn\\.so\\.0]")
    message(FATAL_ERROR "libvkattn.so: expected soname libvkattn.so.0 and no libvulkan:\n${output}")
endif()
run(${CMAKE_COMMAND} --install "${WORK}/build/vkattn" --prefix "${WORK}/prefix")
