# shellcheck shell=bash
# The site: mkdocs --strict and Doxygen fail on what they warn of, pages.py on links that lead nowhere. What the pages say of the project
# and packaging of its parts; and the programs of the pages, in C, C++ and Python, on the one shared library that this compiles.
VKATTN_BUILD_DIR=build-ci scripts/compile documentation
[ -s build-ci/documentation/site/reference/structvkattn__attention__desc.html ]
compile_on_debian vkattn_shaders
compile_on_debian vkattn_variant_sources
VKATTN_VALIDATION=0 ctest --test-dir build-ci --output-on-failure --no-tests=error -j"$jobs" \
    -R '^(documentation|packaging|consume_(documentation|python_documentation))$'
