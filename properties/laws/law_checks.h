// SPDX-License-Identifier: Apache-2.0
// What a law is given, and what several of them ask of it; laws.h says what each of them demands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "properties/laws/history.h"
#include "properties/laws/law_counts.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// One operation with the states around it. `history` includes this operation.
struct Step {
  const CacheConfig& config;
  const Snapshot& before;
  const Operation& operation;
  const Outcome& outcome;
  const Snapshot& after;
  const History& history;
  LawCount* count = nullptr;  // of the law that is checked now
};

/// Whether a trait that the subject declares exempts what a law would report. It is counted.
[[nodiscard]] inline bool exempted(const Step& step, bool declared) {
  if (declared && step.count != nullptr) ++step.count->exempted;
  return declared;
}

/// Whether another copy has the key of this block, where one copy alone keeps it.
[[nodiscard]] inline bool superseded(const Step& step, BlockId block) {
  const auto& all = step.history.superseded;
  return block < all.size() && exempted(step, all[block] != 0);
}

/// Whether the index has forgotten it for another one.
[[nodiscard]] inline bool overtaken(const Step& step, BlockId block) {
  return step.history.promises->traits.forgets_copies() && superseded(step, block);
}

/// A request of the state after the operation, as it was before; nullptr if it was not there.
[[nodiscard]] inline const RequestState* before_of(const Step& step, const RequestState& now) {
  const auto at = static_cast<std::size_t>(&now - step.after.requests.data());
  const std::size_t place = step.history.places[at].before;
  return place != Places::kAbsent ? &step.before.requests[place] : nullptr;
}

/// What the caller knows about a request of the state after the operation.
[[nodiscard]] inline const RequestRecord* record_of(const Step& step, const RequestState& now) {
  const auto at = static_cast<std::size_t>(&now - step.after.requests.data());
  const std::size_t place = step.history.places[at].record;
  return place != Places::kAbsent ? &step.history.book.requests()[place] : nullptr;
}

/// The request that the operation is about, as it was and as it is; nullptr if it is not there. For
/// `complete` this is the request of the transfer that is settled.
[[nodiscard]] inline const RequestState* own_before(const Step& step) {
  const std::size_t place = step.history.own.before;
  return place != Places::kAbsent ? &step.before.requests[place] : nullptr;
}
[[nodiscard]] inline const RequestState* own_after(const Step& step) {
  const std::size_t place = step.history.own.after;
  return place != Places::kAbsent ? &step.after.requests[place] : nullptr;
}
[[nodiscard]] inline const RequestRecord* own_record(const Step& step) {
  const std::size_t place = step.history.own.record;
  return place != Places::kAbsent ? &step.history.book.requests()[place] : nullptr;
}

/// The fingerprint that the block at this position of a request must carry when it is published;
/// nullopt when the request has no such position.
[[nodiscard]] inline std::optional<std::uint64_t> own_key(const Step& step, const RequestState& r,
                                                          GroupId group, std::size_t position) {
  const std::size_t units = (position + 1) * step.history.groups[group].units_per_block;
  if (units == 0 || units > r.hashes.size()) return std::nullopt;
  return r.hashes[units - 1];
}

/// Whether the key belongs to a prompt that ends inside the block at this position.
[[nodiscard]] bool is_tail_key(const Step& step, const RequestState& r, GroupId group,
                               std::size_t position, std::uint64_t key);

/// The table of a request in a group; empty if the state shows none.
[[nodiscard]] inline const std::vector<BlockId>& table_of(const RequestState& r, GroupId group) {
  static const std::vector<BlockId> kNone;
  return group < r.tables.size() ? r.tables[group] : kNone;
}

[[nodiscard]] inline std::uint32_t progress_of(const RequestState& r, GroupId group) {
  return group < r.progress.size() ? r.progress[group].value_or(0) : 0;
}

/// Whether the tables of a request are as long as what was granted needs, in either tier.
[[nodiscard]] Finding check_lengths(const Step& step, const RequestState& r,
                                    const RequestRecord& record);

/// The positions of a request in a group that the operation of this step recycled.
[[nodiscard]] inline Recycled recycled_in(const Step& step, const RequestState& was,
                                          const RequestState& now, GroupId group) {
  const auto* recycle = std::get_if<op::Recycle>(&step.operation);
  if (recycle == nullptr && !step.history.asked) return {};
  const RequestRecord* record = own_record(step);
  const Passed passed{recycle != nullptr ? recycle->processed : step.history.asked->processed,
                      record != nullptr ? record->prompt_tokens : 0U};
  return recycled_between(step.config, group, passed, table_of(was, group), table_of(now, group));
}

/// The copies of a grant that replaced entries of this group's table, in order.
[[nodiscard]] std::vector<Copy> copies_of(const Step& step, const RequestState& was,
                                          const RequestState& now, GroupId group);

/// The copies that a group needs before tokens [from, slots) are written: positions in that range
/// that are not published and have another holder. [positions]
[[nodiscard]] std::vector<std::size_t> shared_in_range(const Step& step, const RequestState& r,
                                                       GroupId group, std::uint64_t from,
                                                       std::uint64_t slots);

/// How many holders of a block may write into it, or read what they would write.
[[nodiscard]] std::int64_t writers_of(const Snapshot& state, BlockId block);

/// Whether a lookup of so many tokens may find the block of this position under the key.
[[nodiscard]] bool is_found_key(const Step& step, const RequestState& r, GroupId group,
                                std::size_t position, std::uint64_t hit_tokens, std::uint64_t key);

/// Whether the block carries a key under which such a lookup may find it.
[[nodiscard]] bool carries_found_key(const Step& step, const Snapshot& state, const RequestState& r,
                                     GroupId group, std::size_t position, std::uint64_t hit_tokens,
                                     BlockId block);

/// Whether every block that a lookup found still carries the content that it was found for.
[[nodiscard]] bool still_published(const Step& step, const RequestState& r,
                                   const FoundPrefix& found);

/// The checks of a single pool. The rows about the device and the row about the host call them.
namespace pool_law {
Finding queue_walks(const PoolState& pool);
Finding queued_iff_unheld(const PoolState& pool, const PoolTally& tally);
Finding links(const PoolState& pool, const PoolTally& tally);
Finding null_block(const PoolState& pool, const PoolTally& tally);
Finding conservation(const PoolState& pool);
/// @param superseded blocks that need not be listed, shape [num_blocks] or empty
Finding index_matches_blocks(const PoolState& pool, const PoolTally& tally,
                             const std::vector<std::uint8_t>& superseded = {});
Finding usage_ratio(const PoolState& pool);
}  // namespace pool_law

}  // namespace kvproof::properties
