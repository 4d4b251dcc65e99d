#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of run.sh and of the ClusterFuzzLite build, with made-up targets and a made-up CMake: what
# is counted, what becomes of something that broke, and that every target has a corpus everywhere.
#   usage: run_test.sh <repository> <fuzz targets of CMake>...
# shellcheck disable=SC2016 # variables inside fakes are the fakes' own
set -eu

source=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
check() {  # check <what must hold> <command>...
  what=$1
  shift
  if ! "$@"; then
    failures=$((failures + 1))
    echo "FAILED: $what"
    sed 's/^/    /' "$work/out" "$work/err" 2>/dev/null || true
  fi
}
exits() { [ "$code" = "$1" ]; }
has() { grep -qE -e "$1" "$work/$2"; }

# ---- the targets of CMake and the corpora are the same list ----
for target do echo "$target"; done | sort >"$work/targets"
ls "$source/properties/sources/fuzz/corpus" >"$work/corpora"
check "every target of CMake has a corpus, and no corpus lacks its target" \
  cmp -s "$work/targets" "$work/corpora"

# ---- run.sh ----
tree=$work/tree/properties/sources/fuzz
mkdir -p "$tree/corpus/good" "$tree/corpus/bad" "$tree/corpus/bytes" "$work/build/fuzz"
cp "$source/properties/sources/fuzz/run.sh" "$tree/"
fake() {  # fake <target> <script line>...
  { echo '#!/bin/sh'; printf '%s\n' "$2"; } >"$work/build/fuzz/fuzz_$1"
  chmod +x "$work/build/fuzz/fuzz_$1"
}
run() {
  code=0
  sh "$tree/run.sh" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}
