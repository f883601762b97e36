# The warnings for every target of this project; set per folder, so that an embedding project's own targets keep theirs.
if(MSVC)
    add_compile_options(/W4 /permissive- /utf-8 $<$<BOOL:${VKATTN_WERROR}>:/WX>)
    add_compile_definitions(_CRT_SECURE_NO_WARNINGS NOMINMAX)
else()
    add_compile_options(-Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${VKATTN_WERROR}>:-Werror>)
    # GCC 12 sees overlap in std::string's operator+ where there is none (GCC bug 105651).
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
    endif()
    # To GCC, -Wconversion is without it in C++.
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        add_compile_options(-Wno-sign-conversion)
    endif()
endif()
