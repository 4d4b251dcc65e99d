// SPDX-License-Identifier: Apache-2.0
// The law of the order of the free queue: it is the eviction order, so the effect of every
// operation on it is fixed.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "properties/laws/pool_replay.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

using Blocks = std::vector<BlockId>;

Finding not_from_head(const Blocks& queue, BlockId block) {
  return say("block ", block, " was taken from a queue whose head was ", list_of(queue));
}

Finding take_all(PoolReplay& pool, std::span<const BlockId> blocks) {
  for (BlockId block : blocks) {
    if (!pool.take(block)) return not_from_head(pool.queue(), block);
  }
  return std::nullopt;
}

std::span<const BlockId> part(const Blocks& table, std::uint64_t from, std::uint64_t to) {
  const auto end = static_cast<std::size_t>(std::min<std::uint64_t>(to, table.size()));
  const auto begin = static_cast<std::size_t>(std::min<std::uint64_t>(from, end));
  return std::span(table).subspan(begin, end - begin);
}

// Out-of-window blocks first, then all hits before any taking, then external and new blocks group
// by group. A state that moved to the end is not new.
Finding replay_allocation(const Step& step, const RequestState& was, const RequestState& now,
                          PoolReplay& pool) {
  const Extent& asked = *step.history.asked;
  const std::size_t groups = std::min(asked.groups.size(), step.config.groups.size());
  for (GroupId g = 0; g < groups; ++g) {
    pool.recycle(table_of(was, g), recycled_in(step, was, now, g));
  }
  for (GroupId g = 0; asked.starts && g < groups; ++g) {
    const std::uint64_t shared = step.history.tail_copies[g] ? 1 : 0;  // the table has the copy
    const auto hit =
        part(table_of(now, g), asked.groups[g].skipped, asked.groups[g].begun - shared);
    for (BlockId block : hit) pool.touch(block);
    if (shared > 0) pool.touch(step.history.tail_copies[g]->from);
  }
  for (GroupId g = 0; g < groups; ++g) {
    const auto loaded = part(table_of(now, g), asked.groups[g].begun, asked.groups[g].loaded);
    if (auto finding = take_all(pool, loaded)) return finding;
  }
  for (GroupId g = 0; g < groups; ++g) {
    const Blocks& table = table_of(now, g);
    for (const Copy& copy : copies_of(step, was, now, g)) {
      if (!pool.take(copy.to)) return not_from_head(pool.queue(), copy.to);
      pool.release(std::span(&copy.from, 1));
    }
    if (const auto& copy = step.history.tail_copies[g]) {
      if (!pool.take(copy->to)) return not_from_head(pool.queue(), copy->to);
      pool.touch(asked.starts ? copy->to : copy->from);  // until the copy has run
    }
    const auto grown = part(table, asked.groups[g].loaded, table.size());
    // Of moving states, nulls and drafts come first; new blocks stand last.
    const auto fresh =
        static_cast<std::size_t>(std::min<std::uint64_t>(asked.groups[g].fresh, grown.size()));
    if (auto finding = take_all(pool, grown.last(fresh))) return finding;
  }
  return std::nullopt;
}

// Blocks that the device already has under their keys are held first, then copies are taken.
Finding replay_swap_in(const Step& step, const RequestState& now, PoolReplay& pool) {
  const auto& copies = std::get<Granted>(step.outcome.result).copies;
  for (const Blocks& table : now.tables) {
    for (BlockId block : table) {
      if (std::ranges::find(copies, block, &Copy::to) == copies.end()) pool.touch(block);
    }
  }
  for (const Copy& copy : copies) {
    if (!pool.take(copy.to)) return not_from_head(pool.queue(), copy.to);
  }
  return std::nullopt;
}

void replay_release(const Step& step, const RequestState& was, PoolReplay& pool) {
  const RequestState* now = own_after(step);
  const bool shrinks = std::holds_alternative<op::Truncate>(step.operation);
  for (GroupId g = 0; g < was.tables.size(); ++g) {
    const std::size_t kept = shrinks && now != nullptr ? table_of(*now, g).size() : 0;
    pool.release_backward(part(was.tables[g], kept, was.tables[g].size()));
  }
}

