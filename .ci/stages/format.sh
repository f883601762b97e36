# shellcheck shell=bash
# Every file is laid out by clang-format, and the house is in order: who includes whom, lines within tests/house/line_budget, a stage
# for every path.
status=0
scripts/format --check || status=$?
cmake -DROOT="$PWD" -P tests/planner/house.cmake || status=$?
$pytest tests/house || status=$?
exit $status
