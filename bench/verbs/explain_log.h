// SPDX-License-Identifier: Apache-2.0
// Explains the lookups of a request log, and bounds what any pool of its size could have kept.
#pragma once

#include "bench/verbs/explain_report.h"
#include "bench/verbs/log_arguments.h"

namespace kvproof::bench {

/// Replays the prompts as replay_prompts.h does and explains the lookup of each. A request is named
/// by its position in the log, from 0. A refused prompt hits nothing, as there.
[[nodiscard]] ExplainReport explain_log(const LogArguments& arguments);

}  // namespace kvproof::bench
