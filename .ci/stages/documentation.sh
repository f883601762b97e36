# shellcheck shell=bash
# The site: mkdocs --strict and Doxygen fail on what they warn of, pages.py on links that lead nowhere.
VKATTN_BUILD_DIR=build-ci scripts/compile documentation
[ -s build-ci/documentation/site/reference/structvkattn__attention__desc.html ]
