// SPDX-License-Identifier: Apache-2.0
// Laws of one state of the pool: the free queue, the counts, the null block.
#include <algorithm>
#include <cmath>

#include "properties/law_checks.h"

namespace kvproof::properties::law {
namespace {

std::string stray_text(const Tally::Stray& stray) {
  return say("block ", stray.block, " in ", stray.place, " is none of the pool's");
}

}  // namespace

Finding queue_walks(const Step& step) {
  const Snapshot& s = step.after;
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
    if (block >= step.history.num_blocks) return stray_text({"the free queue", block});
  }
  return std::nullopt;
}

Finding queued_iff_unheld(const Step& step) {
  const Tally& tally = step.history.tally;
  if (tally.queued[kNullBlock] != 0) return say("the null block stands in the free queue");
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const std::int64_t held = step.after.blocks[block].ref_cnt;
    const std::uint32_t queued = tally.queued[block];
    if (queued != (held == 0 ? 1U : 0U)) {
      return say("block ", block, " has ", held, " holders and stands ", queued,
                 " times in the free queue");
    }
  }
  return std::nullopt;
}

Finding links(const Step& step) {
  for (BlockId block = 0; block < step.history.num_blocks; ++block) {
    const bool queued = step.history.tally.queued[block] > 0;
    const bool linked = step.after.blocks[block].linked;
    if (queued != linked) {
      return say("block ", block, linked ? " is linked but not" : " is not linked but",
                 " in the free queue");
    }
  }
  return std::nullopt;
}

Finding null_block(const Step& step) {
  const Tally& tally = step.history.tally;
  const BlockState& null = step.after.blocks[kNullBlock];
  if (tally.queued[kNullBlock] != 0 || null.linked) return say("the null block is queued");
  if (null.hashed) return say("the null block carries key ", null.key);
  if (tally.indexed[kNullBlock] != 0) return say("the prefix index lists the null block");
  return std::nullopt;
}

Finding conservation(const Step& step) {
  const std::uint32_t n = step.history.num_blocks;
  std::uint64_t held = 0;
  for (BlockId block = 1; block < n; ++block) held += step.after.blocks[block].ref_cnt != 0 ? 1 : 0;
  if (step.after.num_free + held + 1 != n) {
    return say(step.after.num_free, " free + ", held, " held + the null block are not the ", n,
               " blocks of the pool");
  }
  return std::nullopt;
}

Finding references(const Step& step) {
  const Tally& tally = step.history.tally;
  if (tally.stray) return stray_text(*tally.stray);
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const std::int64_t count = step.after.blocks[block].ref_cnt;
    const std::int64_t named = std::int64_t{tally.tabled[block]} + tally.raw[block];
    if (count != named) {
      return say("block ", block, " counts ", count, " references; tables name it ",
                 tally.tabled[block], " times and the raw owner ", tally.raw[block], " times");
    }
  }
  return std::nullopt;
}

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

Finding usage_ratio(const Step& step) {
  const std::uint32_t usable = step.history.num_blocks - 1;
  const double expected =
      usable == 0 ? 0.0
                  : 1.0 - static_cast<double>(step.after.num_free) / static_cast<double>(usable);
  const double usage = step.after.usage;
  if (!(usage >= 0.0 && usage <= 1.0) || std::abs(usage - expected) > 1e-12) {
    return say("usage is ", usage, " with ", step.after.num_free, " of ", usable, " blocks free");
  }
  return std::nullopt;
}

Finding drained_is_free(const Step& step) {
  const Snapshot& s = step.after;
  if (!s.raw.empty()) return std::nullopt;
  for (const RequestState& r : s.requests) {
    if (!table_of(r).empty()) return std::nullopt;
  }
  if (s.num_free + 1 != step.history.num_blocks) {
    return say("nobody holds a block, yet only ", s.num_free, " of ", step.history.num_blocks - 1,
               " are free");
  }
  for (const RequestState& r : s.requests) {
    if (progress_of(r))
      return say("request ", r.name, " holds nothing but keeps progress ", *progress_of(r));
  }
  return std::nullopt;
}

}  // namespace kvproof::properties::law
