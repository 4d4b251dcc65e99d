#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures everything that the page shows, one result file after the other, and draws the page.
# POSIX sh. KVPROOF_BIN is the folder of the kvproof-* executables; KVPROOF_PYTHON is a python3 that
# has matplotlib (default: python3).
#
# Exit codes: 0 the page is whole, 1 a part failed (the page says which and why),
#             2 usage or unreadable input, 77 matplotlib is not installed.
set -eu

# experiment|program|reads traces|seconds on two cores|seconds of a smoke run
# The parts that read traces take their seconds again for each of them; they come first, so that an
# unreadable trace is known at once.
parts() {
  cat <<'END'
live_memory|study|yes|4|1
prefix_hit_rate|study|yes|1|1
waste_against_block_size|study|yes|1|1
serving|study|yes|2|1
memory_of_one_request|study|no|1|1
utilisation|study|no|1|1
memory_of_models|study|no|1|1
published|study|no|6|1
life_cycle|bench|no|35|3
pool_operation|bench|no|60|2
paged_decode|bench|no|60|2
movement|bench|no|30|2
END
}
page_seconds=5
# Result files of kvproof check that lie in the folder are drawn, too.
checked="mutants check exhaustive"

usage() {
  cat <<'END'
usage: kvproof report [--output=DIR] [--trace=FILE]... [--smoke] [--png]

Measures the built-in workloads and draws one page: figures with the commands that made them.

  --output=DIR   where the result files and report.html go (default: ./results)
  --trace=FILE   also measure on this request trace: Mooncake JSONL or Azure CSV, plain or .zst;
                 may be repeated
  --smoke        small inputs: shows that everything works, in seconds; not to be quoted
  --png          also write every figure as DIR/figures/NAME.png

Example: kvproof report --trace=conversation_trace.jsonl.zst --output=results
END
}

say() { printf '%s\n' "$*" >&2; }
fail() { say "kvproof report: $*"; exit 2; }
now() { date +%s; }

here=$(cd "$(dirname "$0")" && pwd -P)
python=${KVPROOF_PYTHON:-python3}
output=results
smoke=
png=
for arg do
  shift
  case $arg in
    --output=?*) output=${arg#--output=} ;;
    --trace=?*)
      if [ ! -f "${arg#--trace=}" ] || [ ! -r "${arg#--trace=}" ]; then
        fail "${arg#--trace=}: cannot be read; expected a trace"
      fi
      set -- "$@" "$arg" ;;
    --smoke) smoke=--smoke ;;
    --png) png=--png ;;
    --help | -h) usage; exit 0 ;;
    --output | --output= | --trace | --trace=) fail "${arg%=} needs a value: ${arg%=}=PATH" ;;
    *) fail "unknown option '$arg' (see: kvproof report --help)" ;;
  esac
done
bin=${KVPROOF_BIN:-}
[ -n "$bin" ] || fail "KVPROOF_BIN is not set: expected the folder of the kvproof-* executables"
case $output in -*) output=./$output ;; esac
mkdir -p "$output" 2>/dev/null || fail "$output: cannot be made; expected a folder"
[ -w "$output" ] || fail "$output: cannot be written"

work=$(mktemp -d "${TMPDIR:-/tmp}/kvproof-report.XXXXXX")
child=
part_file=
# shellcheck disable=SC2317 # the trap calls it
stop() {
  trap '' INT TERM HUP
  if [ -n "$child" ]; then
    kill "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  [ -z "$part_file" ] || rm -f "$part_file".part-*
  [ ! -t 2 ] || printf '\n' >&2
  say "Stopped. Finished result files are in $output; draw them with:"
  say "  $python $here/make_page.py $output/*.json --output=$output/report.html"
  exit 130
}
trap 'rm -rf "$work"' EXIT
trap stop INT TERM HUP

# ---- progress -----------------------------------------------------------------------------------

