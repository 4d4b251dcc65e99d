#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which lines and branches of optimized/ and reference/ tests execute, by g++ and gcovr (Debian:
# gcovr):
#
#   .cmake/coverage.sh           build, run, report
#   .cmake/coverage.sh --report  report what was executed last
#
# It fails below 98 % of all lines. Why a line of optimized/ is not executed stands in a comment
# `// unreached: ...`, at its end or above it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/coverage
# The tests that drive the two folders themselves, and a short check, which drives its variants.
programs=(allocation_failure_test allocations_test allocators_test concurrency_test facts_test
          traces_test)

case "${1-}" in
  "")
    cmake --preset coverage >/dev/null
    cmake --build $build --target "${programs[@]}" kvproof-check --parallel "$(nproc)"
    find $build -name '*.gcda' -delete
    for program in "${programs[@]}"; do
      # The calls of a real engine keep the oracles busy for many minutes when nothing is optimised;
      # the same recordings drive the two folders in the tests that compare them.
      $build/tests/"$program" --gtest_brief=1 --gtest_filter='-GoldenAudit.*'
    done
    $build/bin/kvproof-check --operations=1500
    ;;
  --report) ;;
  *) echo "usage: .cmake/coverage.sh [--report]" >&2 && exit 2 ;;
esac

gcovr --root . --filter optimized/ --filter reference/ --exclude-throw-branches --print-summary \
  --fail-under-line 98 $build
