#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Which lines and branches of optimized/ and reference/ tests execute, by g++ and its own gcov:
#
#   .cmake/coverage.sh           build, run, report
#   .cmake/coverage.sh --report  report what was executed last
#
# Exit code 1 below 98 % of all lines, or where a line of optimized/ that was not executed lacks its
# reason, or a reason has become stale. The reason is a comment `// unreached: ...`: at the end of
# the line, or alone above the lines it speaks of, as far as the next executed line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

least=98  # [%] of the lines that have code
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

# A header is compiled into many objects: a line is executed if it is in one of them.
root=$PWD
cd $build
find . -name '*.gcda' -print0 | sort -z |
  xargs -0 gcov --branch-probabilities --branch-counts --stdout --relative-only \
    --source-prefix "$root" 2>/dev/null |
  awk -v root="$root" -v least="$least" -f "$root/.cmake/coverage.awk"
