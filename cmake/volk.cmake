# vkattn_volk: the header of volk, by which tests and samples that have a device of their own load Vulkan; no target where it is
# not installed.
find_path(VKATTN_VOLK_INCLUDE_DIR volk.h PATH_SUFFIXES Volk DOC "The folder of volk.h")
if(VKATTN_VOLK_INCLUDE_DIR)
    add_library(vkattn_volk INTERFACE)
    target_include_directories(vkattn_volk SYSTEM INTERFACE ${VKATTN_VOLK_INCLUDE_DIR})
    target_compile_definitions(vkattn_volk INTERFACE VK_NO_PROTOTYPES)
    target_link_libraries(vkattn_volk INTERFACE Vulkan::Headers ${CMAKE_DL_LIBS})
endif()
