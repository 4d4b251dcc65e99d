// SPDX-License-Identifier: Apache-2.0
#include "reference/prefix_search.h"

#include <algorithm>

namespace kvproof::reference {
namespace {

void trim_to_alignment(Pattern& hit, std::uint64_t block_size, std::uint64_t align) {
  while (hit.size() * block_size % align != 0) hit.pop_back();
}

Pattern full_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const auto most = static_cast<std::uint32_t>(limits.tokens / group.block_size);
  Pattern hit;
  while (hit.size() < most && cached(static_cast<std::uint32_t>(hit.size()))) hit.push_back(true);
  if (limits.drop_last && !hit.empty()) hit.pop_back();
  trim_to_alignment(hit, group.block_size, limits.align);
  return hit;
}

// Right to left, until enough contiguous blocks are cached that the window lies inside of them.
Pattern window_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t block_size = group.block_size;
  const std::uint32_t wanted =
      ceil_div(group.window - 1, group.block_size) + (limits.drop_last ? 1 : 0);
  Pattern hit(limits.tokens / block_size, false);
  std::size_t run = 0;
  bool found = false;
  for (std::size_t i = hit.size(); i-- > 0 && !found;) {
    if (!cached(static_cast<std::uint32_t>(i))) {
      run = 0;
      continue;
    }
    const std::size_t end = limits.drop_last ? i : i + 1;
    if (run == 0 && end * block_size % limits.align != 0) continue;  // cannot end here
    hit[i] = true;
    ++run;
    found = run >= wanted;
    if (found) hit.resize(i + run);
  }
  if (!found) {  // the rest of the run reaches back to the first block
    hit.resize(run);
    trim_to_alignment(hit, block_size, limits.align);
  }
  if (limits.drop_last && !hit.empty()) {
    hit.pop_back();
    trim_to_alignment(hit, block_size, limits.align);
  }
  return hit;
}

// Earlier chunks are not read: their positions count as hit without being looked at.
Pattern chunk_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t start = limits.tokens / group.chunk * group.chunk;
  const auto most = static_cast<std::uint32_t>(limits.tokens / group.block_size);
  Pattern hit(start / group.block_size, false);
  while (hit.size() < most && cached(static_cast<std::uint32_t>(hit.size()))) hit.push_back(true);
  return hit;
}

Pattern state_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  for (std::uint64_t end = limits.tokens / group.block_size; end > 0; --end) {
    const bool aligned = end * group.block_size % limits.align == 0;
    if (!aligned || !cached(static_cast<std::uint32_t>(end - 1))) continue;
    Pattern hit(end, false);
    hit.back() = true;
    return hit;
  }
  return {};
}

/// Groups that are alike, looked up together: a position is cached if all of them have it.
struct Kin {
  const GroupConfig* group = nullptr;  // of the first
  std::vector<GroupId> members = {};
  bool eagle = false;     // any of them
  bool verified = false;  // the EAGLE block beyond the common length has been seen
  bool looked_up = false;
  Pattern hit = {};
};

std::vector<Kin> kin_of(const std::vector<GroupConfig>& groups) {
  std::vector<Kin> out;
  for (GroupId g = 0; g < groups.size(); ++g) {
    auto at = std::ranges::find_if(out, [&](const Kin& k) { return k.group->alike(groups[g]); });
    if (at == out.end()) at = out.insert(out.end(), {.group = &groups[g]});
    at->members.push_back(g);
    at->eagle = at->eagle || groups[g].eagle;
  }
  std::ranges::stable_sort(out, {}, [](const Kin& k) { return !reads_all(k.group->kind); });
  return out;
}

}  // namespace

Pattern longest_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla: return full_hit(group, limits, cached);
    case LayerKind::sliding_window: return window_hit(group, limits, cached);
    case LayerKind::chunked_local: return chunk_hit(group, limits, cached);
    case LayerKind::mamba: return state_hit(group, limits, cached);
    case LayerKind::cross: return {};
  }
  return {};
}

CommonHit longest_common_hit(
    const CacheConfig& config, std::uint64_t max_tokens,
    const std::function<bool(GroupId group, std::uint32_t block)>& cached) {
  const std::uint64_t align = alignment(config);
  std::vector<Kin> kin = kin_of(config.groups);
  const bool one_sweep = kin.size() == 1 || (kin.size() == 2 && reads_all(kin[0].group->kind));
  std::uint64_t hit = max_tokens;
  for (bool settled = false; !settled;) {
    std::uint64_t current = hit;
    for (Kin& k : kin) {
      const std::uint64_t block_size = k.group->block_size;
      if (reads_all(k.group->kind) && k.looked_up) {  // every shorter prefix is a hit as well
        current = std::min<std::uint64_t>(current, k.hit.size() * block_size);
        continue;
      }
      const bool drop_last = k.eagle && !k.verified;
      const std::uint64_t limit = drop_last ? std::min(current + block_size, max_tokens) : current;
      const Cached seen = [&](std::uint32_t block) {
        return std::ranges::all_of(k.members, [&](GroupId g) { return cached(g, block); });
      };
      k.hit = longest_hit(*k.group, {limit, align, drop_last}, seen);
      // The margin makes up for the dropped block; a search that drops none must not gain by it.
      if (drop_last && k.hit.size() * block_size > current) {
        k.hit = longest_hit(*k.group, {current, align, drop_last}, seen);
      }
      k.looked_up = true;
      const std::uint64_t length = k.hit.size() * block_size;
      if (drop_last) {
        k.verified = true;
      } else if (length < current) {
        for (Kin& other : kin) other.verified = false;
      }
      current = length;
    }
    settled = current >= hit || one_sweep;
    hit = current;
  }
  CommonHit out{static_cast<std::uint32_t>(hit), std::vector<Pattern>(config.groups.size())};
  for (Kin& k : kin) {
    k.hit.resize(hit / k.group->block_size);
    for (const GroupId g : k.members) out.patterns[g] = k.hit;
  }
  return out;
}

}  // namespace kvproof::reference