begin=$(now)
column=$([ -n "$smoke" ] && echo 5 || echo 4)
num_parts=$(($(parts | wc -l) + 1))
all_seconds=$(parts | awk -F'|' -v column="$column" -v sources=$(($# + 1)) \
  '{ all += $column * ($3 == "yes" ? sources : 1) } END { print all }')
all_seconds=$((all_seconds + page_seconds))
index=0
past_seconds=0  # what the finished parts were expected to take

# Sets elapsed, inside (the share of this part that has passed, in expected seconds) and left,
# scaled by how this machine has done so far.
estimate() {  # estimate <expected seconds of this part>
  elapsed=$(($(now) - begin))
  inside=$(($(now) - part_begin))
  [ "$inside" -le "$1" ] || inside=$1
  left=$((all_seconds - past_seconds - inside))
  if [ $((past_seconds * 4)) -ge "$all_seconds" ]; then  # less says too little about the rest
    left=$((left * (part_begin - begin) / past_seconds))
  fi
}

progress_bar() {  # progress_bar <name> <expected seconds>
  estimate "$2"
  bar=$(printf '%*s' $(((past_seconds + inside) * 24 / all_seconds)) '' | tr ' ' '#')
  printf '\r\033[K[%-24s] %s/%s %s  %s s, about %s s left' \
    "$bar" "$index" "$num_parts" "$1" "$elapsed" "$left" >&2
}

# part <name> <expected seconds> <log> <command>...: runs it, shows how far everything is.
part() {
  name=$1 expected=$2 log=$3
  shift 3
  index=$((index + 1))
  part_begin=$(now)
  spoken=$(echo "$name" | tr _ ' ')
  status=0
  if [ ! -t 2 ]; then
    estimate "$expected"
    say "$index/$num_parts $spoken  ($elapsed s, about $left s left)"
  fi
  "$@" >"$work/out" 2>"$log" </dev/null &
  child=$!
  if [ -t 2 ]; then
    while kill -0 "$child" 2>/dev/null; do
      progress_bar "$spoken" "$expected"
      sleep 0.3 2>/dev/null || sleep 1
    done
    printf '\r\033[K' >&2
  fi
  wait "$child" || status=$?
  child=
  past_seconds=$((past_seconds + expected))
  return "$status"
}

# ---- the parts ----------------------------------------------------------------------------------

# Why a part failed, in one line.
reason_of() {  # reason_of <status> <log> <program>
  said=$(tr -d '\000-\010\013-\037' <"$2" | sed '/^[[:space:]]*$/d' | tail -n 1 | cut -c1-300)
  if [ ! -x "$bin/$3" ]; then
    echo "$3 is not built"
  elif [ -n "$said" ]; then
    echo "$3 ended with exit code $1: $said"
  else
    echo "$3 ended with exit code $1"
  fi
}

: >"$work/absent"
: >"$work/done"
parts >"$work/parts"
while IFS='|' read -r experiment program traces seconds smoke_seconds <&3; do
  expected=$([ -n "$smoke" ] && echo "$smoke_seconds" || echo "$seconds")
  [ "$traces" = no ] || expected=$((expected * ($# + 1)))
  log=$work/$experiment.log
  part_file=$output/$experiment.json
  rm -f "$part_file"
  status=0
  case $program in
    bench) part "$experiment" "$expected" "$log" "$bin/kvproof-bench" "--filter=^$experiment" \
      "--json=$part_file" $smoke || status=$? ;;
    study)
      if [ "$traces" = yes ]; then
        part "$experiment" "$expected" "$log" "$bin/kvproof-study" "$experiment" \
          "--json=$part_file" $smoke "$@" || status=$?
      else
        part "$experiment" "$expected" "$log" "$bin/kvproof-study" "$experiment" \
          "--json=$part_file" $smoke || status=$?
      fi ;;
  esac
  rm -f "$part_file".part-*
  if [ "$status" = 0 ] && [ -f "$part_file" ]; then
    echo "$experiment" >>"$work/done"
    continue
  fi
  if [ "$status" = 2 ] && [ "$traces" = yes ] && [ $# -gt 0 ]; then  # a trace that is malformed
    cat "$log" >&2
    exit 2
  fi
  rm -f "$part_file"
  reason=$(reason_of "$status" "$log" "kvproof-$program")
  say "kvproof report: $experiment failed: $reason"
  echo "$experiment=$reason" >>"$work/absent"
done 3<"$work/parts"
part_file=

# ---- the page -----------------------------------------------------------------------------------

set --
for name in $checked; do
  [ ! -f "$output/$name.json" ] || set -- "$@" "$output/$name.json"
done
while IFS= read -r experiment; do set -- "$@" "$output/$experiment.json"; done <"$work/done"
while IFS= read -r line; do set -- "$@" "--absent=$line"; done <"$work/absent"
status=0
part "drawing the page" "$page_seconds" "$work/page.log" \
  "$python" "$here/make_page.py" "$@" $png "--output=$output/report.html" || status=$?
[ "$status" = 0 ] || cat "$work/page.log" >&2
page=$output/report.html
case $status in
  0) ;;
  1) [ -n "$(find "$page" -newer "$work/done" 2>/dev/null)" ] || status=2 ;;
esac
case $status in
  0 | 1) ;;
  *) say "kvproof report: the page could not be drawn; the result files are in $output"
     exit "$([ "$status" = 77 ] && echo 77 || echo 2)" ;;
esac
say "The report took $(($(now) - begin)) s."
echo "$page"
exit "$status"
