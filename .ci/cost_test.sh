#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of .ci/cost.sh: what it says of a command that costs more than is stated.
#   usage: cost_test.sh <folder of the project>
# shellcheck disable=SC2016 # of a document
set -eu

project=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=.ci/cost.sh
. "$project/.ci/cost.sh"
failures=0
fails() { failures=$((failures + 1)); echo "FAILED: $*"; }

printf '%s\n' '| command | ratio |' '|---|---|' '| `test --full` | 300 |' '| `test` | 100 |' \
  '| `low` | 40 |' 'see `test`' >"$work/stated.md"
# What costs so many CPU-seconds, beside these yardsticks, ends so and says this.
while IFS='|' read -r command cpu yardsticks expected said; do
  code=0
  judge "$work/stated.md" 1.15 "$command" "$cpu" >"$work/out" 2>&1 || code=$?
  { [ "$code" = "$expected" ] && grep -qF -e "$said" "$work/out"; } ||
    fails "$command $cpu: status $code, not $expected with '$said': $(cat "$work/out")"
done <<'END'
test|499|5.0 5.2 4.8|0|test: 499 CPU-seconds, 100 times the yardstick (5.00 s)
test|574|5.0 5.2 4.8|0|holds
test|576|5.0 5.2 4.8|1|TOO MUCH
test --full|576|5.0 5.2 4.8|0|holds
low|499|5.0 5.2 4.8|1|TOO MUCH
test|99999|5.0 5.6 5.0|3|the yardstick took 5.0 5.6 5.0 s
test|199|5.0 5.49 5.0|0|holds
test|199|5.0 5.0|3|the yardstick took
test|199||3|the yardstick took no s
tes|199|5.0 5.0 5.0|2|states no ratio
END
yardsticks=
lay_yardstick "$work/times" sh -c 'i=0; while [ $((i += 1)) -lt 100000 ]; do :; done'
lay_yardstick "$work/times" sleep 0.3 2>/dev/null && fails "a command that fails is no yardstick"
echo "$yardsticks" | awk '{ exit !(NF == 1 && $1 > 0.01 && $1 < 60) }' ||
  fails "CPU time is counted, of what was started: $yardsticks"
# The document of the project has all four.
for command in ".ci/bare report" ".ci/bare test" ".ci/run test" ".ci/run test --rest"; do
  [ -n "$(stated "$command" "$project/CONTRIBUTING.md")" ] || fails "nothing is stated: $command"
done
[ "$failures" = 0 ]
