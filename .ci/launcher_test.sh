#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the launcher: a copy of it runs in made-up systems whose commands are fakes in a folder.
#   usage: launcher_test.sh <path of kvproof>
# shellcheck disable=SC2016 # variables inside fakes are the fakes' own
set -eu

launcher=$1
project=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=.ci/edges/cases.sh
. "$project/edges/cases.sh"

# A made-up Debian: only text tools are real; each package is there unless listed in "lacking".
system() {
  rm -rf "${work:?}/bin" "$work/tree" "$work/temporary"
  mkdir -p "$work/bin" "$work/tree/.ci" "$work/tree/properties/sources/fuzz" \
    "$work/tree/properties/engines/allocators" "$work/tree/reports/device" \
    "$work/tree/build/release/bin" "$work/temporary"
  : >"$work/log"
  printf '%s\n' "$@" >"$work/lacking"
  for tool in sh sed grep awk cut tr head tail cat date dirname mkdir sleep sort uname readlink \
    env getconf printf rm wc mktemp flock setsid paste; do
    real=$(command -v "$tool" || true)
    case $real in /*) ln -s "$real" "$work/bin/$tool" ;; esac
  done
  cp "$launcher" "$work/tree/kvproof"
  cp "$project/test_results.sh" "$work/tree/.ci/"
  echo 'set(KVPROOF_VERSION 1.2.3-dev)' >"$work/tree/CMakeLists.txt"
  fake id 'echo 0'
  fake apt-cache :
  fake apt-get "echo \"apt-get \$*\" >>$work/log"
  fake dpkg-query 'shift 3 2>/dev/null' \
    "for p do grep -qx \"\$p\" $work/lacking || echo \"installed \$p 1.0\"; done"
  fake cmake "echo \"cmake \$*\" >>$work/log" \
    'case $1 in --preset) mkdir -p build/release && : >build/release/build.ninja' \
    'echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt ;; esac'
  fake ctest "echo \"ctest \$*\" >>$work/log; cat $work/ctest.txt"
  tests '    Start 1: a' '1/3 Test #1: a ....   Passed    0.01 sec' \
    '2/3 Test #2: b ....***Skipped   0.00 sec' '3/3 Test #3: c ...   Passed    0.01 sec'
}
tests() { printf '%s\n' "$@" >"$work/ctest.txt"; }  # what ctest says

run() {  # run <arguments>...: the launcher, in that system
  : >"$work/log"
  cd "$work/tree"
  asks env PATH="$work/bin" TMPDIR="$work/temporary" ./kvproof "$@"
  cd "$project"
}

try() {  # try <arguments, each one word> <what expect asks>...
  # shellcheck disable=SC2086
  run $1
  shift
  expect "$@"
}

# ---- words ----
system
run
expect 2 err:doctor
run --help
expect 0 "OUT:^Example: kvproof "
for verb in test engines fuzz report check campaign explain lens selftest replay live events plan \
  bench gate doctor describe; do
  expect 0 "out:  $verb"
done
for verb in test report check doctor; do
  try "$verb --help" 0 "out:Example: kvproof $verb" "OUT:^Exit codes: 0 "
done
try "help test" 0 out:--filter
try --version 0 "last:kvproof 1.2.3-dev"
for words in --help doctor "check --help" "test --json=summary.json"; do
  ran=$words code=0
  # shellcheck disable=SC2086
  (cd "$work/tree" && PATH=$work/bin ./kvproof $words) >/dev/full 2>"$work/err" || code=$?
  expect 2 "err:stdout cannot be written"
done
expect 2 "ok:grep -q passed tree/summary.json"

# ---- a build that makes nothing says nothing ----
system
program() {  # program <name> <script line>...
  fake "$@"
  mv "$work/bin/$1" "$work/tree/build/release/bin/$1"
}
program kvproof-check :
: >"$work/tree/build/release/build.ninja"
fake cmake 'echo "[0/1] Re-checking globbed directories..."' 'echo "ninja: no work to do."'
try check 0 "ok:[ ! -s err ]"
fake cmake 'echo "[1/2] Building a.o"; sleep 1; echo "[2/2] Linking a"'
try check 0 "err:building ..." "ERR:^built in [0-9]+ s.$"

# ---- test: build what is stale, run, count ----
system
try "test --json=summary.json" 0 "last:2 passed, 0 failed, 1 skipped" "log:--target kvproof_quick" \
  "log:--label-regex ^quick" "out:./kvproof test --full" no:apt-get "err:configured in" \
  "ok:grep -qx '{.install_seconds.: 0, .build_seconds.: [0-9]*, .build_cpu_seconds.: [0-9]*,\
 .run_seconds.: [0-9]*, .run_cpu_seconds.: [0-9]*, .passed.: 2, .failed.: 0, .skipped.: 1}' \
 tree/summary.json"
try "test --full" 0 "log:--target all" "no:quick" "no:configuring"
try "test --rest" 0 "log:--target all" "log:--label-regex ^full" "no:quick" "no:configuring"
try "test --non-unity" 0 "log:cmake --preset non-unity"
echo CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere >"$work/tree/build/release/CMakeCache.txt"
try test 0 "log:cmake --fresh --preset release"
tests '1/2 Test #1: a ....***Failed    0.01 sec' 'its output' '2/2 Test #2: b ...   Passed    1 sec'
try test 1 "out:its output" "last:1 passed, 1 failed, 0 skipped"
fake ctest "head -n 1 $work/ctest.txt | sed 's/...Failed/ Passed/'; exit 1"
try test 2 "err:the tests could not be run"
fake ctest "cat $work/ctest.txt"
tests "No tests were found!!!"
try "test --filter=nobody" 2 "err:--filter=nobody: no test of the quick tier has such a name"
system
fake cmake 'case $1 in --build) echo the compiler said this; exit 1 ;; esac'
try test 2 "err:the compiler said this" "err:the build failed"
system
mkdir -p "$work/tree/build/release/Testing/Temporary"
printf '%s\n' 'a.cpp:1: Skipped' 'no traces' 'b.cpp:2: Skipped' 'no traces' 'skipped: no vLLM' \
  'fibers: Boost.Context' >"$work/tree/build/release/Testing/Temporary/LastTest.log"
try test 0 "out:  2 skipped: no traces" "out:  1 skipped: no vLLM" "out:fibers: Boost.Context"
# ---- what is outside ----
system
python=$(python3 -c 'import sys; print(sys.executable)')
cp "$project/outside.py" "$work/tree/.ci/"
cp -r "$project/../reference/support/kvproof_support" "$work/tree/.ci/"
export KVPROOF_PYTHON="$python"
try "test --outside --list --filter=Slurm" 0 "last:    needs root, slurmctld, slurmd and munged" \
  "out:a campaign on a Slurm" all:
try "test --outside --filter=tests.that.need" 0 "log:--target kvproof_quick" \
  "log:ctest --test-dir" "last:outside: 0 failed, 0 skipped" no:Slurm
unset KVPROOF_PYTHON
# ---- installing ----
system g++ librapidcheck-dev valgrind
run test
install="install -y --no-install-recommends" cores=$(getconf _NPROCESSORS_ONLN)
expect 0 "err:  apt-get install --no-install-recommends g++ librapidcheck-dev" no:valgrind \
  "ERR:downloaded in [0-9]+ s, installed in [0-9]+ s, .*built in [0-9]+ s" \
  "all:apt-get -q update
apt-get -q $install --download-only g++ librapidcheck-dev
apt-get -q $install g++ librapidcheck-dev
cmake --preset release
cmake --build $here/tree/build/release --target kvproof_quick --parallel $cores
ctest --preset release --parallel $cores --tests-regex . --label-regex ^quick$"
system g++ librapidcheck-dev
fake apt-cache 'case $2 in librapidcheck-dev) exit 100 ;; esac'
try test 0 "err:librapidcheck-dev is not in this system's archive" "log:apt-get -q $install g++"
system g++ cmake
rm "$work/bin/cmake"
fake id 'echo 1000'
fake sudo 'exit 1'
try "test --yes" 2 "err:  apt-get install --no-install-recommends g++ cmake" all:
fake sudo 'case $1 in -n | -v) exit 0 ;; esac' 'exec "$@"'
fake cmake 'exit 0'
try test 0 "err:sudo apt-get install" "log:apt-get -q $install g++"
system g++
fake apt-get 'echo no route to the archive; exit 100'
try test 2 "err:no route to the archive" "err:could not be installed"
system librapidcheck-dev
try "test --no-install" 0 no:apt-get
system g++ cmake librapidcheck-dev git python3 python3-matplotlib
rm "$work/bin/apt-get"
try test 2 "err:  g++: nothing can be built" "no:rapidcheck" "no:  git"
fake c++ 'exit 0'
try test 0
try report 2 "err:  python3"
try doctor 0 "OUT:found +g\+\+ +[(]not from a package"
system libboost-context-dev librapidcheck-dev  # one's headers are here, and not its library
fake c++ 'case $* in *-lboost_context*) exit 1 ;; esac'
try doctor 0 "OUT:missing +libboost-context-dev" \
  "OUT:found +librapidcheck-dev +[(]not from a package"
try test 0 "log:apt-get -q $install libboost-context-dev"

# ---- a terminal: it asks, and it shows what is left ----
if command -v script >/dev/null 2>&1 && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  at_terminal() {  # at_terminal <answer> <arguments> <what expect asks>...
    ran=$2 code=0
    echo "$1" | script -qec "cd $work/tree && PATH=$work/bin ./kvproof $2" "$work/out" \
      >"$work/err" 2>&1 || code=$?
    shift 2
    expect "$@"
  }
  system librapidcheck-dev
  at_terminal n test 2 "err:Install them now?" all:
  at_terminal y test 0 "log:apt-get -q install"
  at_terminal "" "test --yes" 0 "no:Install them now?"
  system
  left='building  [1-9][0-9]* s 1/4, about [0-9]* s left'
  fake cmake "case \$1 in --build) echo '[1/4] Building'; until grep -q '$left' $work/err" \
    "  do sleep 0.1; done ;; *) until grep -q 'configuring  [1-9]' $work/err" \
    "  do sleep 0.1; done ;; esac"
  at_terminal "" test 0
fi
# ---- dispatch ----
system
printf '#!/bin/sh\necho "page $KVPROOF_BIN $*"\n' >"$work/tree/reports/run.sh"
run report --out=x "two words"
expect 0 "last:page $here/tree/build/release/bin --out=x two words" "log:--target kvproof_report"
KVPROOF_PYTHON="sh" run report --help  # a bare system has no python3: then the launcher's own help
expect 0 "last:page  --help"
program kvproof-replay 'for a do echo "<$a>"; done; exit 3'
run replay "a b" --yes c
expect 3 "ok:[ \"\$(cat out)\" = '<a b>
<c>' ]"
program kvproof-replay 'echo "$KVPROOF_CALLED"'  # as it was called, for what is to be repeated
try replay 0 last:./kvproof
for called in "kvproof" "$work/tree/kvproof" "../$(basename "$work/tree")/kvproof"; do
  ran=$called code=0
  (cd "$work/tree" && PATH="$work/tree:$work/bin" "$called" replay) >"$work/out" 2>"$work/err"
  case $called in "$work"*) called=kvproof ;; esac
  expect 0 "last:$called"
done
fake python3 "echo \"python3 \$*\" >>$work/log"
try "plan --list --figure=f.png" 0 \
  "log:reports/plan_figure.py $here/tree/build/release/bin/kvproof-plan --list --figure=f.png"
: >"$work/tree/properties/engines/allocators/run.py"
try "engines --engine=mine" 0 "log:run.py --check-options --engine=mine" \
  "log:--target kvproof-check" "LOG:run.py --engine=mine$"
mkdir -p "$work/tree/properties/engines/live/events"
: >"$work/tree/properties/engines/live/events/run.py"
try "events a.jsonl --mirror" 0 "log:--target kvproof-describe" "log:events/run.py a.jsonl --mirror"
echo "echo \"run.sh \$*\" >>$work/log" >"$work/tree/properties/sources/fuzz/run.sh"
printf '%s\n' clang libclang-rt-dev >"$work/lacking"
try "fuzz --no-install" 77 "err:needs a clang++ with libFuzzer"
try fuzz 77 "log:$install clang libclang-rt-dev"
fake clang++ 'exit 0'
try "fuzz --no-install --seconds=9" 0 "log:run.sh - --seconds=9" "log:cmake --preset fuzz" \
  "log:--target kvproof_fuzz" "log:run.sh $here/tree/build/fuzz --seconds=9"
rm "$work/bin/clang++"
try "selftest --mutation-score --no-install" 2 "err:  clang: no clang preset"
program kvproof-mutation_score 'echo "score $*"'
program kvproof-check 'echo "check $*"'
try "selftest --mutation-score --draw=3" 0 "log:--target kvproof-mutation_score" \
  "last:score --mutation-score --draw=3"
system valgrind clang nvidia-cuda-toolkit
try doctor 0 "out:no instruction counts" all: \
  "OUT:apt-get install --no-install-recommends valgrind clang$" \
  "OUT:found +g\+\+ +1.0"

system g++
prefix=$work/tree/prefix
mkdir -p "$prefix/bin" "$prefix/libexec" "$prefix/share/kvproof/reports"
program kvproof-bench 'echo "ran $*"; exit 77'
mv "$work/tree/build/release/bin" "$prefix/libexec/kvproof"
echo 'set(KVPROOF_VERSION 1.2.4)' >"$prefix/share/kvproof/version.cmake"
printf 'echo "page $KVPROOF_BIN"\n' >"$prefix/share/kvproof/reports/run.sh"
cp "$launcher" "$prefix/bin/kvproof"
ln -sf "$prefix/bin/kvproof" "$work/tree/kvproof"
try "bench one" 77 "last:ran one" all:
try report 0 "last:page $here/tree/prefix/libexec/kvproof" all:
try version 0 "last:kvproof 1.2.4"
try test 2 "err:works from a checkout"

# ---- signals: whatever runs below ends, and the exit code names the signal ----
# One child of a stand-in has a process group of its own, as compilers have; one does not listen.
interrupted() {  # lines of a stand-in; its parent, the launcher, gets $SIGNAL
  : >"$work/running"
  printf '%s\n' "echo \$\$ >>$work/running" \
    "$python -c 'import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True)
time.sleep(7200)' >>$work/running &" \
    "sh -c 'trap \"\" TERM; echo \$\$; while :; do sleep 1; done' >>$work/running &" \
    "until [ \"\$(wc -l <$work/running)\" = 3 ]; do sleep 0.1; done" \
    "kill -s \$SIGNAL \$PPID; sleep 7201 & wait"
}
export SIGNAL=TERM signals='TERM HUP INT'
if [ "$(sh -c 'kill -s INT $$; echo deaf')" = deaf ]; then signals='TERM HUP'; fi  # as started
for SIGNAL in $signals; do
  case $SIGNAL in HUP) expected=129 ;; INT) expected=130 ;; TERM) expected=143 ;; esac
  for step in --preset --build; do
    system
    fake cmake "case \$1 in $step) $(interrupted); esac"
    try check "$expected" "ok:ended running"
  done
done
SIGNAL=TERM
system
fake ctest "trap 'echo tidied >>$work/log; exit' TERM; $(interrupted)"
try "test --json=summary.json" 143 "ok:ended running" log:tidied "ok:[ ! -e tree/summary.json ]"
fake ctest "kill -s TERM \$PPID; n=0" \
  "while [ \$((n += 1)) -lt 300 ]; do sleep 7200 & echo \$! >>$work/running; done; wait"
try test 143 "ok:ended running"
interrupted >"$work/tree/reports/device/run.sh"
try device 143 "ok:ended running"
system g++
fake apt-get "case \$* in *--download-only*) $(interrupted); esac"
try check 143 "ok:ended running"
fake apt-get "case \$* in *--download-only*) ;; *install*)" \
  "echo begun >>$work/log; kill -s TERM \$\$ \$PPID; sleep 0.3; echo unpacked >>$work/log ;; esac"
try check 143 "err:nothing half installed" "all:begun
unpacked"
# ---- two at once in one checkout ----
system
program kvproof-check :
: >"$work/tree/build/release/build.ninja"
other="n=0; until cat $work/err? | grep -q 'VERB .*waiting for it' || [ \$((n += 1)) = 600 ]
  do sleep 0.1; done"  # has come; unless they are let in together
fake cmake "echo begun >>$work/log; ${other%VERB*}builds${other#*VERB}" \
  "echo ended >>$work/log; sleep 2 &"
fake ctest "echo begun >>$work/log; ${other%VERB*}runs the tests of${other#*VERB}" \
  "cat $work/ctest.txt; echo ended >>$work/log"
for words in check test; do
  ran="$words, twice" code=0
  : >"$work/log"
  rm -f "$work"/err?
  for n in 1 2; do
    (cd "$work/tree" && PATH="$work/bin" ./kvproof $words >"$work/out$n" 2>"$work/err$n") &
  done
  wait
  for s in out err; do cat "$work/${s}1" "$work/${s}2" >"$work/$s"; done
  expect 0 "err:$here/tree: waiting for it" "all:begun
ended
begun
ended"
  fake cmake :
done
expect 0 "ok:[ \$(grep -cx '2 passed, 0 failed, 1 skipped' out) = 2 ]"
# ---- a checkout of somebody else ----
if [ "$(id -u)" != 0 ]; then as_other() { "$@"; }
else as_other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }; fi
if as_other true 2>/dev/null; then
  system g++
  mkdir -p "$work/theirs"
  program kvproof-check 'echo result >result.json; echo "in $PWD"; exit 1'
  echo 'exit 0' >"$work/tree/properties/sources/fuzz/run.sh"
  chmod -R a+rX "$work" && chmod 777 "$work/theirs" && chmod -R a-w "$work/tree"
  from_theirs() {
    ran="$*, from another's folder" code=0
    (cd "$work/theirs" && as_other env PATH="$work/bin" "$work/tree/kvproof" "$@") \
      >"$work/out" 2>"$work/err" </dev/null || code=$?
  }
  from_theirs check
  expect 1 one "err:cannot be written, so its programs may be older" "out:in $here/theirs" \
    "ok:[ -s theirs/result.json ]"
  for words in gate report test fuzz; do
    from_theirs $words
    expect 2 one "err:$here/tree cannot be written" all:
  done
  chmod -R u+w "$work/tree"
fi

finish
