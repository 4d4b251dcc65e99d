// SPDX-License-Identifier: Apache-2.0
// Laws of the prefix index: keys and blocks, chains, the event mirror, and the hashes themselves.
#include <algorithm>
#include <array>
#include <utility>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/mix64.h"
#include "reference/operations.h"

namespace kvproof::properties {

namespace {

/// How many keys a block carries.
std::size_t keys_of(const PoolState& pool, BlockId block) {
  const BlockState& state = pool.blocks[block];
  const auto further = std::ranges::count(pool.further_keys, block, &FurtherKey::block);
  return (state.hashed ? 1U : 0U) + (state.tail_key ? 1U : 0U) + static_cast<std::size_t>(further);
}

bool carries(const PoolState& pool, BlockId block, std::uint64_t key) {
  const BlockState& state = pool.blocks[block];
  return state.key == key || state.tail_key == key ||
         std::ranges::find(pool.further_keys, FurtherKey{block, key}) != pool.further_keys.end();
}

}  // namespace

Finding pool_law::index_matches_blocks(const PoolState& pool, const PoolTally& tally,
                                       const std::vector<std::uint8_t>& superseded) {
  const std::size_t n = pool.blocks.size();
  for (const IndexEntry& entry : pool.index) {
    for (BlockId block : entry.blocks) {
      if (block >= n) return say("the index lists block ", block, " of a pool of ", n);
      const BlockState& state = pool.blocks[block];
      if (!state.hashed) return say("the index lists block ", block, ", which carries no key");
      if (!carries(pool, block, entry.key) || state.group != entry.group) {
        return say("the index lists block ", block, " under key ", entry.key,
                   "; the block carries ", state.key);
      }
    }
  }
  for (BlockId block = 0; block < n; ++block) {
    const BlockState& state = pool.blocks[block];
    const std::uint32_t listed = tally.indexed[block];
    if (listed == 0 && block < superseded.size() && superseded[block] != 0) continue;
    if (listed != keys_of(pool, block)) {
      return say("block ", block, state.hashed ? " carries a key" : " carries no key",
                 state.tail_key ? " and one of a prompt" : "", " and the index lists it ", listed,
                 " times");
    }
  }
  return std::nullopt;
}

namespace law {

Finding index_matches_blocks(const Step& step) {
  const Tally& tally = step.history.tally;
  const std::vector<std::uint8_t>& superseded = step.history.superseded;
  Finding finding = pool_law::index_matches_blocks(step.after, tally);
  if (!finding || !step.history.promises->traits.forgets_copies()) return finding;
  finding = pool_law::index_matches_blocks(step.after, tally, superseded);
  return exempted(step, !finding.has_value()) ? std::nullopt : finding;
}

extern const Scenes index_matches_blocks_scenes = {
    {"key without entry", play::share,
     [](Scene& s) { s.after.index.erase(s.after.index.begin()); }},
    {"entry without key", play::share, [](Scene& s) { s.block(1).hashed = false; }},
    {"entry under another key", play::share, [](Scene& s) { ++s.after.index[0].key; }},
    {"foreign block listed", play::share, [](Scene& s) { s.after.index[0].blocks.push_back(99); }},
    {"second key not listed", play::end_prompt, [](Scene& s) { s.block(2).tail_key = 77; },
     with::prompt_tails},
};

namespace {

/// Looks keys of an index up: by a scan while it is small, else in a sorted copy.
class Keys {
 public:
  explicit Keys(const std::vector<IndexEntry>& index) : index_(index) {
    if (index.size() <= kFew) return;
    for (const IndexEntry& entry : index) sorted_.emplace_back(entry.group, entry.key);
    std::sort(sorted_.begin(), sorted_.end());
  }

  [[nodiscard]] std::size_t count(GroupId group, std::uint64_t key) const {
    if (index_.size() > kFew) {
      const auto [from, to] =
          std::equal_range(sorted_.begin(), sorted_.end(), std::pair(group, key));
      return static_cast<std::size_t>(to - from);
    }
    std::size_t n = 0;
    for (const IndexEntry& entry : index_) n += entry.key == key && entry.group == group ? 1 : 0;
    return n;
  }

