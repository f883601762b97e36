# The shared library of a static build, which Python needs: the files of it that define functions of the C interface, compiled once
# more so that it is seen, on the static library. Built on request alone: the target vkattn_shared, shared/libvkattn.so.
if(NOT UNIX OR NOT vkattn_is_top_level)
    return()
endif()
get_target_property(vkattn_sources vkattn SOURCES)
list(FILTER vkattn_sources INCLUDE REGEX ^runtime/) # the rest is generated
set(vkattn_api_sources)
foreach(source IN LISTS vkattn_sources)
    file(STRINGS ${PROJECT_SOURCE_DIR}/${source} defines REGEX "^[a-z].*[ *]vkattn_[a-z0-9_]+\\(" LIMIT_COUNT 1)
    if(defines)
        list(APPEND vkattn_api_sources ${source})
    endif()
endforeach()
add_library(vkattn_shared SHARED EXCLUDE_FROM_ALL ${vkattn_api_sources})
add_dependencies(vkattn_shared vkattn)
target_compile_features(vkattn_shared PRIVATE cxx_std_20)
target_compile_definitions(vkattn_shared PRIVATE VKATTN_BUILD)
target_include_directories(vkattn_shared PRIVATE $<TARGET_PROPERTY:vkattn,INCLUDE_DIRECTORIES>)
# by its file, since the target would say VKATTN_STATIC
target_link_libraries(vkattn_shared PRIVATE $<TARGET_FILE:vkattn> Vulkan::Headers Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(vkattn_shared PROPERTIES
    OUTPUT_NAME vkattn
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/shared
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    UNITY_BUILD OFF)
if(NOT APPLE)
    target_link_options(vkattn_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
endif()
