// SPDX-License-Identifier: Apache-2.0
#include "properties/story/state_difference.h"

#include <algorithm>

namespace kvproof::properties {
namespace {

/// The same references and keys; in which queue a block is linked is the queue's.
bool same(const BlockState& a, const BlockState& b) {
  return a.ref_cnt == b.ref_cnt && a.hashed == b.hashed && a.group == b.group && a.key == b.key &&
         a.prefix_tokens == b.prefix_tokens && a.tail_key == b.tail_key;
}

void add_blocks_of(const std::vector<FurtherKey>& these, const std::vector<FurtherKey>& others,
                   std::vector<BlockId>& out) {
  for (const FurtherKey& key : these) {
    if (std::ranges::find(others, key) == others.end()) out.push_back(key.block);
  }
}

PoolDifference pools(const PoolState& before, const PoolState& after) {
  PoolDifference out;
  out.num_free = before.num_free != after.num_free;
  out.queue = before.queue != after.queue;
  out.backward = before.queue_backward != after.queue_backward;
  const BlockState none;
  const std::size_t most = std::max(before.blocks.size(), after.blocks.size());
  for (std::size_t b = 1; b < most; ++b) {
    const BlockState& was = b < before.blocks.size() ? before.blocks[b] : none;
    const BlockState& now = b < after.blocks.size() ? after.blocks[b] : none;
    if (!same(was, now)) out.blocks.emplace_back(b);
  }
  if (before.further_keys != after.further_keys) {
    add_blocks_of(before.further_keys, after.further_keys, out.blocks);
    add_blocks_of(after.further_keys, before.further_keys, out.blocks);
    std::ranges::sort(out.blocks, {}, [](BlockId b) { return std::uint32_t{b}; });
    out.blocks.erase(std::unique(out.blocks.begin(), out.blocks.end()), out.blocks.end());
  }
  return out;
}

bool same(const RequestState& a, const RequestState& b) {
  return a.num_tokens == b.num_tokens && a.computed == b.computed && a.tables == b.tables &&
         a.progress == b.progress && a.host_tables == b.host_tables;
}
bool same(const LeaseState& a, const LeaseState& b) { return a.blocks == b.blocks; }

template <class Element>
std::vector<Sides<Element>> unlike(const std::vector<Element>& before,
                                   const std::vector<Element>& after) {
  auto out = side_by_side(before, after);
  std::erase_if(out, [](const Sides<Element>& pair) {
    return pair.first != nullptr && pair.second != nullptr && same(*pair.first, *pair.second);
  });
  return out;
}

}  // namespace

StateDifference difference_of(const Snapshot& before, const Snapshot& after) {
  StateDifference out{pools(before, after), pools(before.host, after.host),
                      unlike(before.requests, after.requests), unlike(before.leases, after.leases)};
  out.raw = before.raw != after.raw;
  out.copying = before.copying != after.copying;
  return out;
}

}  // namespace kvproof::properties
