#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a CUDA device, in one go: builds for the card found, checks the kernels'
# properties on it, looks for bad accesses and races, measures, draws. POSIX sh.
# Every step has a time limit and leaves its own file, whole or not at all (a benchmark that was cut
# off leaves the results that it had).
#
# Exit codes: 0 all of it holds and is measured, 1 a step failed (the summary says which and why),
#             2 usage or unwritable output, 77 no device or no compiler here, 128 and the signal's
#             number when stopped by one.
set -eu

usage() {
  cat <<'END'
usage: kvproof device [--output=DIR] [--seconds=N] [--smoke] [--peers]
       kvproof device --pack[=DIR]

Builds the kernels for this machine's GPU, checks them on it and measures them.

  --output=DIR  where the results go (default: reports/gallery/<card>)
  --seconds=N   time for everything (default: 600)
  --smoke       few cases and rounds: shows that everything works; not to be quoted
  --peers       also measures the attention of PyTorch, cuDNN and FlashInfer beside ours, in the
                same rounds
  --pack[=DIR]  only copy what a machine without network needs into a new folder DIR (default:
                kvproof-device); kvproof device runs from it too

Needs: nvidia-smi, nvcc, CMake 3.25, a C++20 compiler, python3. With matplotlib it draws figures,
with compute-sanitizer it looks for bad accesses and races. --peers needs a python3 with PyTorch for
CUDA, and takes FlashInfer if it can be imported.

Example: kvproof device --output=h200

Exit codes: 0 all of it holds and is measured, 1 a step failed, 2 usage or unwritable output,
77 no device or no compiler here, 130 stopped.
END
}

say() { printf '%s\n' "$*" >&2; }
fail() { say "kvproof device: $*"; exit 2; }
emit() { printf '%s\n' "$1" 2>/dev/null || fail "stdout cannot be written"; }
skip() { emit "skipped: $*"; exit 77; }
# once <value so far> <option>
once() { [ -z "$1" ] || fail "${2%%=*} is given twice"; }
now() { date +%s; }
have() { command -v "$1" >/dev/null 2>&1; }

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
python=${KVPROOF_PYTHON:-python3}
PYTHONPATH=$root/reports${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
output='' seconds='' smoke='' pack='' peers=''
for arg do
  case $arg in
    --output=?*) once "$output" "$arg"; output=${arg#--output=} ;;
    --seconds=?*)
      once "$seconds" "$arg"
      seconds=${arg#--seconds=}
      case $seconds in
        *[!0-9]* | 0?* | ??????*) fail "$arg: expected whole seconds from 0 to 99999" ;;
      esac ;;
    --smoke) smoke=--smoke ;;
    --peers) peers=--peers ;;
    --pack) once "$pack" "$arg"; pack=kvproof-device ;;
    --pack=?*) once "$pack" "$arg"; pack=${arg#--pack=} ;;
    --help | -h) emit "$(usage)"; exit 0 ;;
    --output | --output= | --seconds | --seconds= | --pack=)
      fail "${arg%=} needs a value: ${arg%=}=..." ;;
    *) fail "unknown option '$arg' (see: kvproof device --help)" ;;
  esac
done
[ -z "$pack" ] || [ -z "$output$seconds$smoke$peers" ] ||
  fail "--pack only copies: it goes with no other option"
seconds=${seconds:-600}

work=
written=  # what gets its name when it is complete
# shellcheck disable=SC2317 # the traps call it
stopped() { trap '' INT TERM HUP; exit $((128 + $1)); }
trap 'rm -rf ${work:+"$work"} ${written:+"$written"}' EXIT
trap 'stopped 1' HUP
trap 'stopped 2' INT
trap 'stopped 15' TERM

commit_of() {
  if [ -f "$root/packed_commit" ]; then
    cat "$root/packed_commit"
  elif have git && git -C "$root" rev-parse --verify -q HEAD >/dev/null 2>&1; then
    changed=$(git -C "$root" status --porcelain 2>/dev/null | head -n 1)
    echo "$(git -C "$root" rev-parse HEAD)${changed:+-dirty}"
  else
    echo unknown
  fi
}

