// SPDX-License-Identifier: Apache-2.0
// The verdicts of rows, and the exit code of each; verdicts.py is the same in Python.
#pragma once

#include <iterator>
#include <span>
#include <string_view>

namespace kvproof::bench {

/// In the order in which one decides over the others.
enum class Verdict {
  broken,       // a law was broken, a fault was not detected
  worse,        // a measurement got worse
  cannot_tell,  // something prevented a verdict
  known,        // broken as a row of known findings says
  holds,
  better,
  same,
  not_evaluated,   // the law applies, and no run was about it
  not_applicable,  // a trait, an ability or a missing view leaves the law out
  skipped,         // it could not run here; the reason says why
};

struct VerdictRow {
  std::string_view name;
  int exit_code;
};

inline constexpr VerdictRow kVerdicts[] = {
    {"broken", 1}, {"worse", 1}, {"cannot_tell", 3},   {"known", 0},          {"holds", 0},
    {"better", 0}, {"same", 0},  {"not_evaluated", 0}, {"not_applicable", 0}, {"skipped", 77}};

[[nodiscard]] constexpr std::string_view name_of(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)].name;
}

[[nodiscard]] constexpr int exit_code_of(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)].exit_code;
}

/// The one that decides: the first in the order above. Nothing ran: skipped.
[[nodiscard]] constexpr Verdict deciding(std::span<const Verdict> verdicts) {
  Verdict out = Verdict::skipped;
  for (const Verdict verdict : verdicts) out = verdict < out ? verdict : out;
  return out;
}

}  // namespace kvproof::bench
