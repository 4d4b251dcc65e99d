// SPDX-License-Identifier: Apache-2.0
// The fault host's swaps between the device pool and the host pool.
#include <algorithm>
#include <utility>

#include "properties/mutants/fault_host.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// Both sides are held until the transfer is complete. @return nullopt when the other side is short
std::optional<Granted> FaultHost::start_copies(const std::vector<Blocks>& source,
                                               const FaultHostPool& from, FaultHostPool& to,
                                               std::vector<Blocks>& target) {
  Blocks twins;
  std::uint64_t missing = 0;
  target = source;
  for (GroupId g = 0; g < target.size(); ++g) {
    for (BlockId& block : target[g]) {
      if (block == kNullBlock) continue;
      const FaultHostPool::Block& b = from[block];
      const auto twin = b.hashed ? to.find_tier(g, b.key.tier_hash) : std::nullopt;
      block = twin.value_or(kNullBlock);
      if (twin) {
        twins.push_back(*twin);
      } else {
        ++missing;
      }
    }
  }
  Blocks distinct = twins;
  std::uint64_t queued = to.queued(distinct);
  const bool loads = &to == &pool_;
  if (loads && is("swap_in_ignores_queued_twins")) queued = 0;
  if (missing + queued > to.free().size()) {
    if (is("refused_load_touches_twins")) {
      to.touch(twins);
      to.release(twins);
    }
    return std::nullopt;
  }
  to.touch(twins);
  Granted out;
  for (std::size_t g = 0; g < source.size(); ++g) {
    for (std::size_t i = 0; i < source[g].size(); ++i) {
      if (source[g][i] == kNullBlock || target[g][i] != kNullBlock) continue;
      target[g][i] = to.take(1).front();
      out.copies.push_back({source[g][i], target[g][i]});
    }
  }
  return out;
}

Result FaultHost::run(const op::SwapOut& o) {
  sequence(o.req);
  require(transfers_.count(o.transfer) == 0 && !o.transfer.empty(),
          "duplicate_transfer: a transfer in use");
  Sequence& s = resident(o.req);
  require(host_.size() > 0, "not_supported: no host tier");
  std::vector<Blocks> tables;
  for (const Table& table : s.tables) tables.push_back(table.blocks);
  require(std::any_of(tables.begin(), tables.end(), [](const Blocks& b) { return !b.empty(); }),
          "not_in_transfer: swap out of a request without blocks");
  std::vector<Blocks> target;
  std::optional<Granted> granted = start_copies(tables, pool_, host_, target);
  if (!granted) {
    if (is("refused_store_frees_source")) free_tables(s);
    return Refused{};
  }
  if (is("store_source_not_held")) {
    for (const Blocks& table : tables) pool_.release(without_null(reversed(table)));
  }
  s.host = target;
  s.transfer = o.transfer;
  transfers_[o.transfer] = {o.req, true};
  return *granted;
}

Result FaultHost::run(const op::SwapIn& o) {
  Sequence& s = sequence(o.req);
  if (is("load_does_not_wait") && !s.transfer.empty() && transfers_[s.transfer].out) {
    transfers_.erase(s.transfer);
    settle_out(s, true);
    s.transfer.clear();
  }
  require(transfers_.count(o.transfer) == 0 && !o.transfer.empty(),
          "duplicate_transfer: a transfer in use");
  require(s.transfer.empty(), "in_transfer: a transfer is in flight");
  require(!s.host.empty(), "not_in_transfer: the request is not swapped out");
  std::vector<Blocks> target;
  std::optional<Granted> granted = start_copies(s.host, host_, pool_, target);
  if (!granted) return Refused{};
  if (is("load_source_not_held")) {
    for (const Blocks& table : s.host) host_.release(without_null(reversed(table)));
  }
  for (GroupId g = 0; g < s.tables.size(); ++g) s.tables[g].blocks = target[g];
  s.transfer = o.transfer;
  transfers_[o.transfer] = {o.req, false};
  return *granted;
}

Result FaultHost::run(const op::Complete& o) {
  const auto at = transfers_.find(o.transfer);
  require(at != transfers_.end(), "unknown_transfer: no such transfer is in flight");
  Sequence& s = sequence(at->second.req);
  if (at->second.out) {
    settle_out(s, o.ok);
  } else {
    settle_in(s, o.ok || is("failed_load_counts"));
  }
  s.transfer.clear();
  transfers_.erase(at);
  return {};
}

void FaultHost::settle_out(Sequence& s, bool ok) {
  if (!ok) {
    if (is("failed_store_frees_source")) free_tables(s);
    return free_host(s);
  }
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    Table& table = s.tables[g];
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      const FaultHostPool::Block& b = pool_[table.blocks[i]];
      const BlockId twin = s.host[g][i];
      if (!b.hashed || twin == kNullBlock || host_[twin].hashed) continue;
      if (is("store_frees_duplicate") && host_.find(g, b.key.hash)) {
        host_.release({twin});
        continue;
      }
      host_.publish(twin, b.key);
    }
    Blocks held = reversed(table.blocks);
    if (!is("swap_out_queues_null")) held = without_null(held);
    const bool wrong_tier =
        is("swap_releases_to_other_tier") &&
        std::all_of(held.begin(), held.end(), [&](BlockId b) { return b < host_.size(); });
    if (!is("store_source_not_held")) (wrong_tier ? host_ : pool_).release(held);
    table.blocks.clear();
    table.found.clear();
    s.host_cached.push_back(std::exchange(table.cached, std::nullopt));
  }
  s.found_tokens = 0;
}

// Blocks that carry a key on the host can be found in the device pool again.
void FaultHost::settle_in(Sequence& s, bool ok) {
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    Table& table = s.tables[g];
    if (!ok) {
      const bool forgotten = is("failed_load_frees_one_group") && g > 0;
      if (!forgotten) pool_.release(without_null(reversed(table.blocks)));
      table.blocks.clear();
      continue;
    }
    table.cached = s.host_cached[g];
    event::Stored stored{g, 0, 0, {}};
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      const FaultHostPool::Block& twin = host_[s.host[g][i]];
      if (!twin.hashed || pool_[table.blocks[i]].hashed) continue;
      pool_.publish(table.blocks[i], twin.key);
      stored.to = twin.key.prefix_tokens;
      stored.blocks.push_back({table.blocks[i], stored.to});
    }
    if (!stored.blocks.empty()) pool_.events().emplace_back(std::move(stored));
  }
  if (!ok) return;
  if (is("load_source_not_held")) {
    s.host.clear();
    s.host_cached.clear();
  }
  free_host(s);
}

}  // namespace kvproof::properties
