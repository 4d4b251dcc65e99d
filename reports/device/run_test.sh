#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of run.sh on a machine without a GPU: with none, with made-up tools, and packed.
#   usage: run_test.sh <repository>
# shellcheck disable=SC2016 # variables inside fakes are the fakes' own
set -eu

source=$1
# shellcheck source=.ci/edges/cases.sh
. "$source/.ci/edges/cases.sh"
run() {  # run <repository or pack> <argument>...: the tools that are not faked are the system's
  repository=$1
  shift
  asks env PATH="$work/bin:/usr/bin:/bin" NVCC= sh "$repository/kvproof" device "$@"
}
# file <name> <python>: whether it holds of a result file, which is "data"
file() { python3 -c "import json; data = json.load(open('$1')); $2"; }

# ---- no GPU ----
fake nvidia-smi 'exit 9'
run "$source"
expect 77 "OUT:^skipped: no GPU"
run "$source" --help
expect 0 "OUT:^Exit codes: 0 "
if [ -w /dev/full ]; then
  for words in --help --seconds=5; do
    code=0 ran=$words
    PATH=$work/bin:/usr/bin:/bin NVCC='' sh "$source/kvproof" device "$words" \
      >/dev/full 2>"$work/err" </dev/null || code=$?
    expect 2 one
  done
fi
fake nvidia-smi 'case $* in *compute_cap*) echo 7.5 ;; *) echo Old ;; esac'
fake nvcc 'echo "Build cuda_13.0"'
run "$source"  # a card without asynchronous copies
expect 77 "out:compute capability 75"

# ---- packed, with a made-up GPU, compiler and CMake ----
pack=$work/pack
run "$source" --pack="$pack"
expect 0
run "$source" --pack="$pack"
expect 2 "err:is there already"

fake nvidia-smi 'case $* in *=name\ *) echo "Fake H200" ;; *=compute_cap*) echo 9.0 ;;' \
  '  *) echo "Fake H200, 9.0, 580.1, 1 MiB, 1 MHz, 1 MHz, 1 MHz, 1 MHz, 1 W, 1, Enabled" ;; esac'
fake compute-sanitizer 'echo "Device not supported"; exit 1'
fake cmake 'case $1 in' '  -S) mkdir -p "$4" ;;' \
  "  --build) cp $work/device_check $work/device_bench \"\$2/\" ;;" 'esac'
program() {  # program <name> <script line>...
  fake "$@"
  mv "$work/bin/$1" "$work/$1"
}
line() {  # line <tokens>: one result, its tabs and its end for printf
  parameters="tokens=$1 layout=nhd implementation=cuda/x l2=cold"
  metrics="time=2,us,1,3 fraction_of_copy=0.5,ratio,0.5,0.5"
  printf '%s' "device_reshape_and_cache\\t$parameters\\t$metrics\\n"
}
ceilings='fraction_of_read_ceiling=0.1,ratio,0.1,0.1 fraction_of_multiply_ceiling=0.6,ratio,0.6,0.6'
prefill='implementation=cuda/wgmma batch=1 chunk=2048 prefix=4096 heads=32 block_size=16'
prefill="$prefill layout=nhd cache_type=bf16"
mla='implementation=cuda/wgmma batch=32 context=4096 heads=16 block_size=16 cache_type=bf16'
program device_check 'echo "attention: 60 rounds"'
program device_bench "printf '$(line 1)$(line 16)'" \
  "printf 'device_paged_prefill\\t$prefill\\t$ceilings\\ndevice_mla_decode\\t$mla\\t$ceilings\\n'"
run "$pack" --output="$work/results"
expect 0 "OUT:build +for sm_90a" "OUT:memcheck +not run: .*not support" \
  "ok:grep -q '60 rounds' results/device_check.txt" "OUT:results +4 results" \
  "OUT:  mla 32 × 4,096, 16 heads +cuda/wgmma +0.0 us .* multiply 0.600" \
  "OUT:figures +(device-prefill, device-mla, device-reshape|not drawn)" \
  "ok:! ls results | grep -q part-" "ok:file results/device.json '
