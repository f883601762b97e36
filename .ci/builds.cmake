# Of builds that CI alone makes: .ci/common.sh. What most files include is parsed once; and where nothing is optimised, what every plan
# runs for the longest is, a little: whole modules are unpacked and read.
function(prepare_builds)
    set(standard <algorithm> <array> <cmath> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <vector>)
    target_precompile_headers(vkattn PRIVATE ${standard} <bit> <chrono> <cstring> <vulkan/vulkan.h> <vkattn/vkattn.h>)
    if(TARGET vkattn_tests)
        target_precompile_headers(vkattn_tests PRIVATE ${standard} <random> <sstream> <doctest/doctest.h> <volk.h>)
    endif()
    if(CMAKE_CXX_FLAGS MATCHES "-O0")
        file(GLOB unpacking runtime/support/inflate.cpp runtime/spirv/*.cpp runtime/vulkan/shader.cpp)
        set_source_files_properties(${unpacking} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
    endif()
endfunction()
cmake_language(DEFER CALL prepare_builds)
