// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/decode.h"

#include <algorithm>
#include <utility>

#include "optimized/pool/vllm_hashing.h"
#include "reference/contract.h"

namespace kvproof::optimized {

template <class Digest>
Decode<Digest>::Decode(const CacheConfig& config, const Capacity& capacity, BlockPool<Key>& pool,
                       std::span<const Group> groups, RequestTable<Digest>& requests,
                       const Copies& copies, std::optional<ExactContents>& exact,
                       ThreeCalls three_calls)
    : in_turn_(config.hash_lookahead > 0),
      plain_(groups.size() == 1 && groups.front().plain() && pool.plain() && !capacity.exact_hits),
      block_size_(groups.front().block_size()),
      pool_(pool),
      groups_(groups),
      requests_(requests),
      copies_(copies),
      exact_(exact),
      three_calls_(std::move(three_calls)),
      batch_(capacity.max_requests, groups.size()) {}

// ---- one request --------------------------------------------------------------------------------

template <class Digest>
Admission Decode<Digest>::step(RequestId id, const Step& next) {
  const HotRequest<Key>& r = requests_[id];
  std::uint32_t taken = 0;  // [blocks]
  if (plain_ && step_plain(r, id, next, [&](BlockId) { taken = 1; })) return taken;
  const std::span<GroupTable> own(requests_.tables(id), groups_.size());
  const std::uint32_t computed = requests_.computed(id);
  std::uint32_t missing = 0;  // [blocks]
  for (std::size_t g = 0; g < own.size(); ++g) {
    if (computed >= own[g].recycle_at) {
      groups_[g].recycle_due(own[g], computed, r.prompt_tokens, pool_);
    }
    if (next.slots > own[g].slots_end) missing += groups_[g].missing(own[g], next.slots);
  }
  if (missing > pool_.num_free()) {
    ++pool_.counters().refusals;
    return Admission::refused();
  }
  for (std::size_t g = 0; g < own.size(); ++g) {
    own[g].grown_from = own[g].length;
    if (next.slots <= own[g].slots_end) continue;
    groups_[g].append(own[g], groups_[g].missing(own[g], next.slots), pool_);
  }
  if (exact_) exact_->note_complete(requests_, id, own.front(), next.complete, pool_);
  std::uint32_t work_at = r.work_at();
  for (std::size_t g = 0; g < own.size(); ++g) {
    if (next.complete >= own[g].publish_end) {
      groups_[g].publish_due(own[g], r, next.complete, pool_);
    }
    work_at = std::min(work_at, own[g].work_at());
  }
  requests_.limit(id, work_at);
  audit();
  return missing;
}

template <class Digest>
template <class Taken>
[[gnu::always_inline]] inline bool Decode<Digest>::step_plain(const HotRequest<Key>& r,
                                                              RequestId id, const Step& next,
                                                              const Taken& taken) {
  GroupTable& table = *r.tables;
  if (next.slots > table.slots_end) {
    if (next.slots - table.slots_end > block_size_ || pool_.num_free() == 0) [[unlikely]]
      return false;
    taken(Group::append_plain(table, block_size_, pool_));
  }
  if (next.complete >= table.publish_end) {
    Group::publish_plain(table, r, block_size_, pool_);
    if (next.complete >= table.publish_end) [[unlikely]]
      groups_.front().publish(table, Group::content_of(r), next.complete, pool_);
  }
  requests_.limit(id, std::min({table.slots_end, table.publish_end - 1, r.capacity}));
  audit();
  return true;
}

// ---- a batch ------------------------------------------------------------------------------------

// The steps that only write a token come first: they touch nothing that another request reads, and
// none of them comes before a step of the same request that is due.
template <class Digest>
const DecodeGrant& Decode<Digest>::batch(std::span<const RequestId> ids,
                                         std::span<const TokenId> tokens) {
  std::uint32_t* const places = batch_.places(ids.size());
  BatchDue found;
  if (in_turn_) {
    while (found.count < ids.size() && ids[found.count] < requests_.size()) {
      places[found.count] = static_cast<std::uint32_t>(found.count) | BatchDue::kUnwritten;
      ++found.count;
    }
    found.reached = found.count;
    found.written = false;
  } else {
    found = requests_.write_all(ids, tokens.data(), places);
  }
  const std::span<const std::uint32_t> due(places, found.count);
  if (!found.written || found.reached < ids.size()) [[unlikely]]
    check(ids, due, found.reached);
  batch_.start();
  if (!plain_ || !found.written) {
    for (const std::uint32_t place : due) {
      const std::uint32_t index = place & ~BatchDue::kUnwritten;
      if (index != place && requests_.step_one(ids[index], tokens[index])) continue;
      step_any(ids[index], tokens[index], index, index == place);
    }
    return batch_.finish();
  }
  for (const std::uint32_t index : due) {
    const RequestId id = ids[index];
    HotRequest<Key>& r = requests_[id];
    const std::uint32_t known = requests_.computed(id) + 1;
    requests_.hash_next(r, id);
    const auto taken = [&](BlockId block) { batch_.take({index, 0, block}); };
    if (step_plain(r, id, {known, known}, taken)) [[likely]] {
      --r.ahead;
    } else {
      step_any(id, tokens[index], index, true);
    }
  }
  return batch_.finish();
}

template <class Digest>
void Decode<Digest>::step_any(RequestId id, TokenId token, std::uint32_t index, bool written) {
  const std::size_t copies = copies_.list().size();
  Admission admission = Admission::refused();
  if (written) {
    HotRequest<Key>& r = requests_[id];
    requests_.hash_next(r, id);
    const std::uint32_t known = requests_.computed(id) + 1;
    admission = step(id, {known, known});
    if (admission) --r.ahead;
  } else {
    admission = three_calls_(id, token);
  }
  if (!admission) return batch_.refuse(index);
  if (*admission == 0) return;
  const std::span<const GroupTable> own(requests_.tables(id), groups_.size());
  for (const BlockCopy& copy : copies_.list().subspan(copies)) {
    const auto table = own[copy.group].table();  // a state that goes on stays where it is
    if (std::ranges::find(table, copy.to) != table.end()) {
      batch_.take({index, copy.group, copy.to});
    }
  }
  for (const Group& group : groups_) {
    for (const BlockId block : own[group.id()].growth()) batch_.take({index, group.id(), block});
  }
}

// What cannot be told from the tokens that were written: whether the steps can be made whose tokens
// the three calls will write, and what is wrong where the writing ended.
template <class Digest>
void Decode<Digest>::check(std::span<const RequestId> ids, std::span<const std::uint32_t> due,
                           std::size_t reached) {
  const auto check_room = [&](RequestId id, std::uint64_t before) {
    const std::uint32_t capacity = requests_.live(id).capacity;
    expects(requests_.num_tokens(id) + before < capacity, Breach::capacity, kBeyondCapacity);
  };
  try {
    for (std::size_t k = 0; k < due.size(); ++k) {
      if ((due[k] & BatchDue::kUnwritten) == 0) continue;
      const auto id_of = [&](std::uint32_t i) { return ids[i & ~BatchDue::kUnwritten]; };
      const RequestId id = id_of(due[k]);
      if (requests_.num_tokens(id) + k >= requests_.live(id).capacity) {
        check_room(id, static_cast<std::uint64_t>(std::ranges::count(due.first(k), id, id_of)));
      }
      requests_.resident(id);
    }
    if (reached < ids.size()) check_room(ids[reached], 0);
  } catch (...) {
    requests_.undo(ids.first(reached), due);
    throw;
  }
}

template <class Digest>
void Decode<Digest>::audit() const {
#if defined(KVPROOF_AUDIT)
  pool_.audit();
#endif
}

template class Decode<Xxh3Digest>;
template class Decode<Sha256Digest>;
template class Decode<WeakDigest>;
template class Decode<VllmSha256Digest>;
template class Decode<VllmSha256CborDigest>;

}  // namespace kvproof::optimized
