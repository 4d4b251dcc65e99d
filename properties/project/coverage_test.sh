#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The coverage table accepts what is executed or argued, and refuses the rest: on made-up gcov text.
#   coverage_test.sh <path of coverage.awk>
set -eu
script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/optimized"

failed=0
# expect <exit code> <text of the report> <what>: the report of $work/gcov and $work/optimized/a.h
expect() {
  code=0
  awk -v root="$work" -v least=50 -f "$script" "$work/gcov" >"$work/report" || code=$?
  if [ "$code" != "$1" ] || ! grep -q "$2" "$work/report"; then
    echo "$3: exit code $code, expected $1 and '$2' in:"
    cat "$work/report"
    failed=1
  fi
}
# gcov <count of line 2> <count of line 3>; line 1 has no code
gcov() {
  printf '%9s:%5s:%s\n' - 0 "Source:$work/optimized/a.h" - 1 x "$1" 2 x "$2" 3 x
  printf '%9s:%5s:%s\n' - 0 Source:/elsewhere/b.h '#####' 2 x
}

printf '//\nint a;\nint b;\n' >"$work/optimized/a.h"
gcov 4 '1*' >"$work/gcov"
expect 0 'a.h  *2  *2  *100.00  *0$' 'all executed'
gcov 4 '#####' >"$work/gcov"
expect 1 '^optimized/a.h:3: int b;' 'a line without a reason'
(gcov 7 '#####'; gcov '#####' 2) >"$work/gcov"
expect 0 'all  *2  *2  *100.00' 'a header in several objects'

gcov 4 4 | sed -e '4a branch  0 taken 3 (fallthrough)' -e '4a branch  1 taken 0' \
  -e '4a branch  2 taken 0 (throw)' >"$work/gcov"
expect 0 'branches of optimized  *2  *1  *50.00  *0$' 'branches, but for exceptions'

printf '//\nint a;\nint b;  // unreached: nobody asks\n' >"$work/optimized/a.h"
gcov 4 '#####' >"$work/gcov"
expect 0 'all  *2  *1  *50.00  *1$' 'a reason at the line'
gcov 4 3 >"$work/gcov"
expect 1 '^optimized/a.h:3: is executed' 'a reason that is stale'
gcov '#####' '#####' >"$work/gcov"
expect 1 '^optimized/a.h:2: int a;' 'a reason at another line'

printf '// unreached: nobody asks\nint a;\nint b;\n' >"$work/optimized/a.h"
expect 1 'all  *2  *0  *0.00  *2$' 'all argued, but too little executed'
gcov '#####' 3 >"$work/gcov"
expect 0 'all  *2  *1  *50.00  *1$' 'a reason above the line'
gcov 3 '#####' >"$work/gcov"
expect 1 '^optimized/a.h:1: gives a reason' 'a reason above an executed line'

: >"$work/gcov"
expect 1 'nothing was executed' 'no gcov text'
exit $failed