fake good 'echo "$*" >>'"$work"'/arguments
echo "#10 INITED cov: 100 ft: 1"; echo "#500 DONE cov: 107 ft: 2"
echo "stat::number_of_executed_units: 1000"
echo "fuzzed: 1000 inputs, 20000 operations, 2.00 s of processor time"'
for broken in bad bytes; do
  fake "$broken" 'for a do case $a in
    -minimize_crash=1) minimize=yes ;;
    -exact_artifact_path=*) exact=${a#*=} ;;
    -artifact_prefix=*) found=${a#*=} ;;
  esac; done
  if [ -n "${KVPROOF_TRACE_TO:-}" ]; then
    [ '"$broken"' = bytes ] || echo "trace: $KVPROOF_TRACE_TO/$(cat "$a").jsonl"
  elif [ -n "${minimize:-}" ]; then printf small >"$exact"
  else echo "fuzz target failed: I2"; printf large >"$found/crash-1"; exit 77; fi'
done

run - --seconds=5 --seed=7 --jobs=2 --merge --target=good --target=bad
check "options alone can be checked" exits 0
run - --help
check "the exit codes end the help" sh -c "tail -n 2 '$work/out' | grep -q '^Exit codes: 0 '"
if [ -w /dev/full ]; then
  for words in "- --help" "$work/build --target=good --seconds=2 --jobs=1"; do
    code=0
    # shellcheck disable=SC2086
    sh "$tree/run.sh" $words >/dev/full 2>"$work/err" </dev/null || code=$?
    check "a full stdout: 2" exits 2
    check "a full stdout is named" has "^kvproof fuzz: stdout cannot be written" err
  done
  rm -f "$work/arguments"
fi

run "$work/build" --target=good --seconds=7 --seed=5 --jobs=2
check "a target that holds: 0" exits 0
check "executions, operations, operations per core second and coverage are summed up" \
  has '^good +2000 +40000 +10000 +7$' out
check "the jobs have seeds of their own" has '-seed=6 .*-max_total_time=7 ' arguments
check "the seed is printed" has '^seed 5, 2 jobs, 7 s' err

KVPROOF_FUZZ_WORK=$work/elsewhere && export KVPROOF_FUZZ_WORK
run "$work/build" --target=bytes --seconds=2 --jobs=1
unset KVPROOF_FUZZ_WORK
check "what breaks lies where the environment says, and not in the sources" \
  [ -f "$work/elsewhere/regressions/bytes/crash-1" ] && [ ! -e "$tree/../regressions" ]

run "$work/build" --target=good --seconds=2 --jobs=1 "--json=$work/absent/rows.json"
check "rows that cannot be written: 2" exits 2
check "they are named" has '^kvproof fuzz: .*absent/rows.json: cannot be written$' err
run "$work/build" --target=good --target=bad --target=bytes --seconds=2 --jobs=1 \
  "--json=$work/rows.json"
check "rows say what was done, what broke, and how to repeat it" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["results"]
assert [row["parameters"]["target"] for row in rows] == ["good", "bad", "bad", "bytes", "bytes"]
assert [metric["value"] for metric in rows[0]["metrics"].values()] == [1000, 20000, 10000, 7], rows
found = rows[2]["parameters"]
assert found["file"].endswith("regressions/small.jsonl") and found["law"] == "fuzz bad", found
assert found["reason"] == "fuzz target failed: I2" and "kvproof replay /" in found["repeat"], found
assert "fuzz_bytes " in rows[4]["parameters"]["repeat"]' "$work/rows.json"
check "nothing unfinished stays" sh -c "! ls '$work' | grep -q part-"
run "$work/build" --target=good --target=bad --seconds=2 --jobs=1
check "a target that breaks: 1" exits 1
check "what broke is said" has 'fuzz target failed: I2' out
check "it was made small before it became a trace" has '^trace: .*/regressions/small.jsonl$' out
run "$work/build" --target=bytes --seconds=2 --jobs=1
check "bytes that are no operations: 1" exits 1
check "they are kept as they are, small" \
  grep -qx small "$work/tree/properties/sources/fuzz/../regressions/bytes/crash-1"
fake good 'case " $* " in *" -merge=1 "*) for last; do :; done
  set -- $*; until [ "$1" = -merge=1 ]; do shift; done; echo merged >"$2/one" ;; esac
  echo "stat::number_of_executed_units: 1"'
echo old >"$tree/corpus/good/old"
run "$work/build" --target=good --seconds=2 --jobs=1 --merge
check "--merge: 0" exits 0
check "--merge replaces the corpus by the smaller one" [ "$(ls "$tree/corpus/good")" = one ]
fake good 'echo $$ >>'"$work"'/running; kill -s TERM $PPID; exec sleep 7200'
run "$work/build" --target=good --seconds=2 --jobs=2
check "a signal ends it: 143" exits 143
check "and its jobs" sh -c "while read -r job; do ! kill -0 \$job 2>/dev/null ||
  grep -qs ') Z ' /proc/\$job/stat || exit 1; done <'$work/running'"
fake good 'echo cannot start; exit 3'
run "$work/build" --target=good --seconds=2 --jobs=1
check "a target that does not run: 2" exits 2

# ---- the ClusterFuzzLite build ----
mkdir -p "$work/bin" "$work/into"
build_sh=$source/.clusterfuzzlite/build.sh
cat >"$work/bin/cmake" <<END
#!/bin/sh
echo "cmake \$*" >>"$work/cmake.log"
mkdir -p "$work/w/kvproof/fuzz"
while read -r target; do : >"$work/w/kvproof/fuzz/fuzz_\$target"; done <"$work/targets"
END
printf '#!/bin/sh\n: >"$3"\n' >"$work/bin/zip"
chmod +x "$work/bin/cmake" "$work/bin/zip"
ln -s "$source" "$work/kvproof"
code=0
env PATH="$work/bin:$PATH" SRC="$work" WORK="$work/w" OUT="$work/into" \
  LIB_FUZZING_ENGINE=engine.a sh "$build_sh" >"$work/out" 2>"$work/err" || code=$?
check "the build for a fuzzing cluster runs" exits 0
check "it links the engine that the cluster names" has 'KVPROOF_FUZZ_ENGINE=engine.a' cmake.log
check "it builds the fuzz targets" has '--target kvproof_fuzz' cmake.log
while read -r target; do
  check "it lays down $target" [ -e "$work/into/fuzz_$target" ]
  check "it lays down the corpus of $target" [ -e "$work/into/fuzz_${target}_seed_corpus.zip" ]
done <"$work/targets"

[ "$failures" = 0 ] || exit 1
