# Builds that CI alone makes parse once what most files include: .ci/common.sh.
function(precompile_headers)
    set(standard <algorithm> <array> <cmath> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <vector>)
    target_precompile_headers(vkattn PRIVATE ${standard} <bit> <chrono> <cstring> <vulkan/vulkan.h> <vkattn/vkattn.h>)
    if(TARGET vkattn_tests)
        target_precompile_headers(vkattn_tests PRIVATE ${standard} <random> <sstream> <doctest/doctest.h> <volk.h>)
    endif()
endfunction()
cmake_language(DEFER CALL precompile_headers)
