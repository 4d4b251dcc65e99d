// SPDX-License-Identifier: Apache-2.0
// How the fault host finds the longest cached prefix, in one group and in all.
#include <algorithm>
#include <utility>

#include "properties/mutants/fault_host.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// Where a search may end.
struct FaultHost::End {
  std::uint64_t tokens = 0;  // [tokens] at most
  std::uint64_t align = 1;   // [tokens] on a multiple of it
  bool drop_last = false;    // EAGLE: one block less than what is there
};

/// Groups that are alike, so that they are looked up together.
struct FaultHost::Kin {
  const GroupConfig* group = nullptr;
  std::vector<GroupId> members = {};
  bool eagle = false;
  bool dropped = false;  // the block beyond the common length has been seen
  bool looked_up = false;
  Reads reads = {};

  [[nodiscard]] std::uint64_t tokens() const { return reads.size() * group->block_size; }
};

namespace {

void align_down(std::vector<bool>& reads, std::uint64_t block_size, std::uint64_t align) {
  while (reads.size() * block_size % align != 0) reads.pop_back();
}

}  // namespace

std::optional<BlockId> FaultHost::found_at(const Sequence& s, GroupId group,
                                           std::uint32_t position) const {
  const FaultHostKey own = key(s, group, position);
  if (position == 0 && is("first_block_found_by_tokens")) {
    return pool_.find_tier(group, own.tier_hash);
  }
  return pool_.find(group, own.hash);
}

FaultHost::Reads FaultHost::find(const GroupConfig& group, End end, const Has& has) const {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::rswa: return find_full(group, end, has);
    case LayerKind::sliding_window: return find_window(group, end, has);
    case LayerKind::chunked_local: return find_chunk(group, end, has);
    case LayerKind::mamba: return find_state(group, end, has);
    case LayerKind::cross:
    case LayerKind::ring: return {};
  }
  return {};
}

FaultHost::Reads FaultHost::find_full(const GroupConfig& group, End end, const Has& has) const {
  Reads out;
  for (std::uint32_t i = 0; i < end.tokens / group.block_size; ++i) {
    const bool cached = has(i);
    if (!cached && !is("lookup_continues_after_miss")) break;
    out.push_back(cached);
  }
  while (!out.empty() && !out.back()) out.pop_back();
  if (end.drop_last && !out.empty()) out.pop_back();
  align_down(out, group.block_size, end.align);
  return out;
}

// From the right, until enough blocks in a row are there for the window to lie in.
FaultHost::Reads FaultHost::find_window(const GroupConfig& group, End end, const Has& has) {
  const std::uint32_t enough =
      ceil_div(group.window - 1, group.block_size) + (end.drop_last ? 1 : 0);
  Reads out(end.tokens / group.block_size, false);
  std::size_t row = 0;
  std::size_t i = out.size();
  while (i > 0 && (row < enough || row == 0)) {
    --i;
    if (!has(static_cast<std::uint32_t>(i))) {
      row = 0;
      continue;
    }
    const std::size_t length = end.drop_last ? i : i + 1;
    if (row == 0 && length * group.block_size % end.align != 0) continue;
    out[i] = true;
    ++row;
  }
  if (row > 0 && row >= enough) {
    out.resize(i + row);
  } else {
    out.resize(row);
    align_down(out, group.block_size, end.align);
  }
  if (end.drop_last && !out.empty()) {
    out.pop_back();
    align_down(out, group.block_size, end.align);
  }
  return out;
}

FaultHost::Reads FaultHost::find_chunk(const GroupConfig& group, End end, const Has& has) {
  const std::uint64_t start = end.tokens / group.chunk * group.chunk;
  Reads out(start / group.block_size, false);
  while (out.size() < end.tokens / group.block_size &&
         has(static_cast<std::uint32_t>(out.size()))) {
    out.push_back(true);
  }
  return out;
}

FaultHost::Reads FaultHost::find_state(const GroupConfig& group, End end, const Has& has) {
  for (std::uint64_t length = end.tokens / group.block_size; length > 0; --length) {
    if (length * group.block_size % end.align != 0) continue;
    if (!has(static_cast<std::uint32_t>(length - 1))) continue;
    Reads out(length, false);
    out.back() = true;
    return out;
  }
  return {};
}

void FaultHost::find_kin(const Sequence& s, std::uint64_t limit, Kin& k, std::vector<Kin>& all,
                         std::uint64_t& current) {
  if (reads_all(k.group->kind) && k.looked_up) {
    current = std::min(current, k.tokens());
    return;
  }
  const bool drop_last = k.eagle && (!k.dropped || is("eagle_drops_every_round"));
  const bool keeps_margin = is("state_margin_not_dropped");
  const bool margin = drop_last && !k.dropped;
  const Has has = [&](std::uint32_t position) {
    return std::all_of(k.members.begin(), k.members.end(),
                       [&](GroupId g) { return found_at(s, g, position).has_value(); });
  };
  const std::uint64_t align = alignment(config_);
  const std::uint64_t wide = margin ? std::min(current + k.group->block_size, limit) : current;
  k.reads = find(*k.group, {wide, align, drop_last}, has);
  if (margin && k.tokens() > current && !keeps_margin) {
    k.reads = find(*k.group, {current, align, drop_last}, has);
  }
  k.looked_up = true;
  if (drop_last) {
    k.dropped = true;
  } else if (k.tokens() < current) {
    for (Kin& other : all) other.dropped = false;
  }
  current = k.tokens();
}

