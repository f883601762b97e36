# An overlay port. The release's tarball lies beside this file: its shaders are compiled, so that no GLSL compiler is needed.
set(ARCHIVE "${CURRENT_PORT_DIR}/vkattn-${VERSION}.tar.xz")
if(NOT EXISTS "${ARCHIVE}")
    message(FATAL_ERROR "${ARCHIVE} is not there, expected the release's tarball, which the target source_package makes")
endif()
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DVKATTN_BUILD_TOOLS=OFF -DVKATTN_BUILD_TESTS=OFF -DVKATTN_BUILD_SAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_copy_pdbs()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/vkattn)
foreach(folder lib debug/lib) # the headers are in the same folder; vulkan.pc is the loader's
    set(description "${CURRENT_PACKAGES_DIR}/${folder}/pkgconfig/vkattn.pc")
    if(EXISTS "${description}")
        vcpkg_replace_string("${description}" "Requires.private: vulkan\n" "")
    endif()
endforeach()
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")

file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
