// SPDX-License-Identifier: Apache-2.0
// How one list of blocks becomes another: cuts and insertions, each in the result of those before.
#pragma once

#include <string>
#include <vector>

#include "reference/ids.h"

namespace kvproof::properties {

/// Of a free queue, whose ids occur once: in the order of the queue, each id that left and each
/// that came. A list that repeats an id is replaced.
/// @return JSON: [[at, how many go, [ids that come]], ...]
[[nodiscard]] std::string splices_of_queue(const std::vector<BlockId>& before,
                                           const std::vector<BlockId>& after);

/// Of a table: at most one, between what both begin and end with.
[[nodiscard]] std::string splices_of_table(const std::vector<BlockId>& before,
                                           const std::vector<BlockId>& after);

/// "[3,1,2]"
[[nodiscard]] std::string ids_json(const std::vector<BlockId>& ids);

}  // namespace kvproof::properties
