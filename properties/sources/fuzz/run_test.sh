#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of run.sh and of the ClusterFuzzLite build, with made-up targets and a made-up CMake: what
# is counted, what becomes of something that broke, and that every target has a corpus everywhere.
#   usage: run_test.sh <repository> <fuzz targets of CMake>...
# shellcheck disable=SC2016 # variables inside fakes are the fakes' own
set -eu

source=$1
shift
# shellcheck source=.ci/edges/cases.sh
. "$source/.ci/edges/cases.sh"

# ---- the targets of CMake and the corpora are the same list ----
for target do echo "$target"; done | sort >"$work/targets"
ls "$source/properties/sources/fuzz/corpus" >"$work/corpora"
asks diff "$work/targets" "$work/corpora"  # every target has a corpus, every corpus a target
expect 0

# ---- run.sh ----
tree=$work/tree/properties/sources/fuzz
mkdir -p "$tree/corpus/good" "$tree/corpus/bad" "$tree/corpus/bytes" "$work/build/fuzz"
cp "$source/properties/sources/fuzz/run.sh" "$tree/"
target() {  # target <name> <script line>...
  fake "$@"
  mv "$work/bin/$1" "$work/build/fuzz/fuzz_$1"
}
run() { asks sh "$tree/run.sh" "$@"; }
target good 'echo "$*" >>'"$work"'/arguments
echo "#10 INITED cov: 100 ft: 1"; echo "#500 DONE cov: 107 ft: 2"
echo "stat::number_of_executed_units: 1000"
echo "fuzzed: 1000 inputs, 20000 operations, 2.00 s of processor time"'
for broken in bad bytes; do
  target "$broken" 'for a do case $a in
    -minimize_crash=1) minimize=yes ;;
    -exact_artifact_path=*) exact=${a#*=} ;;
    -artifact_prefix=*) found=${a#*=} ;;
  esac; done
  if [ -n "${KVPROOF_TRACE_TO:-}" ]; then
    [ '"$broken"' = bytes ] || echo "trace: $KVPROOF_TRACE_TO/$(cat "$a").jsonl"
  elif [ -n "${minimize:-}" ]; then printf small >"$exact"
  else echo "fuzz target failed: I2"; printf large >"$found/crash-1"; exit 77; fi'
done

run - --seconds=5 --seed=7 --jobs=2 --merge --target=good --target=bad  # are right
expect 0
run - --help
expect 0 "OUT:^Exit codes: 0 "
if [ -w /dev/full ]; then
  for words in "- --help" "$work/build --target=good --seconds=2 --jobs=1"; do
    code=0 ran=$words
    # shellcheck disable=SC2086
    sh "$tree/run.sh" $words >/dev/full 2>"$work/err" </dev/null || code=$?
    expect 2 "ERR:^kvproof fuzz: stdout cannot be written"
  done
  rm -f "$work/arguments"
fi

run "$work/build" --target=good --seconds=7 --seed=5 --jobs=2
expect 0 "OUT:^good +2000 +40000 +10000 +7$" "ERR:^seed 5, 2 jobs, 7 s" \
  "ok:grep -q -e '-seed=6 .*-max_total_time=7 ' arguments"
KVPROOF_FUZZ_WORK=$work/elsewhere run "$work/build" --target=bytes --seconds=2 --jobs=1
expect 1 "ok:[ -f elsewhere/regressions/bytes/crash-1 ]" "ok:[ ! -e '$tree/../regressions' ]"
run "$work/build" --target=good --seconds=2 --jobs=1 "--json=$work/absent/rows.json"
expect 2 "ERR:^kvproof fuzz: .*absent/rows.json: cannot be written$"
run "$work/build" --target=good --target=bad --target=bytes --seconds=2 --jobs=1 \
  "--json=$work/rows.json"
expect 1 "out:fuzz target failed: I2" "OUT:^trace: .*/regressions/small.jsonl$" \
  "ok:grep -qx small '$tree/../regressions/bytes/crash-1'" "ok:! ls | grep -q part-" \
  "ok:python3 -c '
import json
rows = json.load(open(\"rows.json\"))[\"results\"]
assert [row[\"parameters\"][\"target\"] for row in rows] == [
    \"good\", \"bad\", \"bad\", \"bytes\", \"bytes\"]
assert [each[\"value\"] for each in rows[0][\"metrics\"].values()] == [1000, 20000, 10000, 7], rows
found = rows[2][\"parameters\"]
assert found[\"file\"].endswith(\"regressions/small.jsonl\"), found
assert found[\"law\"] == \"fuzz bad\", found
assert found[\"reason\"] == \"fuzz target failed: I2\", found
assert \"kvproof replay /\" in found[\"repeat\"], found
assert \"fuzz_bytes \" in rows[4][\"parameters\"][\"repeat\"]'"
target good 'case " $* " in *" -merge=1 "*) for last; do :; done
  set -- $*; until [ "$1" = -merge=1 ]; do shift; done; echo merged >"$2/one" ;; esac
  echo "stat::number_of_executed_units: 1"'
echo old >"$tree/corpus/good/old"
run "$work/build" --target=good --seconds=2 --jobs=1 --merge
expect 0 "ok:[ \"\$(ls '$tree/corpus/good')\" = one ]"
target good 'echo $$ >>'"$work"'/running; kill -s TERM $PPID; exec sleep 7200'
run "$work/build" --target=good --seconds=2 --jobs=2
expect 143 "ok:ended running"
target good 'echo cannot start; exit 3'
run "$work/build" --target=good --seconds=2 --jobs=1
expect 2

# ---- the ClusterFuzzLite build ----
mkdir "$work/into"
build_sh=$source/.clusterfuzzlite/build.sh
fake cmake "echo \"cmake \$*\" >>$work/log" "mkdir -p $work/w/kvproof/fuzz" \
  "while read -r target; do : >$work/w/kvproof/fuzz/fuzz_\$target; done <$work/targets"
fake zip ': >"$3"'
ln -s "$source" "$work/kvproof"
asks env PATH="$work/bin:$PATH" SRC="$work" WORK="$work/w" OUT="$work/into" \
  LIB_FUZZING_ENGINE=engine.a sh "$build_sh"
expect 0 log:KVPROOF_FUZZ_ENGINE=engine.a "log:--target kvproof_fuzz"
while read -r target; do
  expect 0 "ok:[ -e into/fuzz_$target ]" "ok:[ -e into/fuzz_${target}_seed_corpus.zip ]"
done <"$work/targets"
finish
