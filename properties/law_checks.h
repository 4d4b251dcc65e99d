// SPDX-License-Identifier: Apache-2.0
// What a law is given, and the declarations of all checks; laws.h says what each of them demands.
#pragma once

#include "properties/history.h"
#include "properties/say.h"

namespace kvproof::properties {

/// One operation with the states around it. `history` includes this operation.
struct Step {
  const CacheConfig& config;
  const Snapshot& before;
  const Operation& operation;
  const Outcome& outcome;
  const Snapshot& after;
  const History& history;
};

namespace law {
Finding queue_walks(const Step& step);
Finding queued_iff_unheld(const Step& step);
Finding links(const Step& step);
Finding null_block(const Step& step);
Finding conservation(const Step& step);
Finding references(const Step& step);
Finding once_per_request(const Step& step);
Finding shared_is_published(const Step& step);
Finding index_matches_blocks(const Step& step);
Finding index_tidy(const Step& step);
Finding unhashed_before_hashed(const Step& step);
Finding cache_progress(const Step& step);
Finding no_null_in_tables(const Step& step);
Finding append_only_table(const Step& step);
Finding keys_downward_closed(const Step& step);
Finding lookup_contract(const Step& step);
Finding admission_prediction(const Step& step);
Finding failure_changes_nothing(const Step& step);
Finding whole_sequence_gate(const Step& step);
Finding reads_are_pure(const Step& step);
Finding drained_is_free(const Step& step);
Finding reset_clears(const Step& step);
Finding events_mirror_index(const Step& step);
Finding free_order(const Step& step);
Finding hash_chain(const Step& step);
Finding usage_ratio(const Step& step);
Finding common_prefix_identity(const Step& step);
}  // namespace law

}  // namespace kvproof::properties
