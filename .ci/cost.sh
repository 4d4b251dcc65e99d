# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# What run and bare source: CPU-seconds in units of one compilation of yardstick.cpp, so that the
# cost of a build and its tests is compared with what CONTRIBUTING.md states, whatever the machine.

yardsticks=  # the CPU-seconds of each compilation so far

# CPU-seconds, user and system, of whatever this shell has started and waited for. (A subshell would
# count its own, hence the file.)
set_spent() {
  times >"$1"
  spent=$(awk -F'[ms ]+' 'NR == 2 { printf "%.2f", $1 * 60 + $2 + $3 * 60 + $4 }' "$1")
}

# lay_yardstick <scratch file> <command>...: compiles the file by that command and its options.
lay_yardstick() {
  to=$1
  shift
  set_spent "$to"
  before=$spent
  "$@" -std=c++20 -O2 -c -o /dev/null || return 2
  set_spent "$to"
  yardsticks="${yardsticks:+$yardsticks }$(
    awk -v after="$spent" -v before="$before" 'BEGIN { printf "%.2f", after - before }')"
}

# The number that CONTRIBUTING.md states for a command, in the row of the table that it begins.
stated() {
  awk -F'|' -v name="| \`$1\` |" '
    index($0, name) == 1 { gsub(/[^0-9.]/, "", $3); print $3; exit }' "$2"
}

# judge <document> <factor> <command> <CPU-seconds>: prints one line. Status: 0 at most the stated
# ratio times the factor, 1 above, 2 nothing is stated, 3 the yardsticks differ by over 10 % or are
# not three, so that nothing can be told.
judge() {
  ratio=$(stated "$3" "$1")
  [ -n "$ratio" ] || { echo "$3: $1 states no ratio for it" >&2; return 2; }
  echo "$yardsticks" | awk -v stated="$ratio" -v factor="$2" -v name="$3" -v cpu="$4" '
    {
      for (i = 1; i <= NF; i++) {
        sum += $i
        if (i == 1 || $i < least) least = $i
        if ($i > most) most = $i
      }
      printf "%s: %.0f CPU-seconds", name, cpu
      if (NF != 3 || least <= 0 || most > 1.1 * least) {
        printf "; cannot tell what that is worth: the yardstick took %s s\n", (NF ? $0 : "no")
        exit 3
      }
      ratio = cpu * NF / sum
      above = (ratio > stated * factor)
      printf ", %.0f times the yardstick (%.2f s); stated are %s, at most %.0f: %s\n", ratio,
             sum / NF, stated, stated * factor, above ? "TOO MUCH" : "holds"
      exit above
    }'
}
