#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the launcher: a copy of it runs in made-up systems whose commands are fakes in a folder.
#   usage: launcher_test.sh <path of kvproof>
# shellcheck disable=SC2016 # variables inside fakes are the fakes' own
set -eu

launcher=$1
work=$(mktemp -d)
here=$(cd "$work" && pwd -P)
trap 'rm -rf "$work"' EXIT
failures=0
cases=0

check() {  # check <what must hold> <command>...
  cases=$((cases + 1))
  what=$1
  shift
  if ! "$@"; then
    failures=$((failures + 1))
    echo "FAILED: $what"
    echo "  exit $code; stdout:"; sed 's/^/    /' "$work/out"
    echo "  stderr:"; sed 's/^/    /' "$work/err"
  fi
}
exits() { [ "$code" = "$1" ]; }
out_has() { grep -qF -e "$1" "$work/out"; }
err_has() { grep -qF -e "$1" "$work/err"; }
err_is_one_line() { [ "$(wc -l <"$work/err")" = 1 ]; }
last_line_is() { [ "$(tail -n 1 "$work/out")" = "$1" ]; }
log_is() { [ "$(cat "$work/log" 2>/dev/null)" = "$1" ]; }
lacks() { ! grep -qF -e "$1" "$work/out" "$work/err" "$work/log"; }

fake() {  # fake <command> <script line>...: a command of the made-up system
  printf '#!/bin/sh\n' >"$work/bin/$1"
  name=$1
  shift
  printf '%s\n' "$@" >>"$work/bin/$name"
  chmod +x "$work/bin/$name"
}