# ---- a folder for a machine without network -----------------------------------------------------

packed_paths() {
  cat <<'END'
LICENSE
kvproof
reference
kernels
properties/kernels
properties/selftest/active_patch.h
reference/support/say.h
bench/kernels/device
reports/device
reports/kvproof_report/__init__.py
reports/kvproof_report/common
reports/kvproof_report/device
reports/kvproof_report/draw
reports/kvproof_support
END
}

if [ -n "$pack" ]; then
  case $pack in -*) pack=./$pack ;; esac
  [ ! -e "$pack" ] || fail "$pack: is there already; expected the name of a new folder"
  pack=${pack%/}
  written=$pack.part-$$
  # shellcheck disable=SC2015,SC2046 # whichever fails; one word per path
  mkdir -p "$written" 2>/dev/null && commit_of 2>/dev/null >"$written/packed_commit" &&
    (cd "$root" && tar -cf - $(packed_paths)) 2>/dev/null | tar -xf - -C "$written" 2>/dev/null &&
    mv "$written" "$pack" || fail "$pack: cannot be written"
  say "Packed into $pack. On the machine with the GPU: $pack/kvproof device"
  exit 0
fi

# ---- what is here -------------------------------------------------------------------------------

have nvidia-smi || skip "no GPU: nvidia-smi is not there"
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || card=
[ -n "$card" ] || skip "no GPU: nvidia-smi names none"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
nvcc=${NVCC:-}
for candidate in nvcc /usr/local/cuda/bin/nvcc; do
  [ -n "$nvcc" ] || ! have "$candidate" || nvcc=$candidate
done
[ -n "$nvcc" ] || skip "no nvcc (Debian: nvidia-cuda-toolkit)"
have cmake || skip "no cmake"
have "$python" || skip "no python3"
case $capability in
  '' | *[!0-9]*) skip "nvidia-smi does not say the compute capability of $card" ;;
  [1-7]?) skip "$card has compute capability $capability; expected 80 or more" ;;
  90) architecture=90a ;;
  *) architecture=$capability ;;
