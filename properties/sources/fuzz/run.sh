#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets of a build on all cores, says what they did, and turns what they break into
# regressions. POSIX sh. usage: run.sh <build folder, or - to check the options only> [options]
#
# Exit codes: 0 nothing broke, 1 something did, 2 usage, unwritable output or a target that does not
#             run, 128 and the signal's number when stopped by one.
set -eu

usage() {
  cat <<'END'
usage: kvproof fuzz [--seconds=N] [--target=NAME] [--seed=N] [--jobs=N] [--merge] [--json=FILE]

Hunts with libFuzzer for operations, interleavings and files that break the allocator or a reader.

  --seconds=N    for all targets together, in equal parts (default: 60)
  --target=NAME  only this one, or these: one --target each
  --seed=N       of the first job; the others follow (default: 1)
  --jobs=N       processes per target (default: one per core)
  --merge        afterwards replace the committed corpus by the smallest one of the same coverage
  --json=FILE    also write the rows of the table, and of what broke, to this file

What a run finds out stays in build/fuzz/work, where the next run goes on. What breaks is made small
and written below properties/sources/regressions/, where every run of the tests replays it. Both lie
below KVPROOF_FUZZ_WORK where the environment names it, as a campaign does.

Example: kvproof fuzz --seconds=600 --target=hybrid

Exit codes: 0 nothing broke, 1 something did, 2 usage, unwritable output or a target that does not
run, 77 no clang with libFuzzer here, 130 stopped.
END
}

say() { printf '%s\n' "$*" >&2; }
fail() { say "kvproof fuzz: $*"; exit 2; }
# shellcheck disable=SC2059 # it is called as printf is
out() { printf "$@" 2>/dev/null || fail "stdout cannot be written"; }
# once <value so far> <option>
once() { [ -z "$1" ] || fail "${2%%=*} is given twice"; }
# number <option> <most>
number() {
  case ${1#*=} in
    '' | *[!0-9]* | 0* | ????????*) false ;;
    *) [ "${1#*=}" -le "$2" ] ;;
  esac || fail "$1: expected a number from 1 to $2"
}

here=$(cd "$(dirname "$0")" && pwd -P)
build=$1
works=${KVPROOF_FUZZ_WORK:-$build/work} regressions=${KVPROOF_FUZZ_WORK:-$here/..}/regressions
shift
seconds='' seed='' jobs='' targets='' merge=no json=''
for arg do
  value=${arg#*=}
  case $arg in
    --help) out '%s\n' "$(usage)"; exit 0 ;;
    --merge) merge=yes ;;
    --target=*)
      case $value in */* | .* | "") false ;; *) [ -d "$here/corpus/$value" ] ;; esac ||
        fail "$arg: expected one of:$(cd "$here/corpus" && printf ' %s' *)"
      case " $targets " in *" $value "*) fail "$arg is given twice" ;; esac
      targets="$targets $value" ;;
    --seconds=*) once "$seconds" "$arg"; number "$arg" 9999999; seconds=$value ;;
    --seed=*) once "$seed" "$arg"; number "$arg" 9999999; seed=$value ;;
    --json=?*) once "$json" "$arg"; json=$value ;;
    --jobs=*) once "$jobs" "$arg"; number "$arg" 999; jobs=$value ;;
    --target | --seconds | --seed | --jobs | --json | --json=)
      fail "${arg%=} needs a value: ${arg%=}=..." ;;
    *) fail "unknown option '$arg' (see: kvproof fuzz --help)" ;;
  esac
done
[ "$build" != - ] || exit 0
seconds=${seconds:-60} seed=${seed:-1}
jobs=${jobs:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
[ -n "$targets" ] || targets=$(cd "$here/corpus" && echo *)
# shellcheck disable=SC2086 # one word per target
set -- $targets
part=$(((seconds + $# - 1) / $#))

# Allocator settings for speed: short backtraces, and less memory that waits to be used again.
ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=4:quarantine_size_mb=16}
export ASAN_OPTIONS
fixed=  # AddressSanitizer of clang 14 to 17 does not start under wide address randomisation
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed="setarch $(uname -m) -R"; fi

limits() {  # <target>: the longest input and what else libFuzzer is told
  case $1 in
    full | hybrid | concurrent) echo "-max_len=517 -len_control=0" ;;
    *) echo "-max_len=4096" ;;
  esac
}

# ---- one target ---------------------------------------------------------------------------------

children=
rows=
trap 'rm -f ${json:+"$json.part-$$"}' EXIT
# shellcheck disable=SC2317 # the traps call it
stopped() {  # stopped <number of the signal>
  trap '' INT TERM HUP
  # shellcheck disable=SC2086 # one word per process
  kill $children ${!:-} 2>/dev/null || true  # the last one is perhaps not named yet
  wait
  exit $((128 + $1))
}
trap 'stopped 1' HUP
trap 'stopped 2' INT
trap 'stopped 15' TERM

hunt() {  # <target>: all jobs, to their end
  work=$works/$1
  mkdir -p "$work/corpus"
  rm -f "$work"/job-* "$work"/found/*
  mkdir -p "$work/found"
  children=
  job=0
  while [ "$job" -lt "$jobs" ]; do
    # shellcheck disable=SC2046,SC2086 # several words
    $fixed "$build/fuzz/fuzz_$1" $(limits "$1") -seed=$((seed + job)) -max_total_time="$part" \
      -timeout=20 -print_final_stats=1 -artifact_prefix="$work/found/" \
      "$work/corpus" "$here/corpus/$1" >"$work/job-$job" 2>&1 </dev/null &
    children="$children $!"
    job=$((job + 1))
  done
  for child in $children; do wait "$child" || true; done
  children=
}

# "executions operations operations/s-of-a-core new-coverage" from the logs of the jobs.
figures() {
  awk '/^stat::number_of_executed_units:/ { executions += $2 }
       /^fuzzed: / { operations += $4; seconds += $6 }
       FNR == 1 { first = "" }
       / cov: [0-9]+/ { for (i = 1; i < NF; ++i) if ($i == "cov:") now = $(i + 1)
                        if (first == "" && /INITED/) first = now
                        if (first != "" && now - first > most) most = now - first }
       END { printf "%d %d %d %d\n", executions, operations,
             (seconds > 0 ? operations / seconds : 0), most }' "$@"
}

# Says what a target broke on, makes it small and lays it where the tests replay it: operations as
# a trace, other bytes as they are.
keep() {  # <target> <file>
  reason=$(grep -h -m 1 -e '^fuzz target failed' -e '^==[0-9]*==ERROR' "$work"/job-* | head -n 1)
  out '%s\n' "$1 broke ($(basename "$2")):" "$(
    grep -h -A 8 -e '^fuzz target failed' -e '^==[0-9]*==ERROR' "$work"/job-* | head -n 12)"
  small=$work/small
  cp "$2" "$small"
  case $2 in
    */crash-*)
      $fixed "$build/fuzz/fuzz_$1" -minimize_crash=1 -max_total_time=15 \
        -exact_artifact_path="$small" "$2" >/dev/null 2>&1 </dev/null || true ;;
  esac
  mkdir -p "$regressions"
  log=$work/trace
  KVPROOF_TRACE_TO=$regressions $fixed "$build/fuzz/fuzz_$1" "$small" >"$log" 2>/dev/null \
    </dev/null || true
  if grep -q '^trace: ' "$log"; then
    out '%s\n' "$(cat "$log")"
    kept=$(sed -n 's/^trace: //p' "$log") repeat='kvproof replay'
  else
    mkdir -p "$regressions/$1"
    kept=$regressions/$1/$(basename "$2") repeat=build/fuzz/fuzz/fuzz_$1
    cp "$small" "$kept"
    out 'input: %s\n' "$kept"
  fi
  kept=$(quoted "$kept")
  row fuzz_finding "\"target\":\"$1\",\"law\":\"fuzz $1\",\"verdict\":\"broken\",\"reason\":\"$(
    quoted "${reason:-$(basename "$2")}")\",\"file\":\"$kept\",\"repeat\":\"$repeat $kept\""
}

