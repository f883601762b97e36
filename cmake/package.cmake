# Packages: `cpack` in the build folder makes a Debian package and a tarball of what is installed; the target source_package a
# tarball of the source with compiled shaders, which builds without a GLSL compiler; amalgamation, the library as one file of C++;
# android_archive, of an NDK's shared library, an AAR.
set(CPACK_PACKAGE_NAME vkattn)
set(CPACK_PACKAGE_VENDOR vkattn)
# A name that no mail reaches. Who gives a package away says: cpack -D "CPACK_PACKAGE_CONTACT=NAME <ADDRESS>"
set(CPACK_PACKAGE_CONTACT "The vkattn authors <noreply@vkattn.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_HOMEPAGE_URL "${VKATTN_HOMEPAGE_URL}")
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A library that computes attention on GPUs of every vendor and on CPU drivers,
with its headers, and the command vkattn, which runs case files, measures and
estimates. The library opens the Vulkan loader at run time.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libvulkan1)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan-dev, mesa-vulkan-drivers, python3, python3-matplotlib") # python3: vkattn-plot
set(CPACK_DEBIAN_PACKAGE_SUGGESTS glslang-dev) # which programs of a static vkattn_jit link
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)

include(CPack)

option(VKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS "Let source_package pack shaders that lack those for matrix units" OFF)
if(VKATTN_BUILD_TOOLS) # whose shaders a release holds too
    add_custom_target(source_package
        COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADERS=${PROJECT_BINARY_DIR}/generated/vkattn_shaders
                -DOUTPUT=${PROJECT_BINARY_DIR} -DNAME=vkattn-${PROJECT_VERSION}
                -DCPU_DRIVERS=${VKATTN_CPU_DRIVERS} -DMATRIX_UNITS=${VKATTN_MATRIX_UNITS} -DQUANTISED_WEIGHTS=${VKATTN_QUANTISED_WEIGHTS}
                -DMAY_LACK_KERNELS=${VKATTN_PACKAGE_WITHOUT_MATRIX_KERNELS}
                -P ${PROJECT_SOURCE_DIR}/cmake/source_package.cmake
        COMMENT "Packing the source with compiled shaders" VERBATIM)
    add_dependencies(source_package vkattn_shaders vkattn_peak_shaders)
endif()
find_program(VKATTN_PYTHON NAMES python3 python DOC "Makes the target amalgamation; optional")
if(VKATTN_PYTHON AND NOT VKATTN_EMULATED_SUBGROUPS)
    set(amalgamation ${PROJECT_BINARY_DIR}/amalgamation/vkattn-${PROJECT_VERSION})
    add_custom_target(amalgamation
        COMMAND ${CMAKE_COMMAND} -E make_directory ${amalgamation}
        COMMAND ${VKATTN_PYTHON} -B ${PROJECT_SOURCE_DIR}/packaging/amalgamation/amalgamate.py ${PROJECT_SOURCE_DIR}
                ${VKATTN_SHADER_INCLUDE_DIR} ${PROJECT_BINARY_DIR}/generated/variant ${amalgamation}
        COMMAND ${CMAKE_COMMAND} -E chdir ${PROJECT_BINARY_DIR}/amalgamation ${CMAKE_COMMAND} -E tar czf
                ${PROJECT_BINARY_DIR}/vkattn-${PROJECT_VERSION}-amalgamation.tar.gz vkattn-${PROJECT_VERSION}
        COMMENT "Writing the library as one file, ${amalgamation}/vkattn.cpp" VERBATIM)
    add_dependencies(amalgamation vkattn_shaders vkattn_variant_sources)
endif()
if(ANDROID AND BUILD_SHARED_LIBS)
    add_custom_target(android_archive
        COMMAND ${CMAKE_COMMAND} -DLIBRARIES=${ANDROID_ABI}=$<TARGET_FILE:vkattn> -DVERSION=${PROJECT_VERSION}
                -DAPI=${ANDROID_PLATFORM_LEVEL} -DNDK=${ANDROID_NDK_MAJOR}
                -DOUTPUT=${PROJECT_BINARY_DIR}/vkattn-${PROJECT_VERSION}.aar
                -P ${PROJECT_SOURCE_DIR}/packaging/android/package.cmake
        DEPENDS vkattn COMMENT "Packing the library for Android" VERBATIM)
endif()
