// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/prefix_search.h"

#include <algorithm>

namespace kvproof::optimized {

template <class Key>
PrefixSearch<Key>::PrefixSearch(const CacheConfig& config)
    : groups_(make_groups<Key>(config)), align_(alignment(config)) {
  for (const Group& group : groups_) {
    const GroupConfig& own = group.config();
    auto at = std::ranges::find_if(
        kin_, [&](const Kin& kin) { return groups_[kin.first].config().alike(own); });
    if (at == kin_.end()) at = kin_.insert(at, Kin{.first = group.id(), .members = {}});
    at->members.push_back(group.id());
    at->eagle = at->eagle || own.eagle;
  }
  const auto reads_part = [&](const Kin& kin) {
    return !reads_all(groups_[kin.first].config().kind);
  };
  std::ranges::stable_sort(kin_, {}, reads_part);
  one_sweep_ =
      groups_.size() == 1 || kin_.size() == 1 || (kin_.size() == 2 && !reads_part(kin_.front()));
}

template <class Key>
std::uint32_t PrefixSearch<Key>::find(const PrefixIndex<Key>& index, const Key* units,
                                      std::uint32_t max_tokens, GroupTable* tables) {
  for (Kin& kin : kin_) kin.verified = kin.looked_up = false;
  std::uint64_t hit = max_tokens;
  for (bool settled = false; !settled;) {
    const std::uint64_t current = sweep(index, units, hit, max_tokens, tables);
    settled = one_sweep_ || current >= hit;
    hit = current;
  }
  for (const Group& group : groups_) {
    tables[group.id()].hit_length = static_cast<std::uint32_t>(hit / group.block_size());
  }
  return static_cast<std::uint32_t>(hit);
}

// Searches every kind in turn, each within the length that the one before has left.
template <class Key>
std::uint64_t PrefixSearch<Key>::sweep(const PrefixIndex<Key>& index, const Key* units,
                                       std::uint64_t hit, std::uint64_t max_tokens,
                                       GroupTable* tables) {
  std::uint64_t current = hit;
  for (Kin& kin : kin_) {
    const Group& group = groups_[kin.first];
    const std::uint64_t block_size = group.block_size();
    // Every shorter prefix is a hit as well.
    if (reads_all(group.config().kind) && kin.looked_up) continue;
    const bool drop_last = kin.eagle && !kin.verified;
    const std::uint64_t limit = drop_last ? std::min(current + block_size, max_tokens) : current;
    kin.length = longest({index, units, tables, kin, group, limit, drop_last});
    // The margin makes up for the dropped block; a search that drops none must not gain by it.
    if (drop_last && kin.length * block_size > current) {
      kin.length = longest({index, units, tables, kin, group, current, drop_last});
    }
    kin.looked_up = true;
    const std::uint64_t length = kin.length * block_size;
    if (drop_last) {
      kin.verified = true;
    } else if (length < current) {
      for (Kin& other : kin_) other.verified = false;
    }
    current = length;
  }
  return current;
}

// Whether the position is cached in all of the groups. If so, its blocks are noted.
template <class Key>
bool PrefixSearch<Key>::probe(const Search& search, std::uint32_t block) const {
  for (const GroupId g : search.kin.members) {
    const BlockId found = search.index.find(groups_[g].key(search.units, block));
    if (found == kNoBlock) return false;
    search.tables[g].hit[block] = found;
  }
  return true;
}

template <class Key>
void PrefixSearch<Key>::set_null(const Search& search, std::uint32_t count) const {
  for (const GroupId g : search.kin.members) {
    std::fill_n(search.tables[g].hit, count, kNullBlock);
  }
}

template <class Key>
std::uint32_t PrefixSearch<Key>::trimmed(const Search& search, std::uint32_t length) const {
  const std::uint64_t block_size = search.group.block_size();
  if (block_size == align_) return length;
  while (length * block_size % align_ != 0) --length;
  return length;
}

template <class Key>
std::uint32_t PrefixSearch<Key>::longest(const Search& search) const {
  switch (search.group.config().kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::rswa: return longest_full(search);
    case LayerKind::sliding_window: return longest_window(search);
    case LayerKind::chunked_local: return longest_chunk(search);
    case LayerKind::mamba: return longest_state(search);
    case LayerKind::cross:
    case LayerKind::ring: break;
  }
  return 0;  // unreached: no prefix cache has rows of an encoder
}

template <class Key>
std::uint32_t PrefixSearch<Key>::longest_full(const Search& search) const {
  const auto most = static_cast<std::uint32_t>(search.tokens / search.group.block_size());
  std::uint32_t length = 0;
  while (length < most && probe(search, length)) ++length;
  if (search.drop_last && length > 0) --length;
  return trimmed(search, length);
}

// Right to left, until enough contiguous blocks are cached that the window lies inside of them.
template <class Key>
std::uint32_t PrefixSearch<Key>::longest_window(const Search& search) const {
  const GroupConfig& config = search.group.config();
  const std::uint64_t block_size = config.block_size;
  const std::uint32_t wanted =
      ceil_div(config.window - 1, config.block_size) + (search.drop_last ? 1 : 0);
  auto end = static_cast<std::uint32_t>(search.tokens / block_size);
  std::uint32_t run = 0;
  std::uint32_t at = end;
  for (bool found = false; at > 0 && !found;) {
    --at;
    const std::uint32_t ends = search.drop_last ? at : at + 1;
    if (run == 0 && ends * block_size % align_ != 0) continue;  // cannot end here
    if (!probe(search, at)) {
      run = 0;
      continue;
    }
    ++run;
    found = run >= wanted;
  }
  end = at + run;  // at 0, the rest of the run reaches back to the first block
  if (run < wanted) end = trimmed(search, end);
  set_null(search, std::min(at, end));
  return search.drop_last && end > 0 ? trimmed(search, end - 1) : end;
}

// Earlier chunks are not read: their positions count as hit without being looked at.
template <class Key>
std::uint32_t PrefixSearch<Key>::longest_chunk(const Search& search) const {
  const GroupConfig& config = search.group.config();
  const auto most = static_cast<std::uint32_t>(search.tokens / config.block_size);
  auto length =
      static_cast<std::uint32_t>(search.tokens / config.chunk * config.chunk / config.block_size);
  set_null(search, length);
  while (length < most && probe(search, length)) ++length;
  return length;
}

template <class Key>
std::uint32_t PrefixSearch<Key>::longest_state(const Search& search) const {
  const std::uint64_t block_size = search.group.block_size();
  for (auto end = static_cast<std::uint32_t>(search.tokens / block_size); end > 0; --end) {
    if (end * block_size % align_ != 0 || !probe(search, end - 1)) continue;
    set_null(search, end - 1);
    return end;
  }
  return 0;
}

template class PrefixSearch<Key128>;
template class PrefixSearch<Key256>;

}  // namespace kvproof::optimized
