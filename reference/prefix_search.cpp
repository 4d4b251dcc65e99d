// SPDX-License-Identifier: Apache-2.0
#include "reference/prefix_search.h"

#include <algorithm>
#include <utility>

#include "reference/layer_rules.h"

namespace kvproof::reference {
namespace {

void trim_to_alignment(Pattern& hit, std::uint64_t block_size, std::uint64_t align) {
  while (hit.size() * block_size % align != 0) hit.pop_back();
}

GroupHit whole_blocks(Pattern hit, std::uint64_t block_size) {
  const std::uint64_t tokens = hit.size() * block_size;
  return {std::move(hit), tokens, tokens};
}

// Whole blocks from the left; if hits may end inside of the next block, its units from the right.
GroupHit full_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t block_size = group.block_size;
  std::uint64_t end = 0;
  while (end + block_size <= limits.tokens && cached(end + block_size)) end += block_size;
  if (limits.align < block_size) {
    std::uint64_t inside = std::min(end + block_size - 1, limits.tokens) / limits.align;
    while (inside * limits.align > end && !cached(inside * limits.align)) --inside;
    end = inside * limits.align;
  }
  const std::uint64_t found = end;
  if (limits.drop_last && end > 0) end -= std::min(limits.align, block_size);
  end -= end % limits.align;
  return {Pattern(ceil_div(end, block_size), true), end, found};
}

// Right to left, until enough contiguous blocks are cached that the window lies inside of them.
GroupHit window_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t block_size = group.block_size;
  const std::uint32_t wanted =
      ceil_div(group.window - 1, group.block_size) + (limits.drop_last ? 1 : 0);
  Pattern hit(limits.tokens / block_size, false);
  std::size_t run = 0;
  bool found = false;
  for (std::size_t i = hit.size(); i-- > 0 && !found;) {
    if (!cached((i + 1) * block_size)) {
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
  return whole_blocks(std::move(hit), block_size);
}

// Earlier chunks are not read: their positions count as hit without being looked at.
GroupHit chunk_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t block_size = group.block_size;
  const std::uint64_t start = limits.tokens / group.chunk * group.chunk;
  Pattern hit(start / block_size, false);
  while ((hit.size() + 1) * block_size <= limits.tokens && cached((hit.size() + 1) * block_size)) {
    hit.push_back(true);
  }
  return whole_blocks(std::move(hit), block_size);
}

GroupHit state_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  const std::uint64_t step = std::min<std::uint64_t>(group.block_size, limits.align);
  for (std::uint64_t end = limits.tokens / step * step; end > 0; end -= step) {
    if (end % limits.align != 0 || !cached(end)) continue;
    Pattern hit(ceil_div<std::uint64_t>(end, group.block_size), false);
    hit.back() = true;
    return {std::move(hit), end, end};
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
  GroupHit hit = {};
};

std::vector<Kin> kin_of(const std::vector<GroupConfig>& groups) {
  std::vector<Kin> out;
  for (GroupId g = 0; g < groups.size(); ++g) {
    if (!is_cacheable(groups[g].kind)) continue;
    auto at = std::ranges::find_if(out, [&](const Kin& k) { return k.group->alike(groups[g]); });
    if (at == out.end()) at = out.insert(out.end(), {.group = &groups[g]});
    at->members.push_back(g);
    at->eagle = at->eagle || groups[g].eagle;
  }
  std::ranges::stable_sort(out, {}, [](const Kin& k) { return !reads_all(k.group->kind); });
  return out;
}

}  // namespace

GroupHit longest_hit(const GroupConfig& group, SearchLimits limits, const Cached& cached) {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::rswa: return full_hit(group, limits, cached);
    case LayerKind::sliding_window: return window_hit(group, limits, cached);
    case LayerKind::chunked_local: return chunk_hit(group, limits, cached);
    case LayerKind::mamba: return state_hit(group, limits, cached);
    case LayerKind::cross:
    case LayerKind::ring: return {};
  }
  return {};
}

CommonHit longest_common_hit(
    const CacheConfig& config, std::uint64_t max_tokens, std::uint64_t hashed_tokens,
    const std::function<bool(GroupId group, std::uint64_t tokens)>& cached) {
  const std::uint64_t align = hit_alignment(config);
  // A group that drops looks that much further, as far as there are keys; drafts have no states.
  const bool to_the_end = config.profile.searches_all_hashes;
  const std::uint64_t furthest = to_the_end ? hashed_tokens : max_tokens;
  std::vector<Kin> kin = kin_of(config.groups);
  // One kind beside a ring is searched until its hit stays, like several.
  const bool one_sweep = kin.size() == 2 && reads_all(kin[0].group->kind);
  CommonHit out{.patterns = std::vector<Pattern>(config.groups.size()),
                .found = std::vector<std::uint64_t>(config.groups.size())};
  std::uint64_t hit = max_tokens;
  for (bool settled = false; !settled;) {
    std::uint64_t current = hit;
    for (Kin& k : kin) {
      if (reads_all(k.group->kind) && k.looked_up) {  // every shorter prefix is a hit as well
        current = std::min<std::uint64_t>(current, k.hit.tokens);
        continue;
      }
      const bool drop_last = k.eagle && !k.verified;
      const bool margin = drop_last && !(to_the_end && k.group->kind == LayerKind::mamba);
      const std::uint64_t further = std::min<std::uint64_t>(align, k.group->block_size);
      const std::uint64_t limit = margin ? std::min(current + further, furthest) : current;
      const Cached seen = [&](std::uint64_t tokens) {
        return std::ranges::all_of(k.members, [&](GroupId g) { return cached(g, tokens); });
      };
      k.hit = longest_hit(*k.group, {limit, align, drop_last}, seen);
      // The margin makes up for the dropped block; a search that drops none must not gain by it.
      if (drop_last && k.hit.tokens > current) {
        k.hit = longest_hit(*k.group, {current, align, drop_last}, seen);
      }
      k.looked_up = true;
      if (drop_last) {
        k.verified = true;
      } else if (k.hit.tokens < current) {
        for (Kin& other : kin) other.verified = false;
      }
      current = k.hit.tokens;
      out.longest = std::max(out.longest, static_cast<std::uint32_t>(current));
    }
    settled = current >= hit || one_sweep;
    hit = current;
  }
  out.tokens = static_cast<std::uint32_t>(hit);
  for (Kin& k : kin) {
    k.hit.read.resize(ceil_div<std::uint64_t>(hit, k.group->block_size));
    for (const GroupId g : k.members) {
      out.patterns[g] = k.hit.read;
      out.found[g] = k.hit.found;
    }
  }
  return out;
}

}  // namespace kvproof::reference
