#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks and gates the allocator of this repository: the files here against those of a revision.
#   usage: gate.sh <checkout of kvproof> <revision> <summary.md>
# Exit codes are kvproof's: 0 same or better, 1 worse or wrong, 2 usage, 3 cannot tell.
# KVPROOF_RUN: how kvproof is called, where it is not the launcher of that checkout.
set -eu

[ $# = 3 ] || { echo "usage: gate.sh <checkout of kvproof> <revision> <summary.md>" >&2; exit 2; }
kvproof=$1
base=$2
summary=$3
run=${KVPROOF_RUN:-$kvproof/kvproof}
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"  # kvproof has installed it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# build <sources> <name>: <name>/mine.so
build() {
  if ! { cmake -S "$1" -B "$work/$2" -DKVPROOF="$kvproof" && cmake --build "$work/$2"; } \
    >"$work/$2.log" 2>&1; then
    echo "gate.sh: $2 does not build" >&2
    tail -n 20 "$work/$2.log" >&2
    exit 2
  fi
}

git rev-parse --verify --quiet "$base^{commit}" >/dev/null ||
  { echo "gate.sh: no revision of the name $base" >&2; exit 2; }
mkdir "$work/tree"
git archive "$base" | tar -x -C "$work/tree"
build "$work/tree" base
build . head

code=0
"$run" check --subject="$work/head/mine.so" --operations=1000 || code=$?
if [ "$code" != 0 ]; then
  echo "**kvproof check: exit code $code**, nothing was measured" >"$summary"
  exit "$code"
fi
"$run" gate --subject="$work/head/mine.so" --against="$work/base/mine.so" --operations=1000 \
  --summary="$summary" ${KVPROOF_GATE_OPTIONS:-} || code=$?
exit "$code"
