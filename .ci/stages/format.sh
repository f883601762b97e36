# shellcheck shell=bash
# Every file is laid out by clang-format.
scripts/format --check
