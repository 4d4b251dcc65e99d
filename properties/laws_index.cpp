// SPDX-License-Identifier: Apache-2.0
// Laws of the prefix index: keys and blocks, chains, the event mirror, and the hashes themselves.
#include <algorithm>

#include "properties/law_checks.h"

namespace kvproof::properties::law {

Finding index_matches_blocks(const Step& step) {
  const std::uint32_t n = step.history.num_blocks;
  for (const IndexEntry& entry : step.after.index) {
    for (BlockId block : entry.blocks) {
      if (block >= n) return say("the index lists block ", block, " of a pool of ", n);
      const BlockState& state = step.after.blocks[block];
      if (!state.hashed) return say("the index lists block ", block, ", which carries no key");
      if (state.key != entry.key || state.group != entry.group) {
        return say("the index lists block ", block, " under key ", entry.key,
                   "; the block carries ", state.key);
      }
    }
  }
  for (BlockId block = 0; block < n; ++block) {
    const std::uint32_t listed = step.history.tally.indexed[block];
    if (listed != (step.after.blocks[block].hashed ? 1U : 0U)) {
      return say("block ", block,
                 step.after.blocks[block].hashed ? " carries a key" : " carries no key",
                 " and the index lists it ", listed, " times");
    }
  }
  return std::nullopt;
}

namespace {

/// Membership in the keys of an index: a scan while it is small, else a sorted copy.
class Keys {
 public:
  explicit Keys(const std::vector<IndexEntry>& index) : index_(index) {
    if (index.size() <= kFew) return;
    for (const IndexEntry& entry : index) sorted_.push_back(entry.key);
    std::sort(sorted_.begin(), sorted_.end());
  }

  [[nodiscard]] std::size_t count(std::uint64_t key) const {
    if (index_.size() > kFew) {
      const auto [from, to] = std::equal_range(sorted_.begin(), sorted_.end(), key);
      return static_cast<std::size_t>(to - from);
    }
    std::size_t n = 0;
    for (const IndexEntry& entry : index_) n += entry.key == key ? 1 : 0;
    return n;
  }

 private:
  static constexpr std::size_t kFew = 32;
  const std::vector<IndexEntry>& index_;
  std::vector<std::uint64_t> sorted_;
};

}  // namespace

Finding index_tidy(const Step& step) {
  const Keys keys(step.after.index);
  for (const IndexEntry& entry : step.after.index) {
    if (entry.blocks.empty()) return say("key ", entry.key, " is in the index without a block");
    if (entry.group >= step.config.groups.size()) {
      return say("key ", entry.key, " is of group ", entry.group, ", which does not exist");
    }
    if (keys.count(entry.key) != 1) return say("key ", entry.key, " is in the index twice");
  }
  return std::nullopt;
}

// A lookup walks from the first block and stops at the first gap, so a key behind a gap is memory
// that nobody can reach.
Finding keys_downward_closed(const Step& step) {
  if (step.history.chains_loose || step.outcome.events.empty()) return std::nullopt;
  const Keys keys(step.after.index);
  for (const IndexEntry& entry : step.after.index) {
    const auto facts = step.history.keys.of_key.find(entry.key);
    if (facts == step.history.keys.of_key.end() || facts->second.first || entry.blocks.empty())
      continue;
    if (keys.count(facts->second.parent) == 0) {
      return say("block ", entry.blocks.front(),
                 " holds content whose preceding block is no longer published");
    }
  }
  return std::nullopt;
}

Finding reset_clears(const Step& step) {
  if (!std::holds_alternative<op::Reset>(step.operation)) return std::nullopt;
  const bool* done = std::get_if<bool>(&step.outcome.result);
  if (done == nullptr) return say("reset did not answer true or false");
  const bool idle = step.before.num_free + 1 == step.history.num_blocks;
  if (*done != idle) {
    return say("reset answered ", *done ? "true" : "false", " with ", step.before.num_free, " of ",
               step.history.num_blocks - 1, " blocks free");
  }
  if (!*done) {
    if (step.before != step.after || !step.outcome.events.empty())
      return say("a failed reset changed the state");
    return std::nullopt;
  }
  if (!step.after.index.empty()) return say(step.after.index.size(), " keys survived the reset");
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    if (step.after.blocks[block].hashed)
      return say("block ", block, " kept its key over the reset");
  }
  if (step.before.queue != step.after.queue) {
    return say("reset reordered the queue from ", list_of(step.before.queue), " to ",
               list_of(step.after.queue));
  }
  if (step.outcome.events.size() != 1 ||
      !std::holds_alternative<event::Cleared>(step.outcome.events.front())) {
    return say("reset announced ", step.outcome.events.size(), " events, not the one that clears");
  }
  return std::nullopt;
}

Finding events_mirror_index(const Step& step) {
  const Mirror& mirror = step.history.mirror;
  if (mirror.fault) {
    return say("event for block ", mirror.fault->block, ", prefix ", mirror.fault->prefix_tokens,
               ": ", mirror.fault->what);
  }
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    const Mirror::Entry& heard = mirror.blocks[block];
    const BlockState& state = step.after.blocks[block];
    if (heard.present != state.hashed || (heard.present && heard.key != state.key)) {
      return say("block ", block, state.hashed ? " carries a key" : " carries no key",
                 "; by the events it ",
                 !heard.present ? "carries none"
                 : state.hashed ? "carries another"
                                : "still does");
    }
  }
  return std::nullopt;
}

Finding hash_chain(const Step& step) {
  if (!step.config.enable_caching) return std::nullopt;
  for (const RequestState& r : step.after.requests) {
    const std::size_t units = r.num_tokens / step.config.hash_block_size;
    if (r.hashes.size() != units) {
      return say("request ", r.name, " has ", r.hashes.size(), " hashes for ", r.num_tokens,
                 " tokens in units of ", step.config.hash_block_size);
    }
    const RequestState* old = step.before.find(r.name);
    if (old == nullptr) continue;
    if (old->hashes.size() > units ||
        !std::equal(old->hashes.begin(), old->hashes.end(), r.hashes.begin())) {
      return say("a hash that request ", r.name, " already had has changed");
    }
  }
  if (const auto& clash = step.history.keys.clash) {
    return say("unit ", clash->unit, " of ", request_of(step.operation),
               clash->same_key ? " has the key of other content"
                               : " has another key than equal content had before");
  }
  return std::nullopt;
}

}  // namespace kvproof::properties::law
