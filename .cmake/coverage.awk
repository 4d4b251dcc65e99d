# SPDX-License-Identifier: Apache-2.0
# Reads what gcov prints, writes the table of coverage.sh. -v root=<repository> -v least=<per cent>

/^ *-: *0:Source:/ {
  file = $0
  sub(/.*Source:/, "", file)
  wanted = sub(/^(.*\/)?optimized\//, "optimized/", file) ||
           sub(/^(.*\/)?reference\//, "reference/", file)
  if (wanted) files[file] = 1
  next
}

# "count:line:text"; a count with an asterisk has parts that were not executed.
wanted && /^ *([0-9]+|#####|=====)[*]?: *[0-9]+:/ {
  split($0, field, ":")
  line = field[2] + 0
  executed[file, line] += field[1] ~ /[1-9]/
  next
}

# "branch  0 taken 12 (fallthrough)"; an exception is no branch that somebody wrote.
wanted && /^branch / && !/\(throw\)/ {
  taken[file, line, $2] += $3 == "taken" && $4 > 0
}

function report(name,    at, text, number, has_code, given, used) {
  while ((getline text < (root "/" name)) > 0) {
    ++number
    has_code = (name SUBSEP number) in executed
    if (text ~ /^ *\/\/ unreached: ./) {
      check_used(name, at, used)
      at = number
      used = 0
      continue
    }
    given = text ~ /[^ ].*\/\/ unreached: ./
    if (!has_code) {
      if (given) complain(name, number, "has a reason and no code")
      continue
    }
    ++lines[name]
    if (executed[name, number] > 0) {
      ++hit[name]
      if (given) complain(name, number, "is executed, but says that it is not")
      check_used(name, at, used)
      at = 0
    } else if (given || at) {
      ++argued[name]
      used = 1
    } else if (name ~ /^optimized/) {
      complain(name, number, text)
    }
  }
  check_used(name, at, used)
  close(root "/" name)
}
function count_branches(    at, part, folder) {
  for (at in taken) {
    split(at, part, SUBSEP)
    folder = part[1]
    sub(/\/.*/, "", folder)
    ++branches[folder]
    branches_taken[folder] += taken[at] > 0
  }
}
function check_used(name, at, used) {
  if (at && !used) complain(name, at, "gives a reason for lines that are executed")
}
function complain(name, number, text) { complaints[++num_complaints] = name ":" number ": " text }
function row(name, all, done, reasons) {
  printf "%-38s %6d %9d %8.2f %10d\n", name, all, done, all ? 100 * done / all : 100, reasons
}

END {
  printf "%-38s %6s %9s %8s %10s\n", "file", "lines", "executed", "%", "unreached"
  for (name in files) order[++count] = name
  for (i = 2; i <= count; ++i) {  # no asort in every awk
    for (j = i; j > 1 && order[j] < order[j - 1]; --j) {
      name = order[j]; order[j] = order[j - 1]; order[j - 1] = name
    }
  }
  for (i = 1; i <= count; ++i) {
    name = order[i]
    report(name)
    row(name, lines[name], hit[name], argued[name])
    all += lines[name]; done += hit[name]; reasons += argued[name]
  }
  count_branches()
  for (folder in branches) {
    row("branches of " folder, branches[folder], branches_taken[folder], 0)
  }
  row("all", all, done, reasons)
  for (i = 1; i <= num_complaints; ++i) print complaints[i]
  if (!all) print "nothing was executed: run without --report first"
  exit all == 0 || num_complaints > 0 || 100 * done < least * all
}