# ---- the rows of --json -------------------------------------------------------------------------

quoted() { printf %s "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }
row() {  # <experiment> <parameters> [<executions> <operations> <operations/s> <new coverage>]
  rows="$rows${rows:+,
}{\"experiment\":\"$1\",\"parameters\":{$2},\"metrics\":{${3:+$(
    count='"%s":{"value":%d,"unit":"count"}'
    # shellcheck disable=SC2059 # the format is that above
    printf "$count,$count,$count,$count" executions "$3" operations "$4" \
      operations_per_second "$5" new_coverage "$6")}}}"
}

# ---- all of them --------------------------------------------------------------------------------

[ -z "$json" ] || { true >"$json.part-$$"; } 2>/dev/null || fail "$json: cannot be written"
say "seed $seed, $jobs jobs, $part s for each of: $*"
out '%-12s %12s %12s %22s %13s\n' target executions operations "operations/s per core" \
  "new coverage"
code=0
for target do
  hunt "$target"
  work=$works/$target
  found=$(find "$work/found" -type f | sort | head -n 1)
  numbers=$(figures "$work"/job-*)
  # shellcheck disable=SC2086 # four numbers
  out '%-12s %12d %12d %22d %13d\n' "$target" $numbers
  # shellcheck disable=SC2086 # four numbers
  row fuzz "\"target\":\"$target\"" $numbers
  if [ -n "$found" ]; then
    code=1
    keep "$target" "$found"
  elif ! grep -q '^stat::number_of_executed_units' "$work"/job-*; then
    tail -n 20 "$work/job-0" >&2
    fail "$target does not run"
  elif [ "$merge" = yes ]; then
    rm -rf "$work/merged"
    mkdir "$work/merged"
    # shellcheck disable=SC2046 # several words
    $fixed "$build/fuzz/fuzz_$target" $(limits "$target") -merge=1 "$work/merged" \
      "$here/corpus/$target" "$work/corpus" >"$work/merge" 2>&1
    (  # all of it or nothing
      trap '' INT TERM HUP
      rm -rf "$here/corpus/$target"
      cp -r "$work/merged" "$here/corpus/$target"
    )
  fi
done
[ -z "$json" ] || {
  printf '{"schema":1,"environment":{"seed":%d},"results":[\n%s\n]}\n' "$seed" "$rows" \
    >"$json.part-$$" && mv "$json.part-$$" "$json"
} 2>/dev/null || fail "$json: cannot be written"
exit "$code"
