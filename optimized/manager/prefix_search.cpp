// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/prefix_search.h"

#include <algorithm>

namespace kvproof::optimized {

template <class Key>
PrefixSearch<Key>::PrefixSearch(const CacheConfig& config)
    : groups_(make_groups<Key>(config)),
      align_(hit_alignment(config)),
      searches_all_hashes_(config.profile.searches_all_hashes && config.groups.size() > 1),
      unit_(config.hash_block_size) {
  for (const Group& group : groups_) {
    const GroupConfig& own = group.config();
    if (!is_cacheable(own.kind)) continue;
    auto at = std::ranges::find_if(
        kin_, [&](const Kin& kin) { return groups_[kin.first].config().alike(own); });
    if (at == kin_.end()) {
      at = kin_.emplace(at);
      at->first = group.id();
    }
    at->members.push_back(group.id());
    at->eagle = at->eagle || own.eagle;
  }
  const auto reads_part = [&](const Kin& kin) {
    return !reads_all(groups_[kin.first].config().kind);
  };
  std::ranges::stable_sort(kin_, {}, reads_part);
  one_sweep_ = groups_.size() == 1 || (kin_.size() == 2 && !reads_part(kin_.front()));
}

template <class Key>
auto PrefixSearch<Key>::find(const BlockPool<Key>& pool, const Key* units, std::uint32_t num_units,
                             std::uint32_t max_tokens, GroupTable* tables) -> Found {
  for (Kin& kin : kin_) kin.verified = kin.looked_up = false;
  const Prompt prompt{pool, units, std::uint64_t{num_units} * unit_, max_tokens, tables};
  std::uint64_t hit = max_tokens;
  std::uint64_t longest_hit = 0;
  for (bool settled = false; !settled;) {
    const std::uint64_t current = sweep(prompt, hit, longest_hit);
    settled = one_sweep_ || current >= hit;
    hit = current;
  }
  for (const Group& group : groups_) tables[group.id()].hit_length = 0;
  for (const Kin& kin : kin_) {
    for (const GroupId g : kin.members) {
      tables[g].hit_length =
          static_cast<std::uint32_t>(ceil_div<std::uint64_t>(hit, groups_[g].block_size()));
      tables[g].hit_found = static_cast<std::uint32_t>(kin.found);
    }
  }
  return {static_cast<std::uint32_t>(hit), static_cast<std::uint32_t>(longest_hit)};
}

// Searches every kind in turn, each within the length that the one before has left.
template <class Key>
std::uint64_t PrefixSearch<Key>::sweep(const Prompt& prompt, std::uint64_t hit,
                                       std::uint64_t& longest_hit) {
  std::uint64_t current = hit;
  for (Kin& kin : kin_) {
    const Group& group = groups_[kin.first];
    // Every shorter prefix is a hit as well.
    if (reads_all(group.config().kind) && kin.looked_up) {
      current = std::min(current, kin.length);
      continue;
    }
    const bool drop_last = kin.eagle && !kin.verified;
    const bool margin =
        drop_last && !(searches_all_hashes_ && group.config().kind == LayerKind::mamba);
    const std::uint64_t further = std::min<std::uint64_t>(align_, group.block_size());
    const std::uint64_t furthest = searches_all_hashes_ ? prompt.hashed : prompt.most;
    const std::uint64_t limit = margin ? std::min(current + further, furthest) : current;
    Length length = longest({prompt, kin, group, limit, drop_last});
    // The margin makes up for the dropped block; a search that drops none must not gain by it.
    if (drop_last && length.hit > current) {
      length = longest({prompt, kin, group, current, drop_last});
    }
    kin.looked_up = true;
    if (drop_last) {
      kin.verified = true;
    } else if (length.hit < current) {
      for (Kin& other : kin_) other.verified = false;
    }
    kin.found = length.found;
    current = kin.length = length.hit;
    longest_hit = std::max(longest_hit, current);
  }
  return current;
}

// Whether all of the groups have the block in which this prefix ends. If so, the blocks are noted.
template <class Key>
bool PrefixSearch<Key>::probe(const Search& search, std::uint64_t tokens) const {
  if (tokens > search.prompt.hashed) return false;
  const auto at = static_cast<std::uint32_t>((tokens - 1) / search.group.block_size());
  for (const GroupId g : search.kin.members) {
    const BlockId found = groups_[g].find_prefix(search.prompt.pool, search.prompt.units, tokens);
    if (found == kNoBlock) return false;
    search.prompt.tables[g].hit[at] = found;
  }
  return true;
}

// Nearly always there is one group of a kind; its keys and hits are walked without asking again
// which it is.
template <class Key>
template <class F>
auto PrefixSearch<Key>::with_block_probe(const Search& search, const F& f) const {
  const auto& index = search.prompt.pool.index();
  const Group& first = search.group;
  if (search.kin.members.size() > 1) {
    return f([&](std::uint32_t at) {
      return std::ranges::all_of(search.kin.members, [&](GroupId g) {
        const BlockId found = index.find(groups_[g].key(search.prompt.units, at));
        if (found != kNoBlock) search.prompt.tables[g].hit[at] = found;
        return found != kNoBlock;
      });
    });
  }
  const GroupId id = first.id();
  const std::size_t stride = first.units_per_block();
  const Key* const keys = search.prompt.units + stride - 1;
  BlockId* const hit = search.prompt.tables[id].hit;
  return f([&index, id, stride, keys, hit](std::uint32_t at) {
    const BlockId found = index.find(in_group(keys[at * stride], id));
    if (found == kNoBlock) return false;
    hit[at] = found;
    return true;
  });
}

template <class Key>
void PrefixSearch<Key>::set_null(const Search& search, std::uint32_t count) const {
  for (const GroupId g : search.kin.members) {
    std::fill_n(search.prompt.tables[g].hit, count, kNullBlock);
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
auto PrefixSearch<Key>::longest(const Search& search) const -> Length {
  const std::uint64_t block_size = search.group.block_size();
  const auto whole = [&](std::uint32_t blocks) {
    return Length{blocks * block_size, blocks * block_size};
  };
  switch (search.group.config().kind) {
    case LayerKind::full:
    case LayerKind::mla:
    case LayerKind::rswa: return longest_full(search);
    case LayerKind::sliding_window: return whole(longest_window(search));
    case LayerKind::chunked_local: return whole(longest_chunk(search));
    case LayerKind::mamba: return longest_state(search);
    case LayerKind::cross:
    case LayerKind::ring: break;
  }
  return {};  // unreached: no prefix cache has rows of an encoder, or rings
}

// Whole blocks from the left; if hits may end inside of the next block, its units from the right.
template <class Key>
auto PrefixSearch<Key>::longest_full(const Search& search) const -> Length {
  const std::uint64_t block_size = search.group.block_size();
  const std::uint64_t whole = std::min(search.tokens, search.prompt.hashed) / block_size;
  const std::uint32_t blocks = with_block_probe(search, [&](const auto& has_block) {
    std::uint32_t length = 0;
    while (length < whole && has_block(length)) ++length;
    return length;
  });
  std::uint64_t end = blocks * block_size;
  if (align_ < block_size) {
    std::uint64_t inside = std::min(end + block_size - 1, search.tokens) / align_;
    while (inside * align_ > end && !probe(search, inside * align_)) --inside;
    end = inside * align_;
  }
  const std::uint64_t found = end;
  if (search.drop_last && end > 0) end -= std::min(align_, block_size);
  if (block_size != align_) end -= end % align_;
  return {end, found};
}

// Right to left, until enough contiguous blocks are cached that the window lies inside of them.
template <class Key>
std::uint32_t PrefixSearch<Key>::longest_window(const Search& search) const {
  const GroupConfig& config = search.group.config();
  const std::uint64_t block_size = config.block_size;
  const std::uint32_t wanted =
      ceil_div(config.window - 1, config.block_size) + (search.drop_last ? 1 : 0);
  const std::uint64_t hashed = search.prompt.hashed / block_size;  // [blocks]
  auto end = static_cast<std::uint32_t>(search.tokens / block_size);
  std::uint32_t run = 0;
  std::uint32_t at = end;
  with_block_probe(search, [&](const auto& has_block) {
    for (bool found = false; at > 0 && !found;) {
      --at;
      const std::uint32_t ends = search.drop_last ? at : at + 1;
      if (run == 0 && ends * block_size % align_ != 0) continue;  // cannot end here
      run = at < hashed && has_block(at) ? run + 1 : 0;
      found = run > 0 && run >= wanted;
    }
  });
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
  while (length < most && probe(search, (length + 1) * std::uint64_t{config.block_size})) ++length;
  return length;
}

template <class Key>
auto PrefixSearch<Key>::longest_state(const Search& search) const -> Length {
  const std::uint64_t block_size = search.group.block_size();
  const std::uint64_t step = std::min(block_size, align_);
  for (std::uint64_t end = search.tokens / step * step; end > 0; end -= step) {
    if (end % align_ != 0 || !probe(search, end)) continue;
    set_null(search, static_cast<std::uint32_t>((end - 1) / block_size));
    return {end, end};
  }
  return {};
}

template class PrefixSearch<Key128>;
template class PrefixSearch<Key256>;

}  // namespace kvproof::optimized
