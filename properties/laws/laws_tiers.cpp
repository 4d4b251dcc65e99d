// SPDX-License-Identifier: Apache-2.0
// The law of swaps between the two tiers.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

using Tables = std::vector<std::vector<BlockId>>;

// Both sides name the same positions, and no copy is known by a key before it has arrived.
Finding check_in_flight(const Step& step, const TransferRecord& transfer) {
  const RequestState* r = step.after.find(transfer.req);
  if (r == nullptr) return say("request ", Named{transfer.req}, " is gone while in transfer");
  if (r->tables.size() != r->host_tables.size()) {
    return say("request ", Named{r->name}, " in transfer shows ", r->tables.size(), " tables and ",
               r->host_tables.size(), " host tables");
  }
  for (std::size_t g = 0; g < r->tables.size(); ++g) {
    if (r->tables[g].size() != r->host_tables[g].size()) {
      return say("request ", Named{r->name}, " in transfer has ", list_of(r->tables[g]),
                 " on the device and ", list_of(r->host_tables[g]), " in the host tier");
    }
    for (std::size_t i = 0; i < r->tables[g].size(); ++i) {
      if ((r->tables[g][i] == kNullBlock) != (r->host_tables[g][i] == kNullBlock)) {
        return say("position ", TableEntry{i}, " of ", Named{r->name}, " is null in one tier only");
      }
    }
  }
  return std::nullopt;
}

// Each position is copied, or both sides carry the same key for it.
Finding check_started(const Step& step, const RequestState& r, const Granted& granted, bool out) {
  const Tables& from = out ? r.tables : r.host_tables;
  const Tables& to = out ? r.host_tables : r.tables;
  const PoolState& source = out ? static_cast<const PoolState&>(step.before) : step.before.host;
  const PoolState& target = out ? step.before.host : static_cast<const PoolState&>(step.before);
  auto copy = granted.copies.begin();
  for (std::size_t g = 0; g < from.size() && g < to.size(); ++g) {
    for (std::size_t i = 0; i < from[g].size() && i < to[g].size(); ++i) {
      const Copy pair{from[g][i], to[g][i]};
      if (pair.from == kNullBlock) continue;
      if (copy != granted.copies.end() && *copy == pair) {
        ++copy;
        continue;
      }
      const bool known = pair.from < source.blocks.size() && pair.to < target.blocks.size();
      if (!known || !source.blocks[pair.from].hashed || !target.blocks[pair.to].hashed ||
          source.blocks[pair.from].key != target.blocks[pair.to].key) {
        return say("position ", TableEntry{i}, " of ", Named{r.name}, " in group ", g,
                   " goes from block ", TierBlock{pair.from, !out}, " to block ",
                   TierBlock{pair.to, out}, " without a copy and without a common key");
      }
    }
  }
  if (copy == granted.copies.end()) return std::nullopt;
  return say("the swap of ", Named{r.name}, " copies block ", TierBlock{copy->from, !out}, " to ",
             TierBlock{copy->to, out}, ", which no position needs");
}

// A block that has arrived carries the key that its source had; on the device it may carry another
// key by then. The key of a prompt that ends inside a block stays behind.
Finding check_landed(const Step& step, const RequestState& was, bool out) {
  const PoolState& device = step.before;
  const PoolState& from = out ? device : step.before.host;
  const PoolState& to = out ? step.after.host : static_cast<const PoolState&>(step.after);
  const Tables& source = out ? was.tables : was.host_tables;
  const Tables& target = out ? was.host_tables : was.tables;
  for (std::size_t g = 0; g < source.size() && g < target.size(); ++g) {
    for (std::size_t i = 0; i < source[g].size() && i < target[g].size(); ++i) {
      const BlockId block = source[g][i];
      const BlockId copy = target[g][i];
      if (block >= from.blocks.size() || copy >= to.blocks.size() || !from.blocks[block].hashed)
        continue;
      if (from.blocks[block].prefix_tokens % step.config.groups[g].block_size != 0) continue;
      if (!to.blocks[copy].hashed) {
        return say("position ", TableEntry{i}, " of ", Named{was.name}, " in group ", g,
                   " landed in block ", TierBlock{copy, out}, " without the key of block ",
                   TierBlock{block, !out});
      }
    }
  }
  return std::nullopt;
}

