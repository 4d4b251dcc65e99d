// SPDX-License-Identifier: Apache-2.0
// Holders of blocks in the fault host besides the table of a request: the raw owner, forks, leases.
#include <algorithm>
#include <utility>

#include "properties/mutants/fault_host.h"
#include "reference/operations.h"

namespace kvproof::properties {

Result FaultHost::run(const op::Take& o) {
  std::size_t usable = pool_.free().size();
  if (is("take_without_evicting")) {
    usable = static_cast<std::size_t>(std::count_if(pool_.free().begin(), pool_.free().end(),
                                                    [&](BlockId b) { return !pool_[b].hashed; }));
  }
  if (o.n > usable) return Refused{};
  Blocks out = pool_.take(o.n);
  raw_.insert(raw_.end(), out.begin(), out.end());
  return Granted{{std::move(out)}};
}

Result FaultHost::run(const op::Touch& o) {
  for (BlockId block : o.blocks) {
    require(block != kNullBlock && block < pool_.size(), "block_out_of_range: touch of no block");
  }
  pool_.touch(o.blocks);
  raw_.insert(raw_.end(), o.blocks.begin(), o.blocks.end());
  return {};
}

Result FaultHost::run(const op::Release& o) {
  Blocks left = raw_;
  for (BlockId block : o.blocks) {
    const auto held = std::find(left.begin(), left.end(), block);
    require(held != left.end(), "not_held: release of a block that is not held");
    left.erase(held);
  }
  raw_ = std::move(left);
  pool_.release(o.blocks);
  return {};
}

Result FaultHost::run(const op::Fork& o) {
  sequence(o.req);
  require(sequences_.count(o.child) == 0, "duplicate_request: fork to a name in use");
  const Sequence& named = resident(o.req);
  const bool has_state =
      std::any_of(config_.groups.begin(), config_.groups.end(),
                  [](const GroupConfig& group) { return group.kind == LayerKind::mamba; });
  require(!has_state, "not_supported: fork of a running state");
  Sequence child = is("fork_of_first_request") ? sequences_.begin()->second : named;
  for (Table& table : child.tables) {
    pool_.touch(table.blocks);
    if (is("fork_counts_entries")) pool_.touch(table.found);  // they are in the table, too
    table.found.clear();
  }
  child.found_tokens = 0;
  sequences_.emplace(o.child, std::move(child));
  return {};
}

Result FaultHost::run(const op::Truncate& o) {
  Sequence& s = resident(o.req);
  const auto grows = [&](GroupId g) { return config_.groups[g].kind != LayerKind::mamba; };
  const auto kept = [&](GroupId g) {
    const std::size_t block_size = config_.groups[g].block_size;
    if (is("truncate_rounds_down")) return o.tokens / block_size;
    return ceil_div<std::size_t>(o.tokens, block_size);
  };
  require(o.tokens >= s.computed, "published_tail: truncate below the computed tokens");
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    require(!grows(g) || kept(g) >= s.tables[g].cached.value_or(0),
            "published_tail: truncate below what is published");
  }
  for (GroupId g = 0; g < s.tables.size(); ++g) {
    Blocks& table = s.tables[g].blocks;
    if (!grows(g) || kept(g) >= table.size()) continue;
    const auto end = table.begin() + static_cast<std::ptrdiff_t>(kept(g));
    pool_.release(without_null(reversed({end, table.end()})));
    table.erase(end, table.end());
    const std::uint32_t unit = config_.groups[g].block_size;
    if (is("truncate_shrinks_capacity") && s.lost_capacity + 1 < unit) ++s.lost_capacity;
  }
  return {};
}

Result FaultHost::run(const op::Pin& o) {
  require(leases_.count(o.lease) == 0, "duplicate_lease: pin under a lease in use");
  for (BlockId block : o.blocks) {
    require(block != kNullBlock && block < pool_.size(), "block_out_of_range: pin of no block");
  }
  for (BlockId block : o.blocks) {
    require(pool_[block].refs > 0 || pool_[block].hashed,
            "no_content: pin of a free block without content");
  }
  Blocks held = o.blocks;
  for (BlockId& block : held) {
    const FaultHostPool::Block& b = pool_[block];
    if (is("pin_holds_oldest_copy") && b.hashed) {
      block = pool_.find(b.key.group, b.key.hash).value_or(block);
    }
  }
  if (!is("pin_takes_no_reference")) pool_.touch(held);
  since_pin_ = 0;
  leases_.emplace(o.lease, is("pin_holds_oldest_copy") ? o.blocks : held);
  return {};
}

Result FaultHost::run(const op::Unpin& o) {
  const auto at = leases_.find(o.lease);
  require(at != leases_.end(), "unknown_lease: unpin of a lease that was not given");
  if (is("unpin_drops_twice_clamped")) {
    for (BlockId block : at->second) {
      if (pool_[block].refs > 1) --pool_[block].refs;  // never below one: "as a hack"
    }
  }
  if (!is("pin_takes_no_reference")) pool_.release(reversed(at->second));
  leases_.erase(at);
  return {};
}

}  // namespace kvproof::properties
