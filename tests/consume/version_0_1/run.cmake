# A program compiled against the headers of version 0.1, which this folder keeps, runs on today's shared library.
include(${CMAKE_CURRENT_LIST_DIR}/../consume.cmake)
get_filename_component(folder "${LIBRARY}" DIRECTORY)
run(${C_COMPILER} -std=c99 -Wall -Wextra -Werror -I${CMAKE_CURRENT_LIST_DIR}/include ${CMAKE_CURRENT_LIST_DIR}/main.c
    -o ${WORK}/client ${LIBRARY} -Wl,-rpath,${folder} -lm)
expect_output("a program of version 0.1 on vkattn .*: right" ${WORK}/client)
