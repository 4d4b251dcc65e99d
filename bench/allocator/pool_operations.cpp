// SPDX-License-Identifier: Apache-2.0
// Sets the measured operations up, checks their effect, and restores the state before them.
#include "bench/allocator/pool_operations.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace kvproof::bench {
namespace {

// Long enough that reading the clock costs nothing, short enough that most rounds are not
// interrupted: 10 microseconds to half a millisecond.
constexpr std::uint32_t kRoundBlocks = 4'096;
constexpr std::uint32_t kBlockSize = 16;  // [tokens]

std::uint32_t calls_per_round(const PoolCase& c, double share) {
  const auto most = static_cast<std::uint32_t>(share * (c.num_blocks - 1));
  const std::uint32_t calls = std::min(kRoundBlocks, most) / c.batch;
  require(calls > 0, c, "a batch does not fit into the pool");
  return calls;
}

std::vector<BlockId> ordered_ids(const PoolCase& c) {
  std::vector<BlockId> ids(c.num_blocks - 1);
  std::iota(ids.begin(), ids.end(), BlockId{1});
  if (c.order == Order::shuffled) {
    std::mt19937_64 random(c.seed);
    for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random() % i]);
  }
  return ids;
}

CacheConfig manager_config(const PoolCase& c) {
  CacheConfig config;
  config.num_blocks = c.num_blocks;
  config.max_model_len = c.batch * kBlockSize;
  config.hash_block_size = kBlockSize;
  config.groups = {{LayerKind::full, kBlockSize, false}};
  return config;
}

}  // namespace

void require(bool holds, const PoolCase& c, const char* what) {
  if (!holds) throw std::logic_error(c.operation + ": " + what);
}

PoolState::PoolState(const PoolCase& c, FreeOrder order, double share)
    : case_(c),
      random_(c.seed + 1),
      pool_(c.num_blocks, {.order = order}),
      ids_(ordered_ids(c)),
      calls_(calls_per_round(c, share)) {}

void PoolState::take_all(bool publish) {
  std::vector<BlockId> out(usable());
  pool_.take(out);
  if (!publish) return;
  for (const BlockId block : ids_) pool_.publish(block, new_key());
}

void PoolState::next_window() {
  first_ += round_blocks();
  if (first_ + round_blocks() > ids_.size()) first_ = 0;
}

BareList::BareList(std::span<const BlockId> order) : nodes_(order.size() + 2) {
  BlockId last(nodes_.size() - 1);
  for (const BlockId block : order) {
    nodes_[last].next = block;
    nodes_[block].prev = last;
    last = block;
  }
  const BlockId sentinel(nodes_.size() - 1);
  nodes_[last].next = sentinel;
  nodes_[sentinel].prev = last;
}

TakeRelease::TakeRelease(const PoolCase& c)
    : PoolState(c, FreeOrder::append, 1.0), out_(c.batch), floor_(ids_) {
  take_all(false);
  release_all();
}

void TakeRelease::verify() const {
  require(pool_.num_free() == usable(), case_, "blocks are missing from the queue");
}

Touch::Touch(const PoolCase& c) : PoolState(c, FreeOrder::unhashed_first, 0.5) {
  take_all(true);
  release_all();
  // Visits the blocks in an order other than that of the queue, unless neighbours are wanted.
  if (c.order == Order::shuffled) std::ranges::shuffle(ids_, random_);
}

void Touch::verify() const {
  require(pool_.num_free() == usable() - round_blocks(), case_, "a revived block is in the queue");
}

void Touch::finish() {
  pool_.release(window());
  next_window();
}

Publish::Publish(const PoolCase& c)
    : PoolState(c, FreeOrder::unhashed_first, 0.5), keys_(round_blocks()) {
  take_all(true);
}

void Publish::prepare() {
  for (const BlockId block : window()) pool_.forget(block);
  std::ranges::generate(keys_, [this] { return new_key(); });
}

void Publish::verify() const {
  require(pool_.index().num_keys() == usable(), case_, "a published key is not in the index");
}

Evict::Evict(const PoolCase& c) : PoolState(c, FreeOrder::unhashed_first, 0.5) { take_all(true); }

void Evict::verify() const {
  require(pool_.index().num_keys() == usable() - round_blocks(), case_, "a key is still there");
}

void Evict::finish() {
  for (const BlockId block : window()) pool_.publish(block, new_key());
  next_window();
}

Lookup::Lookup(const PoolCase& c, bool hit)
    : PoolState(c, FreeOrder::unhashed_first, 1), hit_(hit), keys_(round_blocks()) {
  take_all(true);
}

void Lookup::prepare() {
  found_ = 0;
  const std::span<const BlockId> blocks = window();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    keys_[i] = hit_ ? pool_.record(blocks[i]).key : new_key();
  }
}

void Lookup::verify() {
  require(found_ == (hit_ ? round_blocks() : 0), case_, "a key was found wrongly, or not at all");
}

EvictBatch::EvictBatch(const PoolCase& c)
    : PoolState(c, FreeOrder::unhashed_first, 1.0), out_(round_blocks()) {
  take_all(true);
  release_all();
}

void EvictBatch::verify() const {
  require(pool_.index().num_keys() == usable() - round_blocks(), case_, "content survived");
  require(pool_.num_free() == usable() - round_blocks(), case_, "a taken block is in the queue");
}

void EvictBatch::finish() {
  for (const BlockId block : out_) pool_.publish(block, new_key());
  pool_.release(out_);
}

FreeRequest::FreeRequest(const PoolCase& c)
    : case_(c),
      manager_(manager_config(c), {.max_requests = num_live()}, c.seed),
      tokens_(std::size_t{c.batch} * kBlockSize) {
  std::vector<BlockId> out(c.num_blocks - 1);
  require(manager_.take(out), c, "the new pool is not free");
  manager_.release(ordered_ids(c));
  for (std::uint32_t i = 0; i < num_live(); ++i) live_.push_back(start());
}

RequestId FreeRequest::start() {
  ++tokens_.front();  // the hashes are chained: no block of this request was ever seen
  const RequestId id = manager_.arrive({.tokens = tokens_});
  AllocateArgs args;
  args.new_tokens = static_cast<std::uint32_t>(tokens_.size());
  require(static_cast<bool>(manager_.allocate(id, args)), case_, "the request does not fit");
  manager_.advance(id, args.new_tokens);
  return id;
}

void FreeRequest::verify() const {
  const std::uint32_t held = (num_live() - 1) * case_.batch;
  require(manager_.pool().num_free() == case_.num_blocks - 1 - held, case_,
          "blocks are still held");
}

void FreeRequest::finish() {
  live_[oldest_] = start();
  oldest_ = (oldest_ + 1) % live_.size();
}

}  // namespace kvproof::bench
