#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of .ci/cost.sh: what it says of a command that costs more than is stated.
#   usage: cost_test.sh <folder of the project>
# shellcheck disable=SC2016 # of a document and of another shell
set -eu

project=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=.ci/cost.sh
. "$project/.ci/cost.sh"
failures=0

check() {  # check <what must hold> <command>...
  what=$1
  shift
  "$@" || { failures=$((failures + 1)); echo "FAILED: $what: status $code"; cat "$work/out"; }
}
judged() {  # judged <command> <CPU-seconds> <yardstick>...
  command=$1 cpu=$2
  shift 2
  yardsticks=$*
  code=0
  judge "$work/stated.md" 1.15 "$command" "$cpu" >"$work/out" 2>&1 || code=$?
}
exits() { [ "$code" = "$1" ]; }
says() { grep -qF -e "$1" "$work/out"; }

printf '%s\n' '| command | ratio |' '|---|---|' '| `.ci/run test --full` | 300 |' \
  '| `.ci/run test` | 100 |' 'see `.ci/run test`' >"$work/stated.md"
judged ".ci/run test" 499 5.0 5.2 4.8
check "what is stated holds" exits 0
check "the ratio is said" says ".ci/run test: 499 CPU-seconds, 100 times the yardstick (5.00 s)"
judged ".ci/run test" 574 5.0 5.2 4.8
check "up to the factor it holds" exits 0
judged ".ci/run test" 576 5.0 5.2 4.8
check "above the factor it does not" exits 1
check "that is said" says "TOO MUCH"
judged ".ci/run test --full" 576 5.0 5.2 4.8
check "another command has a row of its own" exits 0
sed 's/| 100 |/| 40 |/' "$work/stated.md" >"$work/low.md" && mv "$work/low.md" "$work/stated.md"
judged ".ci/run test" 499 5.0 5.2 4.8
check "a stated ratio that is too low is rejected" exits 1
judged ".ci/run test" 99999 5.0 5.6 5.0
check "yardsticks that differ by over 10 % tell nothing" exits 3
check "that is said, with all of them" says "the yardstick took 5.0 5.6 5.0 s"
judged ".ci/run test" 199 5.0 5.49 5.0
check "by less they tell" exits 0
judged ".ci/run test" 199 5.0 5.0
check "two are too few" exits 3
judged ".ci/run test" 199
check "none are too few" exits 3
judged ".ci/run tes" 199 5.0 5.0 5.0
check "what nobody states is no pass" exits 2

yardsticks=

lay_yardstick "$work/times" sh -c 'i=0; while [ $((i += 1)) -lt 100000 ]; do :; done'
lay_yardstick "$work/times" sleep 0.3 2>/dev/null || code=2
check "CPU time is counted, of what was started" \
  sh -c "echo '$yardsticks' | awk '{ exit !(NF == 1 && \$1 > 0.01 && \$1 < 60) }'"
# The document of the project has all four.
for command in ".ci/bare report" ".ci/bare test" ".ci/run test" ".ci/run test --full"; do
  check "CONTRIBUTING.md states $command" [ -n "$(stated "$command" "$project/CONTRIBUTING.md")" ]
done
[ "$failures" = 0 ]
