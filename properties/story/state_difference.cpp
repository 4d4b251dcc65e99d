// SPDX-License-Identifier: Apache-2.0
#include "properties/story/state_difference.h"

#include <algorithm>
#include <unordered_map>

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

using Ids = std::vector<BlockId>;

/// A list without what it begins and ends with in common with another.
Ids middle(const Ids& list, const std::pair<std::size_t, std::size_t>& ends) {
  return {list.begin() + std::ptrdiff_t(ends.first), list.end() - std::ptrdiff_t(ends.second)};
}

void add_splice(std::size_t at, std::size_t cut, const Ids& come, std::string& out) {
  if (cut == 0 && come.empty()) return;
  out += (out.size() > 1 ? ",[" : "[") + std::to_string(at) + "," + std::to_string(cut) + "," +
         ids_json(come) + "]";
}

}  // namespace

StateDifference difference_of(const Snapshot& before, const Snapshot& after) {
  StateDifference out{pools(before, after), pools(before.host, after.host),
                      unlike(before.requests, after.requests), unlike(before.leases, after.leases)};
  out.raw = before.raw != after.raw;
  out.copying = before.copying != after.copying;
  return out;
}

std::string ids_json(const Ids& ids) {
  std::string out = "[";
  for (const BlockId id : ids) {
    if (out.size() > 1) out += ',';
    out += std::to_string(id);
  }
  return out + "]";
}

std::string splices_of_table(const Ids& before, const Ids& after) {
  const auto ends = common_ends(before, after);
  std::string out = "[";
  add_splice(ends.first, middle(before, ends).size(), middle(after, ends), out);
  return out + "]";
}

std::string splices_of_queue(const Ids& before, const Ids& after) {
  const auto ends = common_ends(before, after);
  const Ids was = middle(before, ends);
  const Ids now = middle(after, ends);
  // Of each id that is in both: whether it still stands where it stood.
  std::unordered_map<std::uint32_t, bool> stays;
  for (const BlockId id : now) {
    if (!stays.emplace(id, false).second) return splices_of_table(before, after);
  }
  for (const BlockId id : was) {
    const auto at = stays.find(id);
    if (at != stays.end() && std::exchange(at->second, true))
      return splices_of_table(before, after);
  }
  std::string out = "[";
  std::size_t at = ends.first;
  auto old = was.begin();
  auto next = now.begin();
  while (old != was.end() || next != now.end()) {
    std::size_t cut = 0;
    Ids come;
    for (;;) {
      if (old != was.end() && next != now.end() && *old == *next) break;
      const bool comes = next != now.end() && !stays[*next];
      if (comes) {
        come.push_back(*next++);
      } else if (old != was.end()) {
        const auto moved = stays.find(*old++);  // taken out here, put in again where it comes
        if (moved != stays.end()) moved->second = false;
        ++cut;
      } else {
        break;
      }
    }
    add_splice(at, cut, come, out);
    at += come.size();
    for (; old != was.end() && next != now.end() && *old == *next; ++old, ++next) ++at;
  }
  return out + "]";
}

}  // namespace kvproof::properties