assert data[\"schema\"] == 1 and data[\"environment\"][\"gpu_name\"] == \"Fake H200\", data
assert data[\"environment\"][\"complete\"] is True, data
first, mla = data[\"results\"][0], data[\"results\"][3]
assert first[\"parameters\"][\"tokens\"] == 1 and first[\"metrics\"][\"time\"] == {
    \"value\": 2.0, \"unit\": \"us\", \"min\": 1.0, \"max\": 3.0}, first
assert mla[\"experiment\"] == \"device_mla_decode\" and mla[\"parameters\"][\"heads\"] == 16, mla
assert mla[\"metrics\"][\"fraction_of_multiply_ceiling\"][\"value\"] == 0.6, mla'"
asks env PYTHONPATH="$source/reports" python3 -m kvproof_report.device.draw \
  "$work/results/device.json" --output="$work/drawn"
[ "$code" = 77 ] ||  # no matplotlib
  expect 0 "OUT:^device-prefill, device-mla, device-reshape"
if [ "$code" = 0 ]; then
  asks env PYTHONPATH="$source/reports" python3 -c "
import matplotlib
matplotlib.use('Agg')
from matplotlib import pyplot
from kvproof_report.draw.drawing import use_style
use_style()
from kvproof_report.device import figures
axes = figures.lines({'share': [(1, 0.5), (2048, 1)]}, 'tokens', '').axes[1]
labels = [label.get_text() for label in axes.get_xticklabels()]
assert labels == ['1', '2,048'], labels"
  expect 0
fi

# ---- beside peers: without PyTorch, then with rows that a Python says it measured ----
mkdir "$work/none"
echo 'raise ImportError("no torch here")' >"$work/none/torch.py"
PYTHONPATH=$work/none run "$pack" --peers --output="$work/alone"
expect 0 "OUT:peers +not measured: ImportError: no torch here" "ok:[ -s alone/device.json ]" \
  "ok:[ ! -e alone/peers.json ]"
fake measured 'case $1 in *peers.py) ;; *) exec python3 "$@" ;; esac' \
  "cd $pack/bench/kernels/device && exec python3 -B -c '
import json, peers
both = {(\"kvproof\", \"cuda/mma\"): [2], (\"PyTorch\", \"x\"): [4],
        (\"cuDNN\", \"y\"): [5]}
for peer, times in ((\"PyTorch\", both), (\"cuDNN\", both),
                    (\"FlashInfer\", {})):
    print(json.dumps(peers.result_of(peers.cases(True)[0], peer, \"1\", times, [\"gone\"], 1)))'"
KVPROOF_PYTHON=measured run "$pack" --peers --output="$work/peers"
expect 0 "OUT:results +3 results in peers.json" "OUT:figures +(device-peers|not drawn)" \
  "OUT:decode 4 × 1,024 +cuda/mma +2.0 us .* 0.500 of PyTorch \(4.0 us\) +0.400 of cuDNN \(5" \
  "ok:file peers/peers.json '
assert data[\"environment\"][\"program\"] == \"peers.py\", data
ours, _, none = data[\"results\"]
assert ours[\"metrics\"][\"ours_over_peer\"][\"value\"] == 0.5, ours
assert none[\"parameters\"][\"not_comparable\"] == \"gone\", none'"

program device_check 'echo "violated: row 3"; exit 1'
program device_bench "printf '$(line 1)reshape_and_ca'; sleep 7200"
run "$pack" --output="$work/cut" --seconds=20
expect 1 "OUT:check +failed with exit code 1 .*violated: row 3" "OUT:bench +cut off"
run "$pack" --output="$work/cut" --seconds=0  # no time is a failure
expect 1
program device_check "echo \$\$ >$work/running; exec sleep 7200"
(
  until [ -s "$work/running" ]; do sleep 0.1; done
  kill -s TERM "$(cat "$work/launcher")"
) &
code=0
(
  cd "$work"
  sh -c 'echo $$ >launcher; exec "$@"' sh env PATH="$work/bin:/usr/bin:/bin" NVCC='' \
    TMPDIR="$work" sh "$pack/kvproof" device --output="$work/stopped" >"$work/out" 2>"$work/err"
) </dev/null || code=$?
expect 143 "ok:ended running" "ok:! ls stopped . | grep -e part- -e kvproof-"

# ---- the pack is whole: every header that its sources include is in it ----
find "$pack/kernels" "$pack/bench" "$pack/reference/attention.cpp" -name '*.c*' >"$work/todo"
find "$pack/properties/kernels" -name '*.cpp' ! -name '*_test.cpp' ! -name 'served_*' \
  >>"$work/todo"
ran="the headers of the pack" code=0
expect 0 "ok:[ $(wc -l <"$work/todo") -gt 30 ]"
while [ -s "$work/todo" ]; do
  xargs sed -n 's/^#include "\(.*\)"$/\1/p' <"$work/todo" | sort -u >"$work/named"
  : >"$work/todo"
  while IFS= read -r header; do
    [ -f "$pack/$header" ] || echo "$header" >>"$work/absent"
    grep -qxF "$header" "$work/seen" 2>/dev/null || {
      echo "$header" >>"$work/seen"
      [ ! -f "$pack/$header" ] || echo "$pack/$header" >>"$work/todo"
    }
  done <"$work/named"
done
expect 0 "ok:! cat absent 2>/dev/null"

# ---- where there is a compiler: the pack configures, and one source of it builds ----
rm "$work/bin/cmake" "$work/bin/nvcc"
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)
if [ -n "$nvcc" ]; then
  code=0 ran="cmake on the pack"
  {
    cmake -S "$pack/reports/device" -B "$work/build" -DCMAKE_CUDA_ARCHITECTURES=90a \
      -DCMAKE_CUDA_COMPILER="$nvcc" && cmake --build "$work/build" --target kvproof_reference
  } >"$work/out" 2>"$work/err" || code=$?
  expect 0
fi
finish