// Groups take turns to shorten the hit until all of them have it.
std::uint64_t FaultHost::find_common(const Sequence& s, std::uint64_t limit,
                                     std::vector<Reads>& reads) {
  std::vector<Kin> kin;
  for (GroupId g = 0; g < config_.groups.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    auto at =
        std::find_if(kin.begin(), kin.end(), [&](const Kin& k) { return k.group->alike(group); });
    if (at == kin.end()) at = kin.insert(at, Kin{.group = &group});
    at->members.push_back(g);
    at->eagle = at->eagle || group.eagle;
  }
  std::stable_sort(kin.begin(), kin.end(), [](const Kin& a, const Kin& b) {
    return reads_all(a.group->kind) && !reads_all(b.group->kind);
  });
  std::uint64_t hit = limit;
  if (is("hit_of_last_group") || is("hit_of_longest_group")) {
    std::uint64_t longest = 0;
    for (Kin& k : kin) {
      hit = limit;
      find_kin(s, limit, k, kin, hit);
      longest = std::max(longest, hit);
    }
    if (is("hit_of_longest_group")) hit = longest;
  } else {
    const bool one_round = kin.size() == 2 && reads_all(kin[0].group->kind);
    while (!find_round(s, limit, kin, hit) && !one_round) {
    }
  }
  for (Kin& k : kin) {
    const bool trims = !is("trim_first_group_only") || &k == &kin.front();
    if (trims) k.reads.resize(hit / k.group->block_size);
    for (GroupId g : k.members) reads[g] = k.reads;
  }
  return hit;
}

/// @return whether the hit is as long as it was before
bool FaultHost::find_round(const Sequence& s, std::uint64_t limit, std::vector<Kin>& kin,
                           std::uint64_t& hit) {
  std::uint64_t current = hit;
  for (Kin& k : kin) find_kin(s, limit, k, kin, current);
  return std::exchange(hit, current) <= current;
}

std::uint64_t FaultHost::find_alone(const Sequence& s, std::uint64_t limit,
                                    std::vector<Reads>& reads) {
  const GroupConfig& only = config_.groups.front();
  const Has has = [&](std::uint32_t position) { return found_at(s, 0, position).has_value(); };
  reads[0] = find(only, {limit, only.block_size, only.eagle}, has);
  const bool whole = is("lookup_reports_last_but_one") && only.kind == LayerKind::full &&
                     (limit + 1) % only.block_size == 0 && !only.eagle;
  if (whole && reads[0].size() == limit / only.block_size &&
      has(static_cast<std::uint32_t>(reads[0].size()))) {
    reads[0].push_back(true);
    return limit;
  }
  return reads[0].size() * only.block_size;
}

Result FaultHost::run(const op::Lookup& o) {
  Sequence& s = sequence(o.req);
  for (Table& table : s.tables) table.found.clear();
  s.found_tokens = 0;
  if (config_.enable_caching && !s.skip_lookup && !s.tokens.empty()) {
    const std::uint64_t limit = s.tokens.size() - (is("lookup_takes_last_token") ? 0 : 1);
    std::vector<Reads> reads(s.tables.size());
    const bool one = s.tables.size() == 1;
    const std::uint64_t hit = one ? find_alone(s, limit, reads) : find_common(s, limit, reads);
    s.found_tokens = static_cast<std::uint32_t>(hit);
    for (GroupId g = 0; g < reads.size(); ++g) {
      Blocks& found = s.tables[g].found;
      found.assign(reads[g].size(), kNullBlock);
      for (std::uint32_t i = 0; i < found.size(); ++i) {
        if (reads[g][i]) found[i] = *found_at(s, g, i);
      }
    }
  }
  Hit answer{s.found_tokens, {}};
  for (const Table& table : s.tables) {
    if (is("lookup_pins")) pool_.touch(table.found);
    answer.blocks.push_back(table.found);
  }
  if (is("counts_at_lookup")) count(s, false);
  return answer;
}

void FaultHost::count(const Sequence& s, bool resumed) {
  if (!config_.enable_caching || s.skip_lookup || s.tokens.empty()) return;
  if (resumed && !is("counts_resumed")) return;
  ++counts_.lookups;
  counts_.lookup_tokens += s.tokens.size() - 1;
  counts_.hit_tokens += s.found_tokens;
}

}  // namespace kvproof::properties
