// SPDX-License-Identifier: Apache-2.0
// Whether two managers are in the same state, as far as both show it.
//
// Compared: of both tiers free queue, counts, keys by which blocks share them, tables, progress,
//           leases, raw references, counters of those that promise to be whole. Not compared: the
//           values of hashes, which are each allocator's own.
#pragma once

#include <string_view>

#include "properties/laws/occasion.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// Parts that not every subject shows, and whether they are compared.
struct ComparedParts {
  bool index = true;  // keys by which blocks share them, second keys
  bool progress = true;
  bool counters = false;                    // they must be shown, too
  std::string_view whose = "in the model";  // says where the other state is
};

/// @param parts that may differ at all
/// @return the first difference
[[nodiscard]] Finding difference(const Snapshot& expected, const Snapshot& shown, Occasions parts,
                                 const ComparedParts& compared);

}  // namespace kvproof::properties
