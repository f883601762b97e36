# shellcheck shell=bash
# clang-tidy on the library, with the headers that its builds make.
compile_on_debian vkattn
compile_emulated vkattn
check=(clang-tidy --quiet "--warnings-as-errors=*")
sources 'runtime/*.cpp' | grep -v /emulated_ | xargs -r -n 1 -P "$jobs" "${check[@]}" -p build-ci
"${check[@]}" -p build-emulated runtime/device/emulated_subgroups.cpp
