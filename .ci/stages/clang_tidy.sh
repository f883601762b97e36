# shellcheck shell=bash
# clang-tidy on the library, with the headers that its builds make; where .ci/run knows what has changed, on the files that read any of it,
# since no other one can be found at fault.
reads_changed() { # prints the files that do, by what the compiler says that it has read
    { printf '%s\n\n' "$VKATTN_CI_CHANGED" && ninja -C build-ci -t deps; } | awk -v root="$PWD/" '
        NF == 0 { is_listed = 1 }
        !is_listed { changed[$0] }
        / #deps / { file = "" }
        is_listed && NF == 1 {
            sub(/^\.\.\//, "", $1)
            if (index($1, root) == 1) $1 = substr($1, length(root) + 1)
            if (file == "") file = $1
            if ($1 in changed) print file
        }' | sort -u
}
compile_on_debian vkattn
compile_emulated vkattn
check=(clang-tidy --quiet "--warnings-as-errors=*")
files=$(sources 'runtime/*.cpp' | grep -v /emulated_)
if [ -n "${VKATTN_CI_CHANGED-}" ] && ! grep -q '^\.clang-tidy$' <<<"$VKATTN_CI_CHANGED"; then
    files=$(grep -xF "$(reads_changed)" <<<"$files" || true)
    echo "$(wc -w <<<"$files") files read what has changed"
fi
xargs -r -n 1 -P "$jobs" "${check[@]}" -p build-ci <<<"$files"
"${check[@]}" -p build-emulated runtime/device/emulated_subgroups.cpp
