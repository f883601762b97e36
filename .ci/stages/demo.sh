# shellcheck shell=bash
# What a new user does: the demo in a fresh copy, twice; the second time nothing is left to do.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
sources | tar -c -T - | tar -x -C "$copy"
export CCACHE_BASEDIR=$copy
"$copy/scripts/demo"
again=$("$copy/scripts/demo")
[[ $again == *"no work to do"* ]]
