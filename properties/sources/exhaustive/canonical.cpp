// SPDX-License-Identifier: Apache-2.0
// Writes a state down once for each order of its interchangeable requests, and hashes the least of
// these texts.
#include "properties/sources/exhaustive/canonical.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvproof::properties::exhaustive {
namespace {

constexpr Text kUnknownText = 0xffffffffU;
constexpr std::uint8_t kStray = 0xff;  // a block that the pool does not have

/// The traits that tell requests apart before any block has a name.
auto rank(const RequestState& r, const Known& known, const History& history) {
  const RequestRecord* record = history.find(r.name);
  return std::tuple(known.texts[slot_of(r.name)], r.computed,
                    record != nullptr ? record->scheduled_tokens : 0);
}

Text text_of(const Known& known, std::uint64_t key) {
  const auto at = known.of_key->find(key);
  return at == known.of_key->end() ? kUnknownText : at->second;
}

}  // namespace

Fingerprint Canonical::fingerprint(const Snapshot& state, const History& history,
                                   const Known& known, const reference::Memory& memory) {
  const Facts facts{state, history, known, memory};
  const std::size_t n = std::min(state.requests.size(), kMostRequests);
  Order order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  const auto before = [&](std::uint8_t a, std::uint8_t b) {
    return rank(state.requests[a], known, history) < rank(state.requests[b], known, history);
  };
  least_.clear();
  do {  // at most six orders, of which those count that keep to the ranks
    if (!std::is_sorted(order.begin(), order.begin() + n, before)) continue;
    encode(facts, order);
    if (least_.empty() || bytes_ < least_) std::swap(bytes_, least_);
  } while (std::next_permutation(order.begin(), order.begin() + n));
  const XXH128_hash_t key = XXH3_128bits(least_.data(), least_.size());
  return {key.low64, key.high64};
}

void Canonical::encode(const Facts& facts, const Order& order) {
  const Snapshot& state = facts.state;
  bytes_.clear();
  numbers_.assign(state.blocks.size(), 0);
  named_.assign(1, kNullBlock);
  put(state.num_free);
  put_blocks(state.queue);
  for (const auto& held : facts.memory.copying) put_blocks(held);
  put(state.requests.size());
  for (std::size_t i = 0; i < state.requests.size() && i < kMostRequests; ++i) {
    encode_request(facts, order[i]);
  }
  encode_index(facts);
  name_the_rest(facts);
  encode_blocks(facts);
  put(facts.history.queue_evicted);
  put(facts.history.chains_loose);
}

// A found prefix is forgotten once blocks are held: a running request cannot use it.
void Canonical::encode_request(const Facts& facts, std::size_t at) {
  const RequestState& r = facts.state.requests[at];
  const RequestRecord* record = facts.history.find(r.name);
  put_text(facts.known.texts[slot_of(r.name)]);
  put(r.num_tokens);
  put(r.computed);
  put(record != nullptr ? record->scheduled_tokens : 0);
  put(record != nullptr && record->forked);
  const bool found = record != nullptr && !record->holds() && !record->hit.empty();
  put(found ? record->hit.tokens : 0);
  for (std::size_t g = 0; found && g < record->hit.blocks.size(); ++g) {
    put_blocks(record->hit.blocks[g]);
  }
  for (std::size_t g = 0; g < r.tables.size(); ++g) {
    put_blocks(r.tables[g]);
    put(g < r.progress.size() && r.progress[g] ? *r.progress[g] + 1 : 0);
  }
  if (at >= facts.memory.requests.size()) return;
  for (const std::uint64_t number : facts.memory.requests[at]) put(number);
}

void Canonical::encode_index(const Facts& facts) {
  entries_.clear();
  for (const IndexEntry& entry : facts.state.index) {
    entries_.emplace_back(text_of(facts.known, entry.key), &entry);
  }
  std::ranges::sort(entries_, {},
                    [](const auto& e) { return std::pair(e.second->group, e.first); });
  put(entries_.size());
  for (const auto& [text, entry] : entries_) {
    put(entry->group);
    put_text(text);
    put_blocks(entry->blocks);
  }
}

// Blocks in no queue, table or list belong to the raw owner and have no key: blocks with the same
// traits are interchangeable.
void Canonical::name_the_rest(const Facts& facts) {
  rest_.clear();
  for (BlockId block = 1; block < numbers_.size(); ++block) {
    if (numbers_[block] == 0) rest_.emplace_back(traits(facts, block), block);
  }
  std::ranges::sort(rest_);
  for (const auto& [alike, block] : rest_) static_cast<void>(number_of(block));
}

void Canonical::encode_blocks(const Facts& facts) {
  for (std::size_t i = 1; i < named_.size(); ++i) {
    const BlockState& state = facts.state.blocks[named_[i]];
    for (const std::uint8_t trait : traits(facts, named_[i])) put(trait);
    put_text(state.hashed ? text_of(facts.known, state.key) : 0);
  }
}

Canonical::Traits Canonical::traits(const Facts& facts, BlockId block) const {
  const BlockState& state = facts.state.blocks[block];
  const auto bit = [](bool holds, int at) { return static_cast<unsigned>(holds) << at; };
  const unsigned flags = bit(state.linked, 0) | bit(state.hashed, 1) |
                         bit(facts.history.evicted[block] != 0, 2) |
                         bit(facts.history.forked[block] != 0, 3) |
                         bit(std::ranges::count(facts.memory.new_states, block) > 0, 4);
  return {static_cast<std::uint8_t>(std::ranges::count(facts.state.raw, block)),
          static_cast<std::uint8_t>(state.ref_cnt), static_cast<std::uint8_t>(flags),
          static_cast<std::uint8_t>(state.group)};
}

void Canonical::put_blocks(const std::vector<BlockId>& blocks) {
  put(blocks.size());
  for (const BlockId block : blocks) put(number_of(block));
}

void Canonical::put_text(Text text) {
  for (int shift = 0; shift < 32; shift += 8) put(text >> shift);
}

std::uint8_t Canonical::number_of(BlockId block) {
  if (block >= numbers_.size()) return kStray;
  if (block != kNullBlock && numbers_[block] == 0) {
    numbers_[block] = static_cast<std::uint8_t>(named_.size());
    named_.push_back(block);
  }
  return numbers_[block];
}

}  // namespace kvproof::properties::exhaustive