Finding check_settled(const Step& step, const TransferRecord& transfer, bool ok) {
  const RequestState* was = own_before(step);
  const RequestState* now = own_after(step);
  if (was == nullptr || now == nullptr) return std::nullopt;
  const bool stays_on_device = transfer.out != ok;
  const bool device_right = stays_on_device ? now->tables == was->tables : without_blocks(*now);
  const bool host_right =
      stays_on_device ? now->host_tables.empty() : now->host_tables == was->host_tables;
  if (device_right && host_right) {
    return ok ? check_landed(step, *was, transfer.out) : std::nullopt;
  }
  return say("after its swap ", transfer.out ? "out " : "in ", ok ? "" : "failed ",
             Named{now->name}, " has ", lists_of(now->tables), " on the device and ",
             lists_of(now->host_tables), " in the host tier");
}

/// Whether a swap of these tables finds the blocks that it needs: those to copy, and those of equal
/// content that wait in the queue.
bool fits(const Tables& tables, const PoolState& source, const PoolState& target) {
  std::uint64_t need = 0;
  for (const auto& table : tables) {
    for (const BlockId block : table) {
      if (block == kNullBlock || block >= source.blocks.size()) continue;
      const BlockState& from = source.blocks[block];
      const auto twin = std::ranges::find_if(target.index, [&](const IndexEntry& entry) {
        return from.hashed && entry.key == from.key && entry.group == from.group;
      });
      const bool held =
          twin != target.index.end() && target.blocks[twin->blocks.front()].ref_cnt > 0;
      need += held ? 0 : 1;
    }
  }
  return need <= target.num_free;
}

Finding check_refused(const Step& step, bool out) {
  const RequestState* r = step.before.find(request_of(step.operation));
  if (r == nullptr) return std::nullopt;
  const PoolState& device = step.before;
  const bool fit = out ? fits(r->tables, device, step.before.host)
                       : fits(r->host_tables, step.before.host, device);
  if (!fit) return std::nullopt;
  return say("the swap of ", Named{r->name}, " fits and was refused");
}

}  // namespace

Finding transfer_keeps_both(const Step& step) {
  for (const TransferRecord& transfer : step.history.book.transfers()) {
    if (auto finding = check_in_flight(step, transfer)) return finding;
  }
  const auto* complete = std::get_if<op::Complete>(&step.operation);
  if (complete != nullptr && step.history.book.settled()) {
    return check_settled(step, *step.history.book.settled(), complete->ok);
  }
  const bool out = std::holds_alternative<op::SwapOut>(step.operation);
  const bool in = std::holds_alternative<op::SwapIn>(step.operation);
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  if ((out || in) && std::holds_alternative<Refused>(step.outcome.result)) {
    return check_refused(step, out);
  }
  if (granted == nullptr || !(out || in)) return std::nullopt;
  const auto& transfers = step.history.book.transfers();
  if (std::ranges::count(transfers, request_of(step.operation), &TransferRecord::req) > 1) {
    return say(Named{request_of(step.operation)}, " is in two transfers at once");
  }
  const RequestState* r = own_after(step);
  if (r == nullptr) return std::nullopt;
  const RequestState* was = own_before(step);
  const bool kept =
      was == nullptr || ((out ? was->tables == r->tables : was->host_tables == r->host_tables) &&
                         was->progress == r->progress);
  if (!kept) return say("the start of a swap changed ", Named{r->name}, " where it was");
  if (!step.outcome.events.empty() && out) return say("a swap out was announced before it landed");
  return check_started(step, *r, *granted, out);
}

extern const Scenes transfer_keeps_both_scenes = {
    {"no block on the other side", play::swap_out, [](Scene& s) { host_table(s)[1] = 0; },
     with::two_tiers},
    {"position neither copied nor known", play::swap_out,
     [](Scene& s) { granted(s).copies.pop_back(); }, with::two_tiers},
    {"copied twice", play::swap_out,
     [](Scene& s) { granted(s).copies.push_back(granted(s).copies.back()); }, with::two_tiers},
    {"device let go too early", play::swap_out, [](Scene& s) { s.table(0).clear(); },
     with::two_tiers},
    {"still on the device", play::swapped_out,
     [](Scene& s) {
       s.table(0) = {1, 2, 3};
     },
     with::two_tiers},
    {"failure kept the host's blocks", play::swap_failed,
     [](Scene& s) {
       s.after.requests[0].host_tables = {{1, 2, 3}};
     },
     with::two_tiers},
    {"way back without a block", play::swap_in, [](Scene& s) { s.table(0)[2] = 0; },
     with::two_tiers},
    {"refused although it fits", play::swap_out, [](Scene& s) { s.outcome.result = Refused{}; },
     with::two_tiers},
    {"landed without its key", play::swapped_out,
     [](Scene& s) { s.after.host.blocks[1].hashed = false; }, with::two_tiers},
    {"two transfers of one request", play::swap_out_twice,
     [](Scene& s) { s.outcome.result = Granted{}; }, with::two_tiers},
};

}  // namespace kvproof::properties::law
