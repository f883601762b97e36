# The target `documentation`: the pages in docs, the headers and the Python package as one static site, build/documentation/site. Whatever the tools
# warn of, and every link that leads nowhere, is an error.
find_package(Doxygen QUIET)
find_program(VKATTN_MKDOCS mkdocs DOC "Makes the site of the documentation")
set(python "")
foreach(candidate python3 /usr/bin/python3) # one that has MkDocs' reader of Markdown
    execute_process(COMMAND ${candidate} -c "import markdown" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
        set(python ${candidate})
        break()
    endif()
endforeach()
set(missing "")
if(NOT DOXYGEN_FOUND)
    string(APPEND missing " doxygen")
endif()
if(NOT VKATTN_MKDOCS OR NOT python)
    string(APPEND missing " mkdocs")
endif()
if(missing)
    add_custom_target(documentation
        COMMAND ${CMAKE_COMMAND} -E echo "documentation: not found:${missing}. Install it (Debian: apt install${missing}) and configure again."
        COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
    return()
endif()

set(folder ${PROJECT_BINARY_DIR}/documentation)
set(DOXYGEN_OUTPUT_DIRECTORY ${folder}/pages)
set(DOXYGEN_HTML_OUTPUT reference)
set(DOXYGEN_PROJECT_BRIEF "Attention for every Vulkan device")
set(DOXYGEN_OPTIMIZE_OUTPUT_FOR_C YES)
set(DOXYGEN_TYPEDEF_HIDES_STRUCT YES)
set(DOXYGEN_EXTRACT_ALL YES)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_MARKDOWN_SUPPORT NO) # comments are plain text
set(DOXYGEN_SHOW_INCLUDE_FILES NO)
set(DOXYGEN_VERBATIM_HEADERS NO)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_FILE_PATTERNS *.h *.hpp)
set(DOXYGEN_FILTER_PATTERNS "\"*.h=${python} ${PROJECT_SOURCE_DIR}/cmake/doxygen_filter.py\""
    "\"*.hpp=${python} ${PROJECT_SOURCE_DIR}/cmake/doxygen_filter.py\"")
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED VKATTN_API= __cpp_exceptions=1 __cplusplus=202002L)
set(DOXYGEN_WARN_IF_INCOMPLETE_DOC NO) # what a parameter is, its name often says
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_HAVE_DOT NO)
doxygen_add_docs(documentation_reference ${PROJECT_SOURCE_DIR}/include COMMENT "Documenting the headers")

add_custom_target(documentation
    COMMAND ${python} ${PROJECT_SOURCE_DIR}/docs/pages.py ${folder}/pages
    COMMAND ${python} ${PROJECT_SOURCE_DIR}/docs/python_reference.py ${folder}/pages/docs/python_reference.md
    COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/docs/mkdocs.yml ${folder}/mkdocs.yml
    COMMAND ${VKATTN_MKDOCS} build --quiet --strict --clean --config-file ${folder}/mkdocs.yml
    COMMENT "Making the site of the documentation" VERBATIM)
add_dependencies(documentation documentation_reference)
