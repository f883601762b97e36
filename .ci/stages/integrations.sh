# shellcheck shell=bash
# vkattn in other people's engines: integrations/NAME/test of each, with the packages of integrations/NAME/debian-packages, in Debian testing.
# What a folder's `fetch` gets from PyPI it gets here, outside of Debian testing, whose pip knows no certificates of this machine's.
# A test or a fetch that exits with 77 cannot run here: that is counted as skipped, for the reason of its last line, and .ci/skips allows none.
if ! find integrations -name debian-packages -exec cat {} + | xargs scripts/modern-root install; then
    without_testing "no integration was tested"
    return
fi
status=0
skipped() { printf '1\t%s: %s\n' "$1" "$(tail -n 1 "$2")" >>"$VKATTN_TEST_SKIPS"; } # skipped NAME LOG
for fetch in integrations/*/fetch; do
    [ -x "$fetch" ] || continue
    name=$(basename "$(dirname "$fetch")") code=0
    "$fetch" 2>&1 </dev/null | tee "build-ci/fetch-$name.log" || code=${PIPESTATUS[0]}
    if [ "$code" -eq 77 ]; then # its test may go on with less
        skipped "$name" "build-ci/fetch-$name.log"
    elif [ "$code" -ne 0 ]; then
        status=1
    fi
done
use_driver /usr/share/vulkan/icd.d/lvp_icd.json
for test in integrations/*/test; do
    [ -x "$test" ] || continue # no integration at all, too
    name=$(basename "$(dirname "$test")") code=0 start=$SECONDS
    scripts/modern-root run "$test" 2>&1 </dev/null | tee "build-ci/integration-$name.log" || code=${PIPESTATUS[0]}
    if [ "$code" -eq 77 ]; then
        skipped "$name" "build-ci/integration-$name.log"
    elif [ "$code" -ne 0 ]; then
        status=1
    fi
    echo "$test: exit $code, $((SECONDS - start)) s"
done
exit $status