esac
commit=$(commit_of)
build=$root/build/device-$architecture
above=$build
while [ ! -e "$above" ]; do above=${above%/*}; done
[ -w "$above" ] || fail "$root cannot be written: kvproof device --pack=DIR makes a copy that can"
if [ -z "$output" ]; then
  output=$root/reports/gallery/$(echo "$card" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
fi
case $output in -*) output=./$output ;; esac
mkdir -p "$output" 2>/dev/null || fail "$output: cannot be made; expected a folder"
output=$(cd "$output" && pwd -P)
[ -w "$output" ] || fail "$output: cannot be written"

# ---- the steps ----------------------------------------------------------------------------------

begin=$(now)
work=$(mktemp -d "${TMPDIR:-/tmp}/kvproof-device.XXXXXX")
failed=0
: >"$work/summary"

limited() {  # limited <seconds> <command>...
  if have timeout; then timeout -k 5 "$@"; else shift; "$@"; fi
}
outcome() {  # outcome <step> <text>
  printf '%-10s %s\n' "$1" "$2" >>"$work/summary"
  say "$1: $2"
}
# step <name> <most seconds> <command>...: its output goes to a log; status is what it ended with.
step() {
  name=$1 limit=$2
  shift 2
  left=$((seconds - ($(now) - begin)))
  [ "$limit" -le "$left" ] || limit=$left
  : >"$work/$name.out"
  : >"$work/$name.err"
  if [ "$limit" -lt 1 ]; then
    status=late
    return
  fi
  say "$name ... (at most $limit s)"
  step_begin=$(now)
  status=0
  limited "$limit" "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null || status=$?
  took=$(($(now) - step_begin))
}
# Gives a step's output its name in the result folder. keep <step> <file name>
keep() {
  written=$output/$2.part-$$
  cat "$work/$1.out" "$work/$1.err" >"$written"
  mv "$written" "$output/$2"
}
last_words() {  # last_words <step>
  cat "$work/$1.err" "$work/$1.out" | sed '/^[[:space:]]*$/d' | tail -n 1 | cut -c1-200
}
broke() {  # broke <step>
  failed=1
  case $status in
    late) outcome "$1" "not begun: the $seconds s are over" ;;
    124 | 137) outcome "$1" "cut off after $took s" ;;
    *) outcome "$1" "failed with exit code $status after $took s: $(last_words "$1")" ;;
  esac
}

step configure 90 cmake -S "$here" -B "$build" -DCMAKE_CUDA_ARCHITECTURES="$architecture" \
  -DCMAKE_CUDA_COMPILER="$(command -v "$nvcc")"
if [ "$status" = 0 ]; then
  cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  step build 300 cmake --build "$build" --parallel "$cores"
fi
if [ "$status" != 0 ]; then
  cat "$work/$name.out" "$work/$name.err" | tail -n 20 >&2
  broke "$name"
  exit 1
fi
outcome build "for sm_$architecture in $took s"

rounds=60 check_seconds=90
[ -z "$smoke" ] || rounds=4
step check $((check_seconds + 30)) "$build/device_check" --rounds=$rounds --seconds=$check_seconds
keep check device_check.txt
if [ "$status" = 0 ]; then outcome check "every property holds, $took s"; else broke check; fi

for tool in memcheck racecheck; do
  if ! have compute-sanitizer; then
    outcome $tool "not run: compute-sanitizer is not there"
    continue
  fi
  step $tool 75 compute-sanitizer --tool $tool --error-exitcode 1 "$build/device_check" \
    --rounds=2 --size=0 --seconds=40
  keep $tool $tool.txt
  if [ "$status" = 0 ]; then
    outcome $tool "nothing found, $took s"
  elif grep -q 'Device not supported' "$output/$tool.txt"; then
    outcome $tool "not run: compute-sanitizer does not support this device"
  else
    broke $tool
  fi
done

step bench 180 "$build/device_bench" $smoke
bench_status=$status
if [ "$status" = 0 ]; then outcome bench "measured in $took s"; else broke bench; fi
# results_of <step> <its status> <file name> <option>...
results_of() {
  lines=$work/$1.out file=$3
  complete=$([ "$2" = 0 ] && echo yes || echo no)
  shift 3
  step results 20 "$python" -m kvproof_report.device.results "$lines" --output="$output/$file" \
    --commit="$commit" --architecture="sm_$architecture" --nvcc="$nvcc" --complete="$complete" \
    ${smoke:+--smoke} "$@"
  if [ "$status" != 0 ]; then broke results; return; fi
  outcome results "$(last_words results)"
  step table 20 "$python" -m kvproof_report.device.table "$output/$file"
  if [ "$status" != 0 ]; then broke table; return; fi
  sed 's/^/  /' "$work/table.out" | tee -a "$work/summary" >&2
}
results_of bench "$bench_status" device.json

draw() {  # draw <file name>
  step figures 40 "$python" -m kvproof_report.device.draw "$output/$1" --output="$output/figures"
  case $status in
    0) outcome figures "$(last_words figures)" ;;
    77) outcome figures "not drawn: $(last_words figures)" ;;
    *) broke figures ;;
  esac
}
[ "$status" != 0 ] || draw device.json

measure_peers() {
  step peers 60 cmake --build "$build" --parallel "$cores" --target kvproof_python
  if [ "$status" != 0 ]; then broke peers; return; fi
  step peers 150 "$python" "$root/bench/kernels/device/peers.py" \
    --library="$build/libkvproof_python.so" $smoke
  keep peers peers.txt
  case $status in
    0) outcome peers "measured in $took s" ;;
    77) outcome peers "not measured: $(last_words peers)"; return ;;
    *) broke peers ;;
  esac
  results_of peers "$status" peers.json --program=peers.py
  [ "$status" != 0 ] || draw peers.json
}
if [ -n "$peers" ]; then measure_peers; fi

written=$output/summary.part-$$
{ echo "$card, sm_$architecture, commit $commit"; cat "$work/summary"; } >"$written"
mv "$written" "$output/summary.txt"
emit "$(cat "$output/summary.txt")"
exit "$failed"
