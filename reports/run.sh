#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the launcher calls for `kvproof report`: report.py, with the python3 that can draw.
# KVPROOF_BIN is the folder of the kvproof-* executables; KVPROOF_PYTHON defaults to python3.
set -eu

python=${KVPROOF_PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
  echo "kvproof report: $python is not here, and the page needs it (Debian: python3)" >&2
  exit 77
fi
# Where env can, it lets a signal wait until report.py handles it: a Python that starts answers with
# a traceback.
later="env --block-signal=INT,TERM,HUP"
$later true 2>/dev/null || later=
# shellcheck disable=SC2086 # two words or none
exec $later "$python" "$(dirname "$0")/report.py" "$@"
