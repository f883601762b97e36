# Packages: `cpack` in the build folder makes a Debian package and a tarball of what is installed; the target source_package a
# tarball of the source with compiled shaders, which builds without a GLSL compiler.
set(CPACK_PACKAGE_NAME vkattn)
set(CPACK_PACKAGE_VENDOR vkattn)
set(CPACK_PACKAGE_CONTACT "The vkattn authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libvulkan1)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan-dev, mesa-vulkan-drivers")

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME vkattn-${PROJECT_VERSION})
set(CPACK_SOURCE_INSTALLED_DIRECTORIES
    ${PROJECT_SOURCE_DIR} / ${PROJECT_BINARY_DIR}/generated/vkattn_shaders /shaders/compiled/vkattn_shaders)
set(CPACK_SOURCE_IGNORE_FILES "/[.]git/" "/[.]cache/" "/build[^/]*/" "/CMakeLists.txt.user$")
include(CPack)

add_custom_target(source_package
    COMMAND ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackSourceConfig.cmake -B ${PROJECT_BINARY_DIR}
    COMMENT "Packing the source with compiled shaders" VERBATIM)
add_dependencies(source_package vkattn_shaders)
