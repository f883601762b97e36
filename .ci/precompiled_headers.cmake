# Builds that CI alone makes parse once what most files include: .ci/common.sh.
function(precompile_headers)
    target_precompile_headers(vkattn PRIVATE
        <algorithm> <array> <bit> <chrono> <cmath> <cstring> <functional> <map> <memory> <mutex> <optional> <set> <span> <string>
        <vector> <vulkan/vulkan.h> <vkattn/vkattn.h>)
    if(TARGET vkattn_tests)
        target_precompile_headers(vkattn_tests PRIVATE
            <algorithm> <array> <cmath> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <vector>
            <doctest/doctest.h> <volk.h>)
    endif()
endfunction()
cmake_language(DEFER CALL precompile_headers)