 private:
  static constexpr std::size_t kFew = 32;
  const std::vector<IndexEntry>& index_;
  std::vector<std::pair<GroupId, std::uint64_t>> sorted_;
};

// Equal keys fall on one bit; if no two keys share a bit, there are no equal keys to count.
bool may_repeat(const std::vector<IndexEntry>& index) {
  std::array<std::uint64_t, 16> seen{};
  for (const IndexEntry& entry : index) {
    const std::uint64_t at = mix64(entry.key + entry.group) % 1024;
    const std::uint64_t bit = std::uint64_t{1} << at % 64;
    if ((seen[at / 64] & bit) != 0) return true;
    seen[at / 64] |= bit;
  }
  return false;
}

}  // namespace

Finding index_tidy(const Step& step) {
  for (const IndexEntry& entry : step.after.index) {
    if (entry.blocks.empty()) return say("key ", entry.key, " is in the index without a block");
    if (entry.group >= step.config.groups.size()) {
      return say("key ", entry.key, " is of group ", entry.group, ", which does not exist");
    }
  }
  if (!may_repeat(step.after.index)) return std::nullopt;
  const Keys keys(step.after.index);
  for (const IndexEntry& entry : step.after.index) {
    if (keys.count(entry.group, entry.key) != 1) {
      return say("key ", entry.key, " of group ", entry.group, " is in the index twice");
    }
  }
  return std::nullopt;
}

extern const Scenes index_tidy_scenes = {
    {"empty entry", play::share, [](Scene& s) { s.after.index[0].blocks.clear(); }},
    {"unknown group", play::share, [](Scene& s) { s.after.index[0].group = 1; }},
    {"key twice", play::share, [](Scene& s) { s.after.index.push_back(s.after.index[0]); }},
};

// Groups share the pool but not contents: a row of one group's layers is nothing to another's.
Finding one_group_per_block(const Step& step) {
  const Tally& tally = step.history.tally;
  if (tally.two_groups) return say("block ", *tally.two_groups, " stands in tables of two groups");
  for (const IndexEntry& entry : step.after.index) {
    for (BlockId block : entry.blocks) {
      if (block >= step.history.num_blocks) continue;
      const std::uint32_t holder = tally.table_group[block];
      if (holder != 0 && holder != entry.group + 1) {
        return say("block ", block, " stands in a table of group ", holder - 1,
                   " and under a key of group ", entry.group);
      }
      if (step.after.blocks[block].group != entry.group) {
        return say("block ", block, " has keys of groups ", step.after.blocks[block].group, " and ",
                   entry.group);
      }
    }
  }
  return std::nullopt;
}

extern const Scenes one_group_per_block_scenes = {
    {"block in tables of two groups", play::admit_six,
     [](Scene& s) { table(s, 0, 1)[0] = table(s, 0, 0)[0]; }, with::hybrid},
    {"key of another group", play::admit_six,
     [](Scene& s) { s.after.index[0].group = GroupId(1 - s.after.index[0].group); }, with::hybrid},
};

// A lookup walks from the first block and stops at the first gap, so a key behind a gap is memory
// that nobody can reach.
Finding keys_downward_closed(const Step& step) {
  if (step.history.chains_loose || step.outcome.events.empty()) return std::nullopt;
  const Keys keys(step.after.index);
  const auto& of_key = step.history.keys->of_key;
  for (const IndexEntry& entry : step.after.index) {
    if (entry.group >= step.config.groups.size() || entry.blocks.empty()) continue;
    const GroupConfig& group = step.config.groups[entry.group];
    auto facts = of_key.find(entry.key);
    if (!reads_all(group.kind) || group.kind == LayerKind::rswa || facts == of_key.end()) continue;
    const std::size_t units_per_block = step.history.groups[entry.group].units_per_block;
    std::size_t back = facts->second.unit % units_per_block + 1;  // units to the block before
    if (facts->second.unit + 1 <= back) continue;                 // the first block
    std::uint64_t key = entry.key;
    for (; back > 0 && facts != of_key.end(); --back) {
      key = facts->second.parent;
      facts = of_key.find(key);
    }
    if (back == 0 && keys.count(entry.group, key) == 0) {
      return say("block ", entry.blocks.front(),
                 " holds content whose preceding block is no longer published");
    }
  }
  return std::nullopt;
}

extern const Scenes keys_downward_closed_scenes = {
    {"child without parent", play::share,
     [](Scene& s) {
       s.after.index.erase(s.after.index.begin());
       s.outcome.events.emplace_back(event::Removed{0, 1, 2});
     }},
};

namespace {

Finding check_cleared(const PoolState& was, const PoolState& now, const char* tier) {
  if (!now.index.empty()) return say(now.index.size(), tier, " keys survived the reset");
  for (BlockId block = 0; block < now.blocks.size(); ++block) {
    if (now.blocks[block].hashed || keys_of(now, block) > 0) {
      return say(tier, " block ", block, " kept its key over the reset");
    }
  }
  if (was.queue != now.queue) {
    return say("reset reordered the", tier, " queue from ", list_of(was.queue), " to ",
               list_of(now.queue));
  }
  return std::nullopt;
}

}  // namespace

Finding reset_clears(const Step& step) {
  if (!std::holds_alternative<op::Reset>(step.operation)) return std::nullopt;
  const bool* done = std::get_if<bool>(&step.outcome.result);
  if (done == nullptr) return say("reset did not answer true or false");
  const PoolState& host = step.before.host;
  const bool idle = step.before.num_free + 1 == step.history.num_blocks &&
                    (host.blocks.empty() || host.num_free + 1 == host.blocks.size());
  if (*done != idle) {
    return say("reset answered ", *done ? "true" : "false", " with ", step.before.num_free, " of ",
               step.history.num_blocks - 1, " blocks free, and ", host.num_free,
               " in the host tier");
  }
  if (!*done) {
    if (step.before != step.after || !step.outcome.events.empty())
      return say("a failed reset changed the state");
    return std::nullopt;
  }
  if (auto finding = check_cleared(step.before, step.after, "")) return finding;
  if (auto finding = check_cleared(step.before.host, step.after.host, " host")) {
    return on_host(std::move(finding));
  }
  if (step.outcome.events.size() != 1 ||
      !std::holds_alternative<event::Cleared>(step.outcome.events.front())) {
    return say("reset announced ", step.outcome.events.size(), " events, not the one that clears");
  }
  return std::nullopt;
}

extern const Scenes reset_clears_scenes = {
    {"key survived", play::reset_device, [](Scene& s) { s.block(1).hashed = true; }},
    {"entry survived", play::reset_device, [](Scene& s) { s.after.index = s.before.index; }},
    {"queue reordered", play::reset_device,
     [](Scene& s) { std::reverse(s.after.queue.begin(), s.after.queue.end()); }},
    {"wrong answer", play::reset_device, [](Scene& s) { s.outcome.result = false; }},
    {"not announced", play::reset_device, [](Scene& s) { s.outcome.events.clear(); }},
    {"host key survived", play::reset, [](Scene& s) { s.after.host.blocks[1].hashed = true; },
     with::two_tiers},
};

Finding events_mirror_index(const Step& step) {
  const Mirror& mirror = step.history.mirror;
  if (mirror.fault) {
    return say("event for block ", mirror.fault->block, ", prefix ", mirror.fault->prefix_tokens,
               ": ", mirror.fault->what);
  }
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    const std::vector<Mirror::Entry>& heard = mirror.blocks[block];
    const BlockState& state = step.after.blocks[block];
    const std::size_t carried = keys_of(step.after, block);
    if (heard.empty() && carried == 0) continue;
    const bool same = std::ranges::all_of(heard, [&](const Mirror::Entry& e) {
      return e.group == state.group && carries(step.after, block, e.key);
    });
    if ((heard.size() != carried || !same) && !overtaken(step, block)) {
      return say("block ", block, " carries ", carried, " keys; by the events it carries ",
                 heard.size(), same ? "" : " others");
    }
  }
  return std::nullopt;
}

extern const Scenes events_mirror_index_scenes = {
    {"stored not announced", play::share, [](Scene& s) { s.block(4).hashed = true; }},
    {"removal of the unknown", play::share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Removed{0, 5, 2});
     }},
    {"removal of the present", play::share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Removed{0, 1, 2});
     }},
    {"stored twice", play::share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Stored{0, 0, 2, {{1, 2}}});
     }},
    {"range without its blocks", play::share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Stored{0, 0, 4, {{4, 2}}});
     }},
    {"second key not announced", play::end_prompt, [](Scene& s) { s.block(2).tail_key = 77; },
     with::prompt_tails},
    {"stored in the wrong group", play::admit_six,
     [](Scene& s) { std::get<event::Stored>(s.outcome.events[0]).group = 1; }, with::hybrid},
};

