# Packs what git knows of SOURCE, and the compiled shaders in HEADERS, as NAME.tar.gz in OUTPUT; NAME is its folder too.
set(stage ${OUTPUT}/source_package)
file(REMOVE_RECURSE ${stage})
file(MAKE_DIRECTORY ${stage}/${NAME})
execute_process(COMMAND git ls-files --cached --others --exclude-standard WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" files "${files}")
foreach(file IN LISTS files)
    get_filename_component(folder ${stage}/${NAME}/${file} DIRECTORY)
    file(COPY ${SOURCE}/${file} DESTINATION ${folder})
endforeach()
file(COPY ${HEADERS} DESTINATION ${stage}/${NAME}/shaders/compiled)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${OUTPUT}/${NAME}.tar.gz ${NAME} WORKING_DIRECTORY ${stage}
    COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${stage})
message(STATUS "${OUTPUT}/${NAME}.tar.gz")
