// SPDX-License-Identifier: Apache-2.0
// The row of a known finding that explains nothing any more, as kvproof_support/known.py makes it.
#pragma once

#include "bench/results/result_file.h"
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

}  // namespace kvproof::bench
