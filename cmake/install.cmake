include(CMakePackageConfigHelpers)

set(vkattn_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vkattn)

install(TARGETS vkattn EXPORT vkattnTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT vkattnTargets NAMESPACE vkattn:: DESTINATION ${vkattn_package_dir})
if(TARGET vkattn_jit) # targets by themselves: a static one needs glslang where it is linked
    install(TARGETS vkattn_jit EXPORT vkattnJitTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(EXPORT vkattnJitTargets NAMESPACE vkattn:: DESTINATION ${vkattn_package_dir})
endif()
install(DIRECTORY include/vkattn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "jit.*" EXCLUDE)
if(TARGET vkattn_jit)
    install(FILES include/vkattn/jit.h include/vkattn/jit.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/vkattn)
endif()

# What C++ links beyond C, for programs that a C compiler links with a static library.
set(vkattn_cxx_runtime "")
if(NOT BUILD_SHARED_LIBS)
    set(vkattn_cxx_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
    list(REMOVE_ITEM vkattn_cxx_runtime ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
    list(TRANSFORM vkattn_cxx_runtime REPLACE "^.*/lib(.*)\\.(a|so)$" "\\1") # mingw-w64's has its path
endif()

if(TARGET vkattn_jit)
    set(vkattn_has_jit ON)
else()
    set(vkattn_has_jit OFF)
endif()
configure_package_config_file(cmake/vkattnConfig.cmake.in ${PROJECT_BINARY_DIR}/vkattnConfig.cmake
    INSTALL_DESTINATION ${vkattn_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vkattnConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vkattnConfig.cmake ${PROJECT_BINARY_DIR}/vkattnConfigVersion.cmake
    cmake/vulkan_headers.cmake cmake/vkattn_add_variant.cmake cmake/embed_variant.cmake
    DESTINATION ${vkattn_package_dir})

# A static library's users must link what it needs, and must know that it is static.
set(vkattn_pc_cflags "")
set(vkattn_pc_libs "")
if(NOT BUILD_SHARED_LIBS)
    set(vkattn_pc_cflags "-DVKATTN_STATIC")
    set(vkattn_pc_libs "-pthread")
    foreach(library IN LISTS vkattn_cxx_runtime CMAKE_DL_LIBS)
        string(APPEND vkattn_pc_libs " -l${library}")
    endforeach()
endif()
set(vkattn_pc_url "")
if(VKATTN_HOMEPAGE_URL)
    set(vkattn_pc_url "URL: ${VKATTN_HOMEPAGE_URL}\n")
endif()
file(RELATIVE_PATH vkattn_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" vkattn_pc_prefix "${vkattn_pc_prefix}")
configure_file(cmake/vkattn.pc.in ${PROJECT_BINARY_DIR}/vkattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/vkattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET vkattn_jit AND BUILD_SHARED_LIBS)
    configure_file(cmake/vkattn_jit.pc.in ${PROJECT_BINARY_DIR}/vkattn_jit.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/vkattn_jit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(vkattn_is_top_level) # of whatever `cmake --install` of this build folder installed last
    add_custom_target(uninstall
        COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
        COMMENT "Removing what was installed" VERBATIM)
endif()

if(SKBUILD) # pyproject.toml: a wheel, which carries the library and the command beside the package, and can hold no links to it
    add_custom_target(vkattn_wheel)
    foreach(target vkattn vkattn_jit vkattn_command)
        if(TARGET ${target})
            add_dependencies(vkattn_wheel ${target})
            set_property(TARGET ${target} PROPERTY INSTALL_RPATH $<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>)
        endif()
    endforeach()
    foreach(target vkattn vkattn_jit)
        if(TARGET ${target})
            set_property(TARGET ${target} PROPERTY VERSION)
            set_property(TARGET ${target} PROPERTY SOVERSION)
            install(TARGETS ${target} LIBRARY DESTINATION vkattn COMPONENT python RUNTIME DESTINATION vkattn COMPONENT python)
        endif()
    endforeach()
    find_package(Python COMPONENTS Interpreter REQUIRED)
    execute_process(COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/vkattn/_headers.py ${PROJECT_SOURCE_DIR}/include/vkattn
                            ${PROJECT_BINARY_DIR}/_interface.py
                    COMMAND_ERROR_IS_FATAL ANY)
    install(FILES ${PROJECT_BINARY_DIR}/_interface.py DESTINATION vkattn COMPONENT python)
    if(TARGET vkattn_command)
        install(TARGETS vkattn_command RUNTIME DESTINATION vkattn COMPONENT python)
        install(FILES tools/vkattn.1 python/vkattn-plot.1 python/vkattn-lm.1 DESTINATION ${SKBUILD_DATA_DIR}/share/man/man1 COMPONENT python)
    endif()
endif()
