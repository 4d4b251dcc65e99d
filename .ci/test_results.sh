#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the launcher says of a run of ctest: which tests failed, why others were skipped, the counts.
#   usage: test_results.sh <build folder> <tier> <filter> <ctest's exit code> <JSON file>
#                          <seconds of installing> <of building> <of the tests>
# Exit codes: 0 every test passed or was skipped, 1 one failed, 2 none was run, or no way to tell.
build=$1 tier=$2 filter=$3 code=$4 json=$5 installing=$6 building=$7 running=$8

fail() { echo "kvproof: test: $*" >&2; exit 2; }

# ctest's own lines: "  3/10 Test  #3: name ....   Passed    0.01 sec".
counts=$(awk '/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    if (/\*\*\*Skipped/) skipped++
    else if (/ Passed +[0-9.]+ sec/) passed++
    else failed++
  }
  END { printf "%d passed, %d failed, %d skipped", passed, failed, skipped }' "$build/test.log")
if [ "$counts" = "0 passed, 0 failed, 0 skipped" ]; then
  tail -n 40 "$build/test.log" >&2
  fail "--filter=${filter:-.}: no test of the $tier tier has such a name and was run"
fi
case $counts in
  *" 0 failed"*)
    [ "$code" = 0 ] || { tail -n 40 "$build/test.log" >&2; fail "the tests could not be run"; }
    failed=0 ;;
  *) failed=1 ;;
esac

say() {
  [ "$failed" = 0 ] ||
    grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed )' "$build/test.log"
  last=$build/Testing/Temporary/LastTest.log
  [ ! -r "$last" ] || awk '/: Skipped$/ { getline; sub(/^ +/, ""); if ($0 != "") reasons[$0]++ }
    sub(/^skipped: /, "") { reasons[$0]++ }
    END { for (r in reasons) printf "  %d skipped: %s\n", reasons[r], r }' "$last" | sort
  [ ! -r "$last" ] || awk '/^fibers: / { print; exit }' "$last"  # ucontext makes tests slow
  [ "$tier" != quick ] || cat <<'END'
This was the quick tier. Left out: bugs seeded into kernels, the kernels and the concurrent pool
under sanitizers, headers compiled alone, studies, benchmarks and gates, report runs, the launcher,
installation, a consumer and nvcc. With them: ./kvproof test --full
END
  echo "$counts"
}
told=$(say)
printf '%s\n' "$told" 2>/dev/null || told=

if [ -n "$json" ]; then
  counted=$(echo "$counts" | sed 's/\([0-9][0-9]*\) \([a-z]*\)/"\2": \1/g')
  # What "times" said before, between and after: user and system seconds of all that had ended.
  cpu=$(awk 'NR % 2 == 0 { gsub(/[ms]/, " "); at[NR] = 60 * ($1 + $3) + $2 + $4 }
    END { printf "%d %d", at[4] - at[2], at[6] - at[4] }' "$build/times.log")
  (printf '{"install_seconds": %d, "build_seconds": %d, "build_cpu_seconds": %d, ' \
    "$installing" "$building" "${cpu% *}" &&
    printf '"run_seconds": %d, "run_cpu_seconds": %d, %s}\n' "$running" "${cpu#* }" "$counted"
  ) 2>/dev/null >"$json" ||
    fail "--json=$json: cannot be written"
fi
[ -n "$told" ] || fail "stdout cannot be written"
exit "$failed"
