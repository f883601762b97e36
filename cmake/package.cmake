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

include(CPack)

option(VKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS "Let source_package pack shaders that lack those for matrix units" OFF)
add_custom_target(source_package
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADERS=${PROJECT_BINARY_DIR}/generated/vkattn_shaders
            -DOUTPUT=${PROJECT_BINARY_DIR} -DNAME=vkattn-${PROJECT_VERSION}
            -DCPU_DRIVERS=${VKATTN_CPU_DRIVERS} -DMAY_LACK_KERNELS=${VKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS}
            -P ${PROJECT_SOURCE_DIR}/cmake/source_package.cmake
    COMMENT "Packing the source with compiled shaders" VERBATIM)
add_dependencies(source_package vkattn_shaders)
