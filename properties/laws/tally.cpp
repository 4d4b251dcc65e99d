// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/tally.h"

namespace kvproof::properties {

void PoolTally::add(std::vector<std::uint32_t>& counts, BlockId block, const char* place) {
  if (block < counts.size()) {
    ++counts[block];
  } else if (!stray) {
    stray = Stray{place, block};
  }
}

void PoolTally::count_pool(const PoolState& state) {
  stray.reset();
  for (auto* counts : {&queued, &tabled, &indexed}) counts->assign(state.blocks.size(), 0);
  for (BlockId block : state.queue) add(queued, block, "the free queue");
  for (const IndexEntry& entry : state.index) {
    for (BlockId block : entry.blocks) add(indexed, block, "the prefix index");
  }
}

void Tally::count(const Snapshot& state) {
  repeat.reset();
  two_groups.reset();
  count_pool(state);
  host.count_pool(state.host);
  for (auto* counts : {&sharers, &raw, &leased, &copying, &table_group, &last_holder_}) {
    counts->assign(state.blocks.size(), 0);
  }
  for (BlockId block : state.raw) add(raw, block, "the raw owner's references");
  for (BlockId block : state.copying) add(copying, block, "a copy");
  for (const LeaseState& lease : state.leases) {
    for (BlockId block : lease.blocks) add(leased, block, "a lease");
  }
  count_tables(state);
}

void Tally::count_tables(const Snapshot& state) {
  for (std::size_t r = 0; r < state.requests.size(); ++r) {
    const auto holder = static_cast<std::uint32_t>(r) + 1;
    const auto& tables = state.requests[r].tables;
    for (std::size_t g = 0; g < tables.size(); ++g) {
      for (BlockId block : tables[g]) {
        add(tabled, block, "a block table");
        if (block >= last_holder_.size() || block == kNullBlock) continue;
        const auto group = static_cast<std::uint32_t>(g) + 1;
        if (table_group[block] != 0 && table_group[block] != group && !two_groups) {
          two_groups = block;
        }
        table_group[block] = group;
        if (last_holder_[block] != holder) {
          last_holder_[block] = holder;
          ++sharers[block];
        } else if (!repeat) {
          repeat = Repeat{r, block};
        }
      }
    }
    for (const auto& table : state.requests[r].host_tables) {
      for (BlockId block : table) host.add(host.tabled, block, "a host table");
    }
  }
}

}  // namespace kvproof::properties
