# Vulkan::Headers: the headers alone, since the loader is opened at run time.
if(NOT TARGET Vulkan::Headers)
    find_package(Vulkan QUIET)
endif()
if(NOT TARGET Vulkan::Headers)
    find_path(Vulkan_INCLUDE_DIR vulkan/vulkan.h)
    if(NOT Vulkan_INCLUDE_DIR)
        message(FATAL_ERROR "No Vulkan headers found: install them (Debian: apt install libvulkan-dev), or set "
            "Vulkan_INCLUDE_DIR to the folder that holds vulkan/vulkan.h.")
    endif()
    add_library(Vulkan::Headers INTERFACE IMPORTED)
    set_target_properties(Vulkan::Headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Vulkan_INCLUDE_DIR}")
endif()
