// SPDX-License-Identifier: Apache-2.0
// Laws of one state of a pool: the free queue, the counts, the null block. The laws of the device
// pool come first, then the law of the host pool.
#include <algorithm>
#include <cmath>

#include "properties/laws/law_scenes.h"

namespace kvproof::properties {
namespace {

Finding stray_text(const PoolTally::Stray& stray) {
  return say("block ", stray.block, " in ", stray.place, " is none of the pool's");
}

}  // namespace

namespace pool_law {

Finding queue_walks(const PoolState& s) {
  if (s.queue.size() != s.num_free) {
    return say("the counter says ", s.num_free, " free blocks, the queue lists ", s.queue.size());
  }
  if (s.queue_backward.size() != s.queue.size()) {
    return say("the queue lists ", s.queue.size(), " blocks from its head and ",
               s.queue_backward.size(), " from its tail");
  }
  if (!std::equal(s.queue.begin(), s.queue.end(), s.queue_backward.rbegin())) {
    return say("the queue is ", list_of(s.queue), " from its head and ", list_of(s.queue_backward),
               " from its tail");
  }
  for (BlockId block : s.queue) {
    if (block >= s.blocks.size()) return stray_text({"the free queue", block});
  }
  return std::nullopt;
}

Finding queued_iff_unheld(const PoolState& s, const PoolTally& tally) {
  if (tally.queued[kNullBlock] != 0) return say("the null block stands in the free queue");
  for (BlockId block = 1; block < s.blocks.size(); ++block) {
    const std::int64_t held = s.blocks[block].ref_cnt;
    const std::uint32_t queued = tally.queued[block];
    if (queued != (held == 0 ? 1U : 0U)) {
      return say("block ", block, " has ", held, " holders and stands ", queued,
                 " times in the free queue");
    }
  }
  return std::nullopt;
}

Finding links(const PoolState& s, const PoolTally& tally) {
  for (BlockId block = 0; block < s.blocks.size(); ++block) {
    const bool queued = tally.queued[block] > 0;
    const bool linked = s.blocks[block].linked;
    if (queued != linked) {
      return say("block ", block, linked ? " is linked but not" : " is not linked but",
                 " in the free queue");
    }
  }
  return std::nullopt;
}

Finding null_block(const PoolState& s, const PoolTally& tally) {
  const BlockState& null = s.blocks[kNullBlock];
  if (tally.queued[kNullBlock] != 0 || null.linked) return say("the null block is queued");
  if (null.hashed || null.tail_key) return say("the null block carries key ", null.key);
  if (tally.indexed[kNullBlock] != 0) return say("the prefix index lists the null block");
  return std::nullopt;
}

Finding conservation(const PoolState& s) {
  std::uint64_t held = 0;
  for (BlockId block = 1; block < s.blocks.size(); ++block) {
    held += s.blocks[block].ref_cnt != 0 ? 1 : 0;
  }
  if (s.num_free + held + 1 != s.blocks.size()) {
    return say(s.num_free, " free + ", held, " held + the null block are not the ", s.blocks.size(),
               " blocks of the pool");
  }
  return std::nullopt;
}

Finding usage_ratio(const PoolState& s) {
  const std::size_t usable = s.blocks.size() - 1;
  const double expected =
      usable == 0 ? 0.0 : 1.0 - static_cast<double>(s.num_free) / static_cast<double>(usable);
  if (!(s.usage >= 0.0 && s.usage <= 1.0) || std::abs(s.usage - expected) > 1e-12) {
    return say("usage is ", s.usage, " with ", s.num_free, " of ", usable, " blocks free");
  }
  return std::nullopt;
}

}  // namespace pool_law

namespace law {

Finding queue_walks(const Step& step) { return pool_law::queue_walks(step.after); }

extern const Scenes queue_walks_scenes = {
    {"counter too high", play::share, [](Scene& s) { ++s.after.num_free; }},
    {"backward walk differs", play::share_and_finish,
     [](Scene& s) { std::swap(s.after.queue_backward[0], s.after.queue_backward[1]); }},
    {"foreign id", play::share,
     [](Scene& s) { s.after.queue[0] = s.after.queue_backward.back() = 99; }},
};

Finding queued_iff_unheld(const Step& step) {
  return pool_law::queued_iff_unheld(step.after, step.history.tally);
}

extern const Scenes queued_iff_unheld_scenes = {
    {"held block queued", play::share, [](Scene& s) { s.after.queue.push_back(1); }},
    {"block queued twice", play::share, [](Scene& s) { s.after.queue.push_back(5); }},
    {"unheld block missing", play::share, [](Scene& s) { s.after.queue.clear(); }},
    {"null block queued", play::share, [](Scene& s) { s.after.queue.push_back(0); }},
};

Finding links(const Step& step) { return pool_law::links(step.after, step.history.tally); }

extern const Scenes links_scenes = {
    {"linked but not queued", play::share, [](Scene& s) { s.block(1).linked = true; }},
    {"queued but not linked", play::share, [](Scene& s) { s.block(5).linked = false; }},
};

Finding null_block(const Step& step) {
  return pool_law::null_block(step.after, step.history.tally);
}

extern const Scenes null_block_scenes = {
    {"null block hashed", play::share, [](Scene& s) { s.block(0).hashed = true; }},
    {"null block indexed", play::share, [](Scene& s) { s.after.index[0].blocks.push_back(0); }},
    {"null block queued", play::share, [](Scene& s) { s.after.queue.push_back(0); }},
};

Finding conservation(const Step& step) { return pool_law::conservation(step.after); }

extern const Scenes conservation_scenes = {
    {"a held block more", play::share, [](Scene& s) { s.block(5).ref_cnt = 1; }},
    {"a free block less", play::share, [](Scene& s) { --s.after.num_free; }},
};

Finding usage_ratio(const Step& step) { return pool_law::usage_ratio(step.after); }

extern const Scenes usage_ratio_scenes = {
    {"usage off", play::share, [](Scene& s) { s.after.usage += 0.01; }},
    {"usage above one", play::share, [](Scene& s) { s.after.usage = 1.5; }},
};

Finding references(const Step& step) {
  const Tally& tally = step.history.tally;
  if (tally.stray) return stray_text(*tally.stray);
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const std::int64_t count = step.after.blocks[block].ref_cnt;
    const std::int64_t named = std::int64_t{tally.tabled[block]} + tally.raw[block] +
                               tally.leased[block] + tally.copying[block];
    if (count != named) {
      std::string others;
      if (tally.raw[block] > 0) others += say(", ", tally.raw[block], " of them by the raw owner");
      if (tally.leased[block] > 0) others += say(", ", tally.leased[block], " by leases");
      if (tally.copying[block] > 0) others += say(", ", tally.copying[block], " by copies");
      return say("block ", block, " has ", count, " references, and is named ", named, " times",
                 others);
    }
  }
  return std::nullopt;
}

extern const Scenes references_scenes = {
    {"count too low", play::share, [](Scene& s) { s.block(1).ref_cnt = 1; }},
    {"negative count", play::share, [](Scene& s) { s.block(5).ref_cnt = -1; }},
    {"raw holder not counted", play::share, [](Scene& s) { s.after.raw.push_back(4); }},
    {"table names a foreign block", play::share, [](Scene& s) { s.table(0).push_back(77); }},
    {"lease not counted", play::pin, [](Scene& s) { s.after.leases.clear(); }},
};

// Never-held blocks stand ahead of all that hold content, so that taking one loses nothing.
Finding unhashed_before_hashed(const Step& step) {
  if (!step.config.enable_caching || step.history.queue_evicted) return std::nullopt;
  if (step.config.profile.caching_on != FreeOrder::unhashed_first) return std::nullopt;
  std::optional<BlockId> hashed;
  for (BlockId block : step.after.queue) {
    if (block >= step.history.num_blocks) continue;
    if (step.after.blocks[block].hashed) {
      hashed = block;
    } else if (hashed) {
      return say("block ", block, " has no key and stands behind block ", *hashed,
                 " that has one: ", list_of(step.after.queue));
    }
  }
  return std::nullopt;
}

extern const Scenes unhashed_before_hashed_scenes = {
    {"unhashed behind hashed", play::drained,
     [](Scene& s) { std::reverse(s.after.queue.begin(), s.after.queue.end()); }},
};

namespace {

using Tables = std::vector<std::vector<BlockId>>;

std::int64_t entries_of(const Tables& tables) {
  std::int64_t out = 0;
  for (const auto& table : tables) out += static_cast<std::int64_t>(table.size());
  return out;
}

/// An entry holds at most one block, and where there are none no block is held.
Finding check_held(const PoolState& pool, std::int64_t entries, const char* tier) {
  const std::int64_t held =
      static_cast<std::int64_t>(pool.blocks.size()) - 1 - std::int64_t{pool.num_free};
  if (pool.blocks.empty() || (held <= entries && (held == 0 || entries > 0))) return std::nullopt;
  return say(held, " blocks of the ", tier, " are not free, and tables name ", entries);
}

}  // namespace

// What is in flight stands in tables of both tiers.
Finding drained_is_free(const Step& step) {
  const Snapshot& s = step.after;
  auto device = static_cast<std::int64_t>(s.raw.size() + s.copying.size());
  std::int64_t host = 0;
  for (const LeaseState& lease : s.leases) device += static_cast<std::int64_t>(lease.blocks.size());
  for (const RequestState& r : s.requests) {
    device += entries_of(r.tables);
    host += entries_of(r.host_tables);
  }
  if (auto finding = check_held(s.host, host, "host tier")) return finding;
  if (auto finding = check_held(s, device, "device")) return finding;
  if (device > 0) return std::nullopt;
  for (const RequestState& r : s.requests) {
    const RequestRecord* record = record_of(step, r);
    if (record != nullptr && record->holds() && record->on_device) continue;  // it needed no swap
    if (!without_progress(r))
      return say("request ", Named{r.name}, " holds nothing but keeps progress");
  }
  return std::nullopt;
}

extern const Scenes drained_is_free_scenes = {
    {"leaked block", play::drained, [](Scene& s) { --s.after.num_free; }},
    {"more held than there are entries", play::admit_six, [](Scene& s) { --s.after.num_free; }},
    {"progress left", play::drained, [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"leaked host block", play::reset, [](Scene& s) { --s.after.host.num_free; }, with::two_tiers},
};

namespace {

Finding check_host(const PoolState& host, const PoolTally& tally) {
  if (tally.stray) return stray_text(*tally.stray);
  if (host.blocks.empty()) return std::nullopt;
  if (auto finding = pool_law::queue_walks(host)) return finding;
  if (auto finding = pool_law::queued_iff_unheld(host, tally)) return finding;
  if (auto finding = pool_law::links(host, tally)) return finding;
  if (auto finding = pool_law::null_block(host, tally)) return finding;
  if (auto finding = pool_law::conservation(host)) return finding;
  if (auto finding = pool_law::index_matches_blocks(host, tally)) return finding;
  if (auto finding = pool_law::usage_ratio(host)) return finding;
  for (BlockId block = 1; block < host.blocks.size(); ++block) {
    if (host.blocks[block].ref_cnt != std::int64_t{tally.tabled[block]}) {
      return say("host block ", block, " counts ", host.blocks[block].ref_cnt,
                 " references; host tables name it ", tally.tabled[block], " times");
    }
  }
  return std::nullopt;
}

}  // namespace

Finding host_pool(const Step& step) {
  const PoolState& host = step.after.host;
  if (host.blocks.size() == step.config.num_host_blocks) {
    return on_host(check_host(host, step.history.tally.host));
  }
  return say("the host tier shows ", host.blocks.size(), " blocks of ",
             step.config.num_host_blocks);
}

extern const Scenes host_pool_scenes = {
    {"held host block queued", play::swap_out, [](Scene& s) { s.after.host.queue.push_back(1); },
     with::two_tiers},
    {"host counter off", play::swap_out, [](Scene& s) { ++s.after.host.num_free; },
     with::two_tiers},
    {"host reference lost", play::swap_out, [](Scene& s) { s.after.host.blocks[1].ref_cnt = 2; },
     with::two_tiers},
    {"host key without entry", play::swapped_out, [](Scene& s) { s.after.host.index.clear(); },
     with::two_tiers},
    {"another number of host blocks", play::swap_out,
     [](Scene& s) { s.after.host.blocks.pop_back(); }, with::two_tiers},
};

}  // namespace law
}  // namespace kvproof::properties
