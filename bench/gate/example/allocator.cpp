// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

#include <algorithm>

namespace mine {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::uint64_t key_of(std::uint64_t parent, const std::int32_t* tokens, std::uint32_t n) {
  std::uint64_t key = mixed(parent + 0x9e3779b97f4a7c15U);
  for (std::uint32_t i = 0; i < n; ++i) {
    key = mixed(key ^ static_cast<std::uint32_t>(tokens[i])) + 0x9e3779b97f4a7c15U;
  }
  return key != 0 ? key : 1;
}

}  // namespace

Allocator::Allocator(const Config& config) : config_(config), blocks_(config.num_blocks) {
  std::size_t size = 4;
  while (size < 2 * blocks_.size()) size *= 2;
  index_.resize(size);
  for (std::uint32_t block = 1; block < config.num_blocks; ++block) link(block);
}

std::uint32_t Allocator::arrive(const std::int32_t* tokens, std::size_t n, bool sharing) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const std::uint32_t number = unused_.back();
  unused_.pop_back();
  Request& r = requests_[number];
  r = Request();
  r.sharing = sharing && config_.caching;
  append(number, tokens, n);
  return number;
}

void Allocator::append(std::uint32_t request, const std::int32_t* tokens, std::size_t n) {
  Request& r = requests_[request];
  r.tokens.insert(r.tokens.end(), tokens, tokens + n);
  if (r.sharing) hash_complete_blocks(r);
}

void Allocator::hash_complete_blocks(Request& r) const {
  const std::uint32_t size = config_.block_size;
  while ((r.keys.size() + 1) * size <= r.tokens.size()) {
    const std::uint64_t parent = r.keys.empty() ? 0 : r.keys.back();
    r.keys.push_back(key_of(parent, r.tokens.data() + r.keys.size() * size, size));
  }
}

void Allocator::advance(std::uint32_t request, std::uint32_t computed) {
  Request& r = requests_[request];
  r.computed = computed;
  if (!r.sharing) return;
  const std::size_t complete = std::min(r.table.size(), std::size_t{computed / config_.block_size});
  for (; r.published < complete; ++r.published) {
    Block& block = blocks_[r.table[r.published]];
    const std::uint64_t key = r.keys[r.published];
    if (block.key != 0 || index_[find(key)] != 0) continue;
    block.key = key;
    index_[find(key)] = r.table[r.published];
  }
}

std::uint32_t Allocator::lookup(std::uint32_t request) {
  Request& r = requests_[request];
  r.hits.clear();
  if (!r.sharing || r.tokens.empty()) return 0;
  const std::size_t most = (r.tokens.size() - 1) / config_.block_size;
  for (std::size_t i = 0; i < most; ++i) {
    const std::uint32_t block = index_[find(r.keys[i])];
    if (block == 0) break;
    r.hits.push_back(block);
  }
  return static_cast<std::uint32_t>(r.hits.size()) * config_.block_size;
}

Allocator::Answer Allocator::allocate(std::uint32_t request, std::uint32_t new_tokens,
                                      bool use_lookup, bool all_must_fit, std::uint32_t& taken) {
  Request& r = requests_[request];
  const std::size_t hits = use_lookup ? r.hits.size() : 0;
  std::size_t revived = 0;
  for (std::size_t i = 0; i < hits; ++i) {
    if (blocks_[r.hits[i]].key != r.keys[i]) return Answer::stale;
    revived += blocks_[r.hits[i]].refs == 0 ? 1 : 0;
  }
  const std::size_t held = r.table.size() + hits;
  const std::size_t end =
      blocks_for(std::max<std::size_t>(r.computed, hits * config_.block_size) + new_tokens);
  const std::size_t all =
      all_must_fit ? std::max<std::size_t>(end, blocks_for(r.tokens.size())) : end;
  if (std::max(all, held) - held + revived > num_free_) return Answer::refused;
  for (std::size_t i = 0; i < hits; ++i) {
    if (blocks_[r.hits[i]].refs++ == 0) unlink(r.hits[i]);
    r.table.push_back(r.hits[i]);
  }
  taken = 0;
  for (; r.table.size() < end; ++taken) r.table.push_back(take());
  r.hits.clear();
  return Answer::granted;
}

void Allocator::free(std::uint32_t request) {
  Request& r = requests_[request];
  for (; !r.table.empty(); r.table.pop_back()) {
    if (--blocks_[r.table.back()].refs == 0) link(r.table.back());
  }
  r.hits.clear();
  r.computed = r.published = 0;
}

void Allocator::finish(std::uint32_t request) {
  free(request);
  unused_.push_back(request);
}

std::uint32_t Allocator::blocks_for(std::size_t tokens) const {
  const std::size_t most = std::min<std::size_t>(tokens, config_.max_tokens);
  return static_cast<std::uint32_t>((most + config_.block_size - 1) / config_.block_size);
}

void Allocator::link(std::uint32_t block) {
  Block& b = blocks_[block];
  b.next = 0;
  b.prev = blocks_[0].prev;
  blocks_[b.prev].next = block;
  blocks_[0].prev = block;
  ++num_free_;
}

void Allocator::unlink(std::uint32_t block) {
  const Block& b = blocks_[block];
  blocks_[b.prev].next = b.next;
  blocks_[b.next].prev = b.prev;
  --num_free_;
}

std::uint32_t Allocator::take() {
  const std::uint32_t block = blocks_[0].next;
  unlink(block);
  if (blocks_[block].key != 0) forget(block);
  blocks_[block].refs = 1;
  return block;
}

/// @return where the key stands, or the empty place where it would
std::size_t Allocator::find(std::uint64_t key) const {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = key & mask;
  while (index_[at] != 0 && blocks_[index_[at]].key != key) at = (at + 1) & mask;
  return at;
}

/// Takes the content of a block away, and closes the gap that its key leaves.
void Allocator::forget(std::uint32_t block) {
  const std::size_t mask = index_.size() - 1;
  std::size_t gap = find(blocks_[block].key);
  for (std::size_t at = (gap + 1) & mask; index_[at] != 0; at = (at + 1) & mask) {
    const std::size_t wanted = blocks_[index_[at]].key & mask;
    if (((at - wanted) & mask) < ((at - gap) & mask)) continue;
    index_[gap] = index_[at];
    gap = at;
  }
  index_[gap] = 0;
  blocks_[block].key = 0;
}

}  // namespace mine