/// The request whose tables this operation releases, as a whole or in part; nullptr if it releases
/// none.
const RequestState* released_by(const Step& step) {
  const Operation& o = step.operation;
  if (std::holds_alternative<op::Free>(o) || std::holds_alternative<op::Finish>(o) ||
      std::holds_alternative<op::Truncate>(o)) {
    return own_before(step);
  }
  const auto* complete = std::get_if<op::Complete>(&o);
  const auto& settled = step.history.book.settled();
  if (complete == nullptr || !settled || settled->out != complete->ok) return nullptr;
  return own_before(step);
}

Finding replay(const Step& step, PoolReplay& pool) {
  const Operation& o = step.operation;
  const bool granted = std::holds_alternative<Granted>(step.outcome.result);
  const RequestState* was = own_before(step);
  const RequestState* now = own_after(step);
  if (std::holds_alternative<op::Allocate>(o)) {
    if (granted && was != nullptr && now != nullptr && step.history.asked) {
      return replay_allocation(step, *was, *now, pool);
    }
  } else if (std::holds_alternative<op::Take>(o)) {
    const auto* answer = std::get_if<Granted>(&step.outcome.result);
    if (answer != nullptr && !answer->blocks.empty()) return take_all(pool, answer->blocks.front());
  } else if (std::holds_alternative<op::SwapIn>(o)) {
    if (granted && now != nullptr) return replay_swap_in(step, *now, pool);
  } else if (std::holds_alternative<op::Fork>(o) && granted) {
    for (const Copy& copy : std::get<Granted>(step.outcome.result).copies) {
      if (!pool.take(copy.to)) return not_from_head(pool.queue(), copy.to);
    }
  } else if (std::holds_alternative<op::Recycle>(o)) {
    for (GroupId g = 0; was != nullptr && now != nullptr && g < step.config.groups.size(); ++g) {
      pool.recycle(table_of(*was, g), recycled_in(step, *was, *now, g));
    }
  } else if (std::holds_alternative<op::Step>(o)) {
    pool.release(step.history.copied);
  } else if (const auto* touch = std::get_if<op::Touch>(&o)) {
    for (BlockId block : touch->blocks) pool.touch(block);
  } else if (const auto* pin = std::get_if<op::Pin>(&o)) {
    for (BlockId block : pin->blocks) pool.touch(block);
  } else if (const auto* release = std::get_if<op::Release>(&o)) {
    pool.release(release->blocks);
  } else if (const auto* unpin = std::get_if<op::Unpin>(&o)) {
    for (const LeaseState& lease : step.before.leases) {
      if (lease.name == unpin->lease) pool.release_backward(lease.blocks);
    }
  } else if (const RequestState* released = released_by(step)) {
    replay_release(step, *released, pool);
  }
  return std::nullopt;
}

}  // namespace

Finding free_order(const Step& step) {
  if (std::holds_alternative<Refused>(step.outcome.result) || is_undone(step.outcome.result)) {
    return std::nullopt;  // I20
  }
  PoolReplay pool(step.config, step.before);
  if (auto finding = replay(step, pool)) return finding;
  if (pool.queue() == step.after.queue) return std::nullopt;
  return say("the queue went from ", list_of(step.before.queue), " to ", list_of(step.after.queue),
             " instead of ", list_of(pool.queue()));
}

extern const Scenes free_order_scenes = {
    {"released parents first", play::share_and_finish,
     [](Scene& s) { std::swap(s.after.queue[0], s.after.queue[1]); }},
    {"not taken from the head", play::share, [](Scene& s) { s.after.queue = {4}; }},
    {"queue moved without cause", play::look_up, [](Scene& s) { s.after.queue.push_back(2); }},
    {"copies ended request by request", play::end_copies,
     [](Scene& s) { std::swap(s.after.queue.end()[-2], s.after.queue.end()[-3]); },
     with::both_inside},
    {"recycled to the wrong end", play::recycle,
     [](Scene& s) { std::ranges::reverse(s.after.queue); }, with::window},
};

}  // namespace kvproof::properties::law
