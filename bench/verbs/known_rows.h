// SPDX-License-Identifier: Apache-2.0
// The row of a known finding that explains nothing any more, as kvproof_support/known.py makes it,
// and the lines of a file of known findings that explain what was found.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

#include "bench/results/result_file.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "properties/check/findings.h"

namespace kvproof::bench {

[[nodiscard]] inline Result row_of_unmatched(const properties::KnownFinding& row) {
  return {"known",
          {{"known", row.id},
           {"law", row.law()},
           {"page", row.page},
           {"what", row.what},
           {"verdict", std::string(name_of(Verdict::not_evaluated))},
           {"reason", "no finding is explained by this entry"}},
          {}};
}

/// A line for the laws of each finding that stands for itself: what it says differs by the seed.
[[nodiscard]] inline std::string known_rows_of(std::span<const Result> results) {
  std::string out;
  std::set<std::string> laws;
  for (const Result& row : results) {
    const std::string law = text_in(row, "law");
    const bool is_new = row.experiment.ends_with("_finding") && text_in(row, "behind").empty() &&
                        text_in(row, "verdict") == name_of(Verdict::broken);
    if (!is_new || law.empty() || !laws.insert(law).second) continue;
    const std::string reason = text_in(row, "reason");
    const nlohmann::ordered_json line = {{"id", "known-" + std::to_string(laws.size())},
                                         {"law", law},
                                         {"what", reason.substr(0, reason.find('\n'))}};
    out += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  }
  return out;
}

}  // namespace kvproof::bench
