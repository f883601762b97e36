# Compiles a program by what pkg-config says of an installed vkattn.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
file(GLOB_RECURSE description "${PREFIX}/vkattn.pc")
get_filename_component(folder "${description}" DIRECTORY)
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
separate_arguments(more_link_flags UNIX_COMMAND "$ENV{LDFLAGS}") # as CMake takes them for the other consumers
run(${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${folder}" ${PKG_CONFIG} --cflags vkattn)
separate_arguments(compile_flags UNIX_COMMAND "${output}")
run(${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${folder}" ${PKG_CONFIG} --libs vkattn)
separate_arguments(link_flags UNIX_COMMAND "${output}")
run("${CXX_COMPILER}" -std=c++20 ${flags} ${compile_flags} "${CMAKE_CURRENT_LIST_DIR}/../find_package/main.cpp"
    -o "${WORK}/consumer" ${link_flags} ${more_link_flags})
expect_output("1 -2 3 0.25" ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${folder}/.." "${WORK}/consumer")
