// SPDX-License-Identifier: Apache-2.0
// What stands for the mutants in a program that is built without them.
#include "bench/verbs/command_line.h"
#include "bench/verbs/mutation_score.h"

namespace kvproof::bench {

int mutation_score(const MutationOptions& /*options*/, int /*argc*/, const char* const* /*argv*/) {
  throw UsageError(
      "--mutation-score works from a checkout, where ./kvproof selftest --mutation-score builds "
      "it");
}

}  // namespace kvproof::bench