# A made-up Debian: only text tools are real; each package is there unless listed in "lacking".
system() {
  rm -rf "${work:?}/bin" "$work/tree"
  mkdir -p "$work/bin" "$work/tree/reports"
  : >"$work/log"
  : >"$work/lacking"
  for tool in sh sed grep awk cut tr head tail cat date dirname mkdir sleep sort uname readlink \
    env getconf printf rm wc mktemp mv flock setsid; do
    real=$(command -v "$tool" || true)
    case $real in /*) ln -s "$real" "$work/bin/$tool" ;; esac
  done
  cp "$launcher" "$work/tree/kvproof"
  echo 'set(KVPROOF_VERSION 1.2.3-dev)' >"$work/tree/CMakeLists.txt"
  fake id 'echo 0'
  fake apt-get "echo \"apt-get \$*\" >>$work/log"
  fake apt-cache 'exit 0'
  fake dpkg-query 'shift 3 2>/dev/null' \
    "for p do grep -qx \"\$p\" $work/lacking || echo \"installed \$p 1.0\"; done"
  fake cmake "echo \"cmake \$*\" >>$work/log" \
    'case $1 in --preset) mkdir -p build/release && : >build/release/build.ninja' \
    'echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt ;; esac'
  fake ctest "echo \"ctest \$*\" >>$work/log; cat $work/ctest.txt; exit \$(cat $work/ctest.code)"
  echo 0 >"$work/ctest.code"
  printf '%s\n' '    Start 1: a' '1/3 Test #1: a ....   Passed    0.01 sec' \
    '2/3 Test #2: b ....***Skipped   0.00 sec' '3/3 Test #3: c ...   Passed    0.01 sec' \
    >"$work/ctest.txt"
}

run() {  # run <arguments>...: the launcher, in that system
  code=0
  (cd "$work/tree" && exec env PATH="$work/bin" KVPROOF_PREFIXES="$prefixes" ./kvproof "$@") \
    >"$work/out" 2>"$work/err" </dev/null || code=$?
}
prefixes=$work/none  # where it looks for headers and libraries

# ---- words ----
system
run
check "without a verb it explains itself and exits 2" exits 2
check "without a verb it names the verbs" err_has "doctor"
run --help
check "--help exits 0" exits 0
for verb in test engines fuzz report check replay plan bench gate doctor; do
  run --help
  check "--help lists $verb" out_has "  $verb"
  run "$verb" --help
  check "$verb --help exits 0" exits 0
  check "$verb --help has an example" out_has "Example: kvproof $verb"
  check "$verb --help ends with the exit codes" \
    sh -c "tail -n 2 '$work/out' | grep -q '^Exit codes: 0 '"
done
run help
cp "$work/out" "$work/before"
check "help exits 0" exits 0
run --help
check "help says what --help says" cmp -s "$work/before" "$work/out"
for words in version --version; do
  run $words
  check "$words says what CMakeLists.txt says" last_line_is "kvproof 1.2.3-dev"
done
mkdir -p "$work/share/kvproof"
echo 'set(KVPROOF_VERSION 1.2.4)' >"$work/share/kvproof/version.cmake"
mv "$work/tree/CMakeLists.txt" "$work/aside"
run version
check "an installed launcher says what was installed" last_line_is "kvproof 1.2.4"
rm "$work/share/kvproof/version.cmake"
refused_version() { run version; check "$1" exits 2; check "$1, in one line" err_is_one_line; }
refused_version "a version that nothing says is not made up"
mv "$work/aside" "$work/tree/CMakeLists.txt"
run help test
cp "$work/out" "$work/before"
run test --help
check "help VERB says what VERB --help says" cmp -s "$work/before" "$work/out"
run --help test
check "and so does --help VERB" cmp -s "$work/before" "$work/out"

refused() {  # refused <what its one line says> <arguments>...
  said=$1
  shift
  run "$@"
  check "$* exits 2" exits 2
  check "$* gets one line" err_is_one_line
  check "$* is told '$said'" err_has "$said"
  check "$* prints nothing else" [ ! -s "$work/out" ]
}
refused "unknown verb 'nonsense' (see: kvproof --help)" nonsense
refused "unknown verb 'chek' (did you mean check? see: kvproof --help)" chek
refused "did you mean report?" --help reprot
refused "unknown verb 'te'" te  # a part of a verb is none
refused "unknown verb '.*'" '.*'
refused "unknown option '--nonsense'" --nonsense
refused "unexpected 'extra'" --version extra
refused "unexpected 'extra'" version extra
refused "unexpected 'extra'" doctor extra
refused "found 'extra' too" help test extra
refused "installs nothing" doctor --yes
refused "installs nothing" version --no-install
refused "exclude each other" test --yes --no-install
refused "unknown option '--nonsense'" test --nonsense
refused "--filter needs a value" test --filter=
refused "--filter needs a value" test --filter
refused "--filter is given twice" test --filter=A --filter=B
refused "--json needs a value" test --json=
refused "--json is given twice" test --json=a --json=b
refused "--json=nowhere/a: cannot be written" test --json=nowhere/a
refused "--json=reports/: cannot be written" test --json=reports/
check "nothing was run for any of these" log_is ""
if [ -w /dev/full ]; then
  full() {  # full <arguments>...: with a stdout that takes nothing
    code=0
    (cd "$work/tree" && exec env PATH="$work/bin" KVPROOF_PREFIXES="$work/none" ./kvproof "$@") \
      >/dev/full 2>"$work/err" </dev/null || code=$?
    : >"$work/out"
    check "$* with a full stdout exits 2" exits 2
    check "$* with a full stdout says so" err_has "stdout cannot be written"
  }
  for words in --help help --version doctor "check --help"; do
    # shellcheck disable=SC2086
    full $words
    check "$words with a full stdout gets one line" err_is_one_line
  done
  full test --json=summary.json
  check "what --json asks for is written all the same" grep -q passed "$work/tree/summary.json"
fi

# ---- test: build what is stale, run, count ----
system
run test
check "passing tests exit 0" exits 0
check "the closing line counts" last_line_is "2 passed, 0 failed, 1 skipped"
check "nothing is installed when nothing is missing" lacks apt-get
check "it configures first" err_has "configured in"
check "the quick tier is built" grep -q -e "--target kvproof_quick" "$work/log"
check "the quick tier is run" grep -q -e "^ctest.*--label-regex ^quick" "$work/log"
check "what it leaves out is said, with the command that runs it" out_has "./kvproof test --full"
run test --full
check "--full builds everything" grep -q -e "--target all" "$work/log"
check "--full leaves nothing out" lacks "quick tier"
check "--full runs every test" sh -c "tail -n 1 '$work/log' | grep -q '^ctest' &&
  ! tail -n 1 '$work/log' | grep -q label"
run test --non-unity
check "--non-unity has a build of its own" grep -q -e "cmake --preset non-unity" "$work/log"
run test --json=summary.json
check "--json has the seconds and the counts" grep -qxE -e '\{"install_seconds": 0, '\
'"build_seconds": [0-9]+, "build_cpu_seconds": [0-9.]+, "run_seconds": [0-9]+, '\
'"run_cpu_seconds": [0-9.]+, "passed": 2, "failed": 0, "skipped": 1\}' "$work/tree/summary.json"
mkfifo "$work/tree/pipe"
cat "$work/tree/pipe" >"$work/piped" &
reader=$!
run test --json=pipe
check "it stays a pipe" [ -p "$work/tree/pipe" ]
[ -p "$work/tree/pipe" ] || kill "$reader"
wait "$reader" || true
check "what reads a pipe gets it" grep -q '^{"install_seconds"' "$work/piped"
ln -s summary.json "$work/tree/link.json"
: >"$work/tree/summary.json"
run test --json=link.json
check "what a link leads to is written" grep -q passed "$work/tree/summary.json"
check "and it stays a link" [ -L "$work/tree/link.json" ]
check "no part of a file is left" sh -c "! ls -a '$work/tree' | grep -q 'part-'"
run test
check "a second run still passes" exits 0
check "a second run does not configure" lacks "configuring"
mv "$work/tree" "$work/moved" && mv "$work/moved" "$work/tree" && echo stale >"$work/log"
echo CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere >"$work/tree/build/release/CMakeCache.txt"
run test
check "a moved checkout is configured afresh" grep -q "cmake --fresh --preset release" "$work/log"
printf '%s\n' '1/2 Test #1: a ....***Failed    0.01 sec' 'its output' \
  '2/2 Test #2: b ...   Passed    0.01 sec' >"$work/ctest.txt"
echo 8 >"$work/ctest.code"
run test
check "a failed test exits 1" exits 1
check "a failed test shows its output" out_has "its output"
check "a failed test is counted" last_line_is "1 passed, 1 failed, 0 skipped"
printf '%s\n' '1/2 Test #1: a ....***Exception: SegFault  0.01 sec' \
  '2/2 Test #2: b ...***Not Run   0.01 sec' >"$work/ctest.txt"
run test
check "a crash and a missing program are failures" last_line_is "0 passed, 2 failed, 0 skipped"
echo "No tests were found!!!" >"$work/ctest.txt"
run test
check "no tests at all is not a pass" exits 2
echo 0 >"$work/ctest.code"
run test
check "no tests at all is not a pass, whatever ctest says" exits 2
run test --filter=nobody
check "a filter that finds no test exits 2" exits 2
check "a filter that finds no test is named" \
  err_has "--filter=nobody: no test of the quick tier has such a name"
fake cmake 'echo "RegularExpression::compile(): Unmatched parentheses."; cat >/dev/null; exit 1'
: >"$work/log"
run test '--filter=('
check "a filter that is no regular expression exits 2" exits 2
check "a filter that is no regular expression says why" \
  err_has "--filter=(: expected a regular expression of CMake: Unmatched parentheses."
check "and nothing was built" err_is_one_line

fake cmake 'echo the compiler said this; exit 1'
run test
check "a failed build exits 2" exits 2
check "a failed build shows its log" err_has "the compiler said this"

system
mkdir -p "$work/tree/build/release/Testing/Temporary"
printf '%s\n' 'a.cpp:1: Skipped' 'no traces here' 'b.cpp:2: Skipped' 'no traces here' \
  'skipped: no matplotlib' >"$work/tree/build/release/Testing/Temporary/LastTest.log"
run test
check "each reason for skipping is said once" out_has "  2 skipped: no traces here"
check "a script's reason is said too" out_has "  1 skipped: no matplotlib"
echo "fibers: Boost.Context" >>"$work/tree/build/release/Testing/Temporary/LastTest.log"
run test
check "the fibers that the kernel tests ran on are said" \
  grep -qx "fibers: Boost.Context" "$work/out"
check "the closing line counts all the same" last_line_is "2 passed, 0 failed, 1 skipped"

# ---- fuzz: a build of its own, with clang ----
system
mkdir -p "$work/tree/properties/fuzz"
echo "echo \"run.sh \$*\" >>$work/log" >"$work/tree/properties/fuzz/run.sh"
printf '%s\n' clang libclang-rt-dev >"$work/lacking"
run fuzz --no-install
check "without clang fuzz is not possible" exits 77
check "the reason is said" err_has "needs a clang++ with libFuzzer"
check "nothing was built for it" lacks "cmake"
run fuzz --yes
check "fuzz installs clang and its run time" grep -q "install .*clang.*libclang-rt-dev" "$work/log"
fake clang++ "exit 0"
: >"$work/log"
run fuzz --no-install --seconds=9
check "with clang it builds its own preset" grep -q "^cmake --preset fuzz" "$work/log"
check "and its own targets" grep -q "^cmake --build .*/build/fuzz --target kvproof_fuzz" "$work/log"
check "the options are checked first" grep -q "^run.sh - --seconds=9" "$work/log"
check "then it runs" grep -q "^run.sh .*/build/fuzz --seconds=9" "$work/log"

# ---- engines: a script that runs the program ----
system
mkdir -p "$work/tree/properties/foreign/engines"
: >"$work/tree/properties/foreign/engines/run.py"
fake python3 "echo \"python3 \$*\" >>$work/log"
run engines --engine=mine
check "the options are checked first" \
  sh -c "head -n 1 '$work/log' | grep -q 'run.py --check-options --engine=mine'"
check "then the program is built" grep -q "^cmake --build .* --target kvproof-check" "$work/log"
check "then it runs" grep -q "^python3 -B .*/run.py --engine=mine" "$work/log"

# ---- installing ----
system
printf '%s\n' g++ librapidcheck-dev valgrind >"$work/lacking"
run test
check "what is missing is announced" \
  err_has "  apt-get install --no-install-recommends g++ librapidcheck-dev"
check "what the verb does not need is not installed" lacks valgrind
cores=$(getconf _NPROCESSORS_ONLN)
check "lists are read, then packages downloaded, then installed" log_is "apt-get -q update
apt-get -q install -y --no-install-recommends --download-only g++ librapidcheck-dev
apt-get -q install -y --no-install-recommends g++ librapidcheck-dev
cmake --preset release
cmake --build $here/tree/build/release --target kvproof_quick --parallel $cores
ctest --preset release --parallel $cores --tests-regex . --label-regex ^quick$"
check "downloads, installation and build are timed apart" \
  grep -Eq 'downloaded in [0-9]+ s, installed in [0-9]+ s, .*built in [0-9]+ s' "$work/err"

system
printf '%s\n' librapidcheck-dev g++ >"$work/lacking"
fake apt-cache 'case $2 in librapidcheck-dev | g++) exit 100 ;; esac'
run test
check "a library that the archive lacks is left to CMake" \
  err_has "not in this system's archive: CMake fetches and builds it"
check "and the rest is installed" grep -q "install -y --no-install-recommends g++$" "$work/log"

system
printf '%s\n' g++ cmake libssl-dev >"$work/lacking"
rm "$work/bin/cmake"
fake id 'echo 1000'
fake sudo 'exit 1'
run test --yes
check "without rights it exits 2" exits 2
check "without rights the exact line is named" \
  err_has "  apt-get install --no-install-recommends g++ cmake"
check "without rights nothing is run" log_is ""

fake sudo 'case $1 in -n | -v) exit 0 ;; esac' 'exec "$@"'
fake cmake 'exit 0'
run test
check "sudo is used where it works" err_has "sudo apt-get install"

system
printf '%s\n' g++ librapidcheck-dev >"$work/lacking"
fake apt-get 'echo no route to the archive; exit 100'
run test
check "an installation that fails exits 2" exits 2
check "an installation that fails shows why" err_has "no route to the archive"

system
printf '%s\n' g++ cmake librapidcheck-dev >"$work/lacking"
rm "$work/bin/apt-get"
fake c++ 'exit 0'
run test
check "another system with its own compiler and cmake is used as it is" exits 0
rm "$work/bin/c++"
run test
check "another system without a compiler exits 2" exits 2
check "another system without a compiler names it" err_has "  g++: nothing can be built"
check "there, libraries are left to CMake" lacks "rapidcheck"
fake c++ 'exit 0'
printf '%s\n' git python3 python3-matplotlib >"$work/lacking"
run test
check "there, what the verb can go without is gone without" exits 0
run report
check "there, what another verb cannot go without is named" err_has "  python3"

system
echo librapidcheck-dev >"$work/lacking"
run test --no-install
check "--no-install installs nothing" lacks apt-get
check "--no-install builds" exits 0

# What a library's package brings can be there without one. What CMake asks for is asked.
system
prefixes="$work/none $work/prefix"
lacks_again() {  # lacks_again <package>
  echo "$1" >"$work/lacking"
  : >"$work/log"
  run test
}
put() {  # put <path below the prefix>...
  for path do
    mkdir -p "$work/prefix/${path%/*}"
    : >"$work/prefix/$path"
  done
}
boost=include/boost/context
while read -r package first rest; do
  rm -rf "$work/prefix"
  # shellcheck disable=SC2046 # words
  put $(echo "$first" | tr , ' ')
  lacks_again "$package"
  check "$package is installed where of it only $first is there" \
    grep -q "^apt-get .*install -y --no-install-recommends $package$" "$work/log"
  run doctor
  check "and doctor says that $package is missing" grep -Eq "missing +$package" "$work/out"
  # shellcheck disable=SC2086
  put $rest
  lacks_again "$package"
  check "$package is not installed where $first and $rest are there" lacks apt-get
  run doctor
  check "and doctor finds it" grep -Eq "found +$package +[(]not from a package[)]" "$work/out"
done <<END
libboost-context-dev $boost/fiber.hpp,$boost/detail/fcontext.hpp lib/a-linux-gnu/libboost_context.a
libboost-context-dev lib/libboost_context.so $boost/detail/fcontext.hpp
libssl-dev include/openssl/ssl.h lib64/libcrypto.so
libzstd-dev include/zstd.h lib/libzstd.dylib
zlib1g-dev include/zlib.h lib/a-linux-gnu/libz.so
libgtest-dev include/gtest/gtest.h lib/a-linux-gnu/cmake/GTest/GTestConfig.cmake
libbenchmark-dev include/benchmark/benchmark.h lib/cmake/benchmark-1.7/benchmark-config.cmake
nlohmann-json3-dev include/nlohmann/json.hpp share/cmake/nlohmann_json/nlohmann_jsonConfig.cmake
libcli11-dev include/CLI/CLI.hpp share/cmake/CLI11/CLI11Config.cmake
librapidcheck-dev include/rapidcheck.h lib64/cmake/rapidcheck/rapidcheckConfig.cmake
libxxhash-dev lib/libxxhash.so include/xxhash.h
END
prefixes=$work/none

# A system without devpts (some containers) gives out no terminals.
if command -v script >/dev/null 2>&1 && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  system
  echo librapidcheck-dev >"$work/lacking"
  ask="cd $work/tree && PATH=$work/bin KVPROOF_PREFIXES=$work/none ./kvproof test"
  code=0
  echo n | script -qec "$ask" "$work/out" >"$work/err" 2>&1 || code=$?
  check "on a terminal it asks" err_has "Install them now?"
  check "a no installs nothing and exits 2" exits 2
  check "a no runs nothing" log_is ""
  code=0
  echo y | script -qec "$ask" "$work/out" >"$work/err" 2>&1 || code=$?
  check "a yes installs" grep -q "apt-get -q install" "$work/log"
  check "a yes goes on" exits 0
  echo librapidcheck-dev >"$work/lacking"
  script -qec "$ask --yes" "$work/out" >"$work/err" 2>&1 </dev/null || code=$?
  check "--yes does not ask" lacks "Install them now?"

  system
  fake cmake 'case $1 in --build) echo "[1/4] Building" ;; esac; sleep 2'
  script -qec "$ask" "$work/out" >"$work/err" 2>&1 </dev/null || code=$?
  check "a terminal shows a bar with an estimate" \
    grep -Eq 'building \[##### +\] 1/4  [0-9]+ s, about [0-9]+ s left' "$work/err"
  check "a phase that cannot be counted shows its time" \
    grep -Eq '(configuring|building)  [0-9]+ s' "$work/err"
else
  echo "launcher: no terminal to be had here, so what is asked at one is not checked"
fi

# ---- dispatch ----
system
printf '#!/bin/sh\necho "page $KVPROOF_BIN $*"\n' >"$work/tree/reports/run.sh"
run report --out=x "two words"
check "report runs its script with the programs' folder and the arguments" \
  last_line_is "page $(cd "$work/tree" && pwd -P)/build/release/bin --out=x two words"
check "report builds what it runs" grep -q -e "--target kvproof_report" "$work/log"
KVPROOF_PYTHON=sh run report --help  # a bare system has no python3: then the launcher's own help
check "report's own script explains its options" [ "$(cat "$work/out")" = "page  --help" ]
mkdir -p "$work/tree/build/release/bin"
replay=$work/tree/build/release/bin/kvproof-replay
printf '#!/bin/sh\nfor a do echo "<$a>"; done; exit 3\n' >"$replay"
chmod +x "$replay"
run replay "a b" --yes c
check "arguments arrive whole, without the launcher's own" \
  [ "$(cat "$work/out")" = "<a b>
<c>" ]
check "the program's exit code is passed on" exits 3

plan=$work/tree/build/release/bin/kvproof-plan
printf '#!/bin/sh\nfor a do echo "<$a>"; done; exit $(cat %s)\n' "$work/plan.code" >"$plan"
echo 0 >"$work/plan.code"
chmod +x "$plan"
fake python3 'case $1 in -c) exit 0 ;; esac' 'echo "drawn $*"'
last_said() { tail -n 1 "$work/err" | grep -qF -e "$1"; }
run plan --list --figure=f.png
check "--figure does not go with --list" last_said "not with --list"
check "--figure with --list exits 2" exits 2
run plan --figure=f.png --figure=g.png
check "--figure twice is refused" last_said "--figure is given twice"
run plan --figure=f.png --json=/dev/null
check "a figure is not drawn from a device" last_said "/dev/null is none"
check "and nothing was planned" lacks "<"
run plan --figure=f.png --json b.json
check "--json may be two words" out_has "draw_figure.py b.json --figure=memory-of-models"
run plan --model=a "--json=b c"
check "plan's arguments arrive whole" [ "$(cat "$work/out")" = "<--model=a>
<--json=b c>" ]
run plan --figure=f.png --json=b.json
check "--figure is drawn from plan's own result file" \
  last_line_is "figure: f.png"
check "and from nothing else" \
  out_has "draw_figure.py b.json --figure=memory-of-models --output=f.png"
mkdir "$work/temporary"
(cd "$work/tree" && env PATH="$work/bin" TMPDIR="$work/temporary" ./kvproof plan --figure=f.svg) \
  >"$work/out" 2>"$work/err" </dev/null
check "without --json a file is made for the figure" out_has "<--json=$work/temporary/kvproof-plan."
check "and not left" rmdir "$work/temporary"
echo 1 >"$work/plan.code"
run plan --figure=f.png
check "a request that does not fit is drawn and still exits 1" out_has "figure: f.png"
check "its exit code is passed on" exits 1
echo 2 >"$work/plan.code"
run plan --figure=f.png
check "a usage error draws nothing" lacks "drawn"
check "a usage error is passed on" exits 2
run plan --figure=f.pdf
check "another kind of picture exits 2" exits 2
check "another kind of picture gets one line" grep -q "expected --figure=PATH" "$work/err"
fake python3 'exit 1'
if ! /usr/bin/python3 -c 'import matplotlib' >/dev/null 2>&1; then  # it would be found there
  run plan --figure=f.png
  check "a figure without matplotlib is not possible here" exits 77
fi

system
prefix=$work/tree/prefix
mkdir -p "$prefix/bin" "$prefix/libexec/kvproof" "$prefix/share/kvproof/reports"
cp "$launcher" "$prefix/bin/kvproof"
printf '#!/bin/sh\necho "ran $*"; exit 77\n' >"$prefix/libexec/kvproof/kvproof-bench"
chmod +x "$prefix/libexec/kvproof/kvproof-bench"
printf 'echo "page $KVPROOF_BIN"\n' >"$prefix/share/kvproof/reports/run.sh"
ln -s ../prefix/bin/kvproof "$work/tree/link" 2>/dev/null || true
echo g++ >"$work/lacking"
code=0
PATH=$work/bin "$prefix/bin/kvproof" bench one >"$work/out" 2>"$work/err" || code=$?
check "installed, it only dispatches" last_line_is "ran one"
check "installed, it passes the exit code on" exits 77
check "installed, it neither installs nor builds" log_is ""
ln -s "$prefix/bin/kvproof" "$work/bin/kvproof"
code=0
PATH=$work/bin kvproof report >"$work/out" 2>"$work/err" || code=$?
check "through a link it finds its programs" \
  last_line_is "page $(cd "$prefix" && pwd -P)/libexec/kvproof"
code=0
PATH=$work/bin "$prefix/bin/kvproof" test >"$work/out" 2>"$work/err" || code=$?
check "installed, test says that it needs a checkout" exits 2

# ---- signals: whatever runs below ends, and the exit code names the signal ----
# A stand-in signals its parent, which is the launcher, alone. One of its children has a process
# group of its own, as ninja's compilers have; one does not listen.
ended() {
  for pause in 0 0.1 0.2 0.4 0.8; do
    sleep "$pause"
    left=
    while read -r process; do
      if kill -0 "$process" 2>/dev/null && ! grep -qs ') Z ' "/proc/$process/stat"; then
        left="$left $process"
      fi
    done <"$work/running"
    [ -n "$left" ] || return 0
  done
  # shellcheck disable=SC2086
  kill -s KILL $left
  return 1
}
nothing_is_left() {
  check "$1: everything below has ended" ended
  check "$1: no file is left" \
    sh -c "! find '$work/tree' '$work/temporary' -name '*part-*' -o -name '.times*' -o \
      -name 'kvproof-*.??????' | grep -q ."
}
interrupted() {  # interrupted [deaf]: lines of a stand-in; the launcher gets $SIGNAL
  printf '%s\n' "echo \$\$ >>$work/running" \
    "\$(command -v setsid) sleep 600 & echo \$! >>$work/running"
  [ $# = 0 ] || printf '%s\n' "sh -c 'trap \"\" TERM; while :; do sleep 1; done' &" \
    "echo \$! >>$work/running"
  printf '%s\n' "kill -s \$SIGNAL \$PPID; sleep 601 & wait"
}
mkdir "$work/temporary"
export TMPDIR="$work/temporary"
signals='TERM HUP INT'
trap : INT  # or bash would follow the child
if [ "$(sh -c 'kill -s INT $$; echo deaf')" = deaf ]; then
  echo "launcher: interrupts are ignored here, so they are not checked"
  signals='TERM HUP'
fi
trap - INT
for SIGNAL in $signals; do
  export SIGNAL
  case $SIGNAL in HUP) expected=129 ;; INT) expected=130 ;; TERM) expected=143 ;; esac
  system
  : >"$work/running"
  fake cmake "case \$1 in --preset) $(interrupted); esac"
  run check
  check "$SIGNAL while it configures: $expected" exits "$expected"
  nothing_is_left "$SIGNAL while it configures"
  system
  : >"$work/running"
  # shellcheck disable=SC2046 # a word or none
  fake cmake "case \$1 in --build) $(interrupted $([ "$SIGNAL" != HUP ] || echo deaf)); esac"
  run check
  check "$SIGNAL while it builds: $expected" exits "$expected"
  nothing_is_left "$SIGNAL while it builds"
done
SIGNAL=TERM
system
: >"$work/running"
fake ctest "trap 'echo tidied >>$work/log; exit' TERM; $(interrupted)" 'wait'
run test --json=summary.json
check "a signal while it tests: 143" exits 143
check "what runs can tidy up" grep -qx tidied "$work/log"
check "and no counts are written" [ ! -e "$work/tree/summary.json" ]
nothing_is_left "a signal while it tests"
system
: >"$work/running"
fake ctest "kill -s TERM \$PPID; n=0" \
  "while [ \$((n += 1)) -lt 300 ]; do sleep 600 & echo \$! >>$work/running; done; wait"
run test
nothing_is_left "a signal while tests are started"
system
: >"$work/running"
mkdir -p "$work/tree/build/release/bin"
fake kvproof-plan "$(interrupted)"
mv "$work/bin/kvproof-plan" "$work/tree/build/release/bin/"
fake python3 'exit 0'
run plan --figure=f.png
check "a signal while a figure is planned: 143" exits 143
nothing_is_left "a signal while a figure is planned"
system
: >"$work/running"
mkdir -p "$work/tree/reports/device"
interrupted >"$work/tree/reports/device/run.sh"
run device
check "a signal while a device is measured: 143" exits 143
nothing_is_left "a signal while a device is measured"
system
: >"$work/running"
echo g++ >"$work/lacking"
fake apt-get "case \$* in *--download-only*) $(interrupted); esac"
run check
check "a signal while packages are downloaded: 143" exits 143
nothing_is_left "a signal while packages are downloaded"
fake apt-get "case \$* in *--download-only*) ;; *install*)" \
  "echo begun >>$work/log; kill -s TERM \$\$ \$PPID; sleep 0.3; echo unpacked >>$work/log ;; esac"
run check
check "a signal while packages are installed: 143" exits 143
check "and none is left half installed" log_is "begun
unpacked"
check "why it went on is said" err_has "stops when the packages are installed"
unset TMPDIR SIGNAL

# ---- two at once in one checkout ----
if command -v flock >/dev/null 2>&1; then
  system
  mkdir -p "$work/tree/build/release/bin"
  : >"$work/tree/build/release/build.ninja"
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$here/tree" >"$work/tree/build/release/CMakeCache.txt"
  : >"$work/tree/build/release/bin/kvproof-check"
  chmod +x "$work/tree/build/release/bin/kvproof-check"
  fake cmake "echo begun >>$work/log; sleep 0.5; echo ended >>$work/log; sleep 2 &"
  fake ctest "echo begun >>$work/log; sleep 0.5; cat $work/ctest.txt; echo ended >>$work/log"
  both() {  # both <arguments>...: the launcher twice
    : >"$work/log"
    for number in 1 2; do
      (cd "$work/tree" && exec env PATH="$work/bin" ./kvproof "$@") \
        >"$work/out.$number" 2>"$work/err.$number" </dev/null &
    done
    code=0
    wait || code=$?
    cat "$work/out.1" "$work/out.2" >"$work/out"
    cat "$work/err.1" "$work/err.2" >"$work/err"
  }
  both check
  check "one builds after the other" log_is "begun
ended
begun
ended"
  waiting="another kvproof builds $here/tree: waiting for it"
  check "the one that waits says so in one line" [ "$(grep -cxF "$waiting" "$work/err")" = 1 ]
  check "what a build leaves running does not hold it up" \
    flock -n "$work/tree/build/release/build.lock" true
  fake cmake 'exit 0'
  both test
  check "one tests after the other" log_is "begun
ended
begun
ended"
  check "and counts its own tests" [ "$(grep -cx "2 passed, 0 failed, 1 skipped" "$work/out")" = 2 ]
else
  echo "launcher: no flock here, so two builds at once are not checked"
fi
system
rm -f "$work/bin/flock"
run test
check "without flock it goes without" exits 0

# ---- a checkout of somebody else ----
theirs=$work/theirs
if [ "$(id -u)" != 0 ]; then
  as_other() { "$@"; }
elif command -v setpriv >/dev/null 2>&1; then
  as_other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
else
  as_other() { false; }
fi
if as_other true 2>/dev/null; then
  system
  mkdir -p "$theirs" "$work/tree/build/release/bin" "$work/tree/properties/fuzz"
  program=$work/tree/build/release/bin/kvproof-check
  printf '#!/bin/sh\necho result >result.json; echo "in $PWD"; exit 1\n' >"$program"
  cp "$program" "$work/tree/build/release/bin/kvproof-plan"
  echo 'exit 0' >"$work/tree/properties/fuzz/run.sh"
  chmod -R a+rX "$work" && chmod 777 "$theirs" && chmod 666 "$work/log"
  chmod +x "$work/tree/build/release/bin/"*
  fake python3 'exit 0'
  from_theirs() {
    code=0
    (cd "$theirs" && as_other env PATH="$work/bin" "$work/tree/kvproof" "$@") \
      >"$work/out" 2>"$work/err" </dev/null || code=$?
  }
  # The devices of this machine are safe from somebody who is not root.
  chmod -R a+w "$work/tree"
  for name in /dev/stdout /dev/fd/1; do
    from_theirs test --json=$name
    check "$name is written to" sh -c "tail -n 1 '$work/out' | grep -q '^{\"install_seconds\"'"
    check "$name keeps what it has" out_has "2 passed, 0 failed, 1 skipped"
  done
  if [ -w /dev/full ]; then
    from_theirs test --json=/dev/full
    check "a full --json exits 2" exits 2
    check "a full --json is named" err_has "--json=/dev/full: cannot be written"
    check "and the counts are not lost" last_line_is "2 passed, 0 failed, 1 skipped"
  fi
  echo g++ >"$work/lacking"
  : >"$work/log"
  chmod -R go-w "$work/tree"
  [ "$(id -u)" = 0 ] || chmod -R a-w "$work/tree"
  : >"$work/mark"
  from_theirs check
  check "a checkout that cannot be written is used as it is" exits 1
  check "that its programs may be old is said" err_has "cannot be written, so nothing was built"
  check "in one line" err_is_one_line
  check "results go to the caller's folder" [ -s "$theirs/result.json" ]
  check "and nowhere else" out_has "in $(cd "$theirs" && pwd -P)"
  from_theirs plan --figure=f.svg
  check "a figure, too" out_has "figure: f.svg"
  for words in "gate" "report" "test" "test --full" "fuzz"; do
    # shellcheck disable=SC2086
    from_theirs $words
    check "$words cannot do without building: exit 2" exits 2
    check "$words says so in one line" err_is_one_line
    check "$words says what cannot be written" err_has "$here/tree cannot be written"
  done
  from_theirs gate
  check "what is to be done is said" err_has "copy it: cp -r $here/tree"
  from_theirs doctor
  check "doctor works there" exits 0
  check "nothing was installed or built" log_is "cmake --version"
  check "nothing was written there" [ -z "$(find "$work/tree" -newer "$work/mark" ! -type l)" ]
  [ "$(id -u)" = 0 ] || chmod -R u+w "$work/tree"
else
  echo "launcher: root without setpriv is nobody else, so a checkout that cannot be written is" \
    "not checked"
fi

# ---- selftest --mutation-score: a program of its own, with clang ----
system
echo clang >"$work/lacking"
run selftest --mutation-score --no-install
check "without clang there is no mutation score" exits 2
check "the reason is said" err_has "clang: no clang preset, no fuzzing, no mutation score"
check "nothing was built for it" lacks "cmake"
fake clang++ "exit 0"
mkdir -p "$work/tree/build/release/bin"
for name in mutation_score check; do
  program=$work/tree/build/release/bin/kvproof-$name
  printf '#!/bin/sh\necho "%s $*"\n' "$name" >"$program"
  chmod +x "$program"
done
run selftest --no-install --mutation-score --draw=3
check "the program with the mutants is built" \
  grep -q "^cmake --build .* --target kvproof-mutation_score" "$work/log"
check "and gets the options" out_has "mutation_score --mutation-score --draw=3"
run check --no-install --mutation-score --mutants=3
check "the old spelling builds the same" \
  grep -q "^cmake --build .* --target kvproof-mutation_score" "$work/log"
check "and is told by check" out_has "check --mutation-score --mutants=3"

# ---- doctor ----
system
printf '%s\n' valgrind clang nvidia-cuda-toolkit >"$work/lacking"
run doctor
check "doctor exits 0 whatever is missing" exits 0
check "doctor says what a missing tool costs" out_has "no instruction counts"
check "doctor says what is found" grep -Eq 'found +g\+\+ +1.0' "$work/out"
check "doctor names the line that installs it" \
  out_has "apt-get install --no-install-recommends valgrind"
check "doctor changes nothing" log_is "cmake --version"

echo "launcher: $cases checks, $failures failed"
[ "$failures" = 0 ]