Finding hash_chain(const Step& step) {
  if (!step.config.enable_caching) return std::nullopt;
  for (const RequestState& r : step.after.requests) {
    const std::uint32_t behind = step.config.hash_lookahead;
    const std::size_t units =
        r.num_tokens > behind ? (r.num_tokens - behind) / step.config.hash_block_size : 0;
    if (r.hashes.size() != units) {
      return say("request ", Named{r.name}, " has ", r.hashes.size(), " hashes for ", r.num_tokens,
                 " tokens in units of ", step.config.hash_block_size);
    }
    const RequestState* old = before_of(step, r);
    if (old == nullptr) continue;
    if (old->hashes.size() > units ||
        !std::equal(old->hashes.begin(), old->hashes.end(), r.hashes.begin())) {
      return say("a hash that request ", Named{r.name}, " already had has changed");
    }
  }
  if (const auto& clash = step.history.clash) {
    return say("unit ", clash->unit, " of ", Named{request_of(step.operation)},
               clash->same_key ? " has the key of other content"
                               : " has another key than equal content had before");
  }
  return std::nullopt;
}

extern const Scenes hash_chain_scenes = {
    {"hash missing", play::append, [](Scene& s) { s.after.requests[0].hashes.pop_back(); }},
    {"hash changed", play::append, [](Scene& s) { ++s.after.requests[0].hashes[0]; }},
    {"other content, same key", play::arrive_other,
     [](Scene& s) { s.after.requests[2].hashes[0] = s.after.requests[0].hashes[0]; }},
    {"same content, other key", play::arrive_same,
     [](Scene& s) { ++s.after.requests[2].hashes[0]; }},
};

}  // namespace law
}  // namespace kvproof::properties
