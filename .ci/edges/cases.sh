# shellcheck shell=sh disable=SC2034,SC2154 # what source this set and read the rest
# SPDX-License-Identifier: Apache-2.0
# What tests in shell source: made-up commands, and what a command is expected to say.

work=$(mktemp -d)
here=$(cd "$work" && pwd -P)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
: >"$work/log"
failures=0 cases=0

fake() {  # fake <command> <script line>...: a command of the made-up system
  name=$1
  shift
  printf '%s\n' '#!/bin/sh' "$@" >"$work/bin/$name" && chmod +x "$work/bin/$name"
}

# asks <word>...: runs a command, whose words are in $ran
asks() {
  ran=$* code=0
  "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# expect <exit code> <what must hold>...: of the command that ran. out:TEXT, err:TEXT and log:TEXT
# are there, OUT:, ERR: and LOG: are patterns, no:TEXT is nowhere, last:TEXT is the last line of
# stdout, all:TEXT is the whole log, "one" line is on stderr, ok:COMMAND succeeds.
expect() {
  wrong=''
  [ "$code" = "$1" ] || wrong="exit $code, expected $1"
  shift
  for fact do
    cases=$((cases + 1)) text=${fact#*:}
    case $fact in
      out:* | err:* | log:*) grep -qF -e "$text" "$work/${fact%%:*}" ;;
      OUT:*) grep -qE -e "$text" "$work/out" ;;
      ERR:*) grep -qE -e "$text" "$work/err" ;;
      LOG:*) grep -qE -e "$text" "$work/log" ;;
      no:*) ! grep -qF -e "$text" "$work/out" "$work/err" "$work/log" ;;
      last:*) [ "$(tail -n 1 "$work/out")" = "$text" ] ;;
      all:*) [ "$(cat "$work/log")" = "$text" ] ;;
      ok:*) (cd "$work" && eval "$text") ;;
      one) [ "$(wc -l <"$work/err")" = 1 ] ;;
    esac || wrong="$wrong; not so: $fact"
  done
  [ -n "$wrong" ] || return 0
  failures=$((failures + 1))
  echo "FAILED: $ran: ${wrong#; }"
  for stream in out err log; do echo "  $stream:"; sed 's/^/    /' "$work/$stream"; done
}

# Whether what listed itself in a file, by its number, has ended, or does so soon.
ended() {
  patience=600
  while read -r process; do
    while grep -qs ') [^Z] ' "/proc/$process/stat"; do
      [ $((patience -= 1)) -gt 0 ] || return 1
      sleep 0.1
    done
  done <"$1"
}

finish() {
  echo "$cases checks, $failures failed"
  [ "$failures" = 0 ]
}
