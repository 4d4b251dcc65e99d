// SPDX-License-Identifier: Apache-2.0
// The core of a paged KV cache with prefix reuse. Read this file first; it leans on no other.
//
// A request is a row of tokens. Attention keeps one K and one V row for each, and these lie in
// blocks of `block_size` tokens each. The table of a request names its blocks in the order of its
// tokens: entry i holds the tokens [i * block_size, (i + 1) * block_size).
//
// Tables of requests that begin with equal tokens may name the same blocks, so each block counts
// its references. A block without any waits in the free queue and keeps its content. Whoever sends
// the same beginning again meanwhile finds it there and revives it. A block that has come to the
// head of the queue is taken for something new, and only then its content is lost: it is evicted.
// The order of the free queue is therefore also the order of eviction.
//
// The life of a request, as an engine drives it:
//   arrive     its prompt is known
//   lookup     how much of its beginning do blocks still hold?
//   allocate   an admission: the blocks that were found, and new ones for the tokens of this step
//   advance    the step has run: so many tokens are computed, those that were found included
//   append, allocate, advance     once for each token that it generates
//   preempt    somebody else needs the blocks: it starts over from lookup
//   finish     it has ended
//
// Two questions to take along: when is an admission refused (Cache::allocate), and why is the tail
// of a request evicted first (BlockPool::release)?
//
// Model:   one layer group of full attention in the profile vllm-0.33. cache_manager.h beside this
//          file does the same and much more; core_test.cpp holds the two equal.
// Source:  vLLM v1 block_pool.py and kv_cache_manager.py; Kwon et al., SOSP'23.
// Leaves out: bytes, threads, time; windows, states, several groups; drafts, tokens that somebody
//          else loads; forks, leases, the host; events and counters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvproof::core {

using Token = std::int32_t;
using Block = std::uint32_t;       // index in the pool; 0 is a placeholder and never handed out
using Table = std::vector<Block>;  // blocks of one request, in the order of its tokens
using Hash = std::uint64_t;        // stands for a whole prefix: all its tokens from the first on
inline constexpr Hash kEmptyPrefix = 0;  // the hash of the empty prefix

/// A broken precondition is a bug of the caller, which is thrown at it. A shortage is an answer.
inline void require(bool holds, const char* precondition) {
  if (!holds) throw std::logic_error(precondition);
}

/// Hashes a prefix of whole blocks by a chain: the hash of all blocks but the last, together with
/// the tokens of the last, gives the hash of all. One number then stands for thousands of tokens.
///
/// This hash has no collisions: it numbers the pairs that it is asked for and remembers them, so
/// two prefixes have one hash if and only if they are equal. An engine remembers nothing, and takes
/// a function of so many bits (SHA-256, say) that a collision is not to be expected.
class ChainedHash {
 public:
  Hash operator()(Hash parent, const std::vector<Token>& block) {
    const Hash next = hashes_.size() + 1;
    return hashes_.try_emplace({parent, block}, next).first->second;
  }

 private:
  std::map<std::pair<Hash, std::vector<Token>>, Hash> hashes_;
};

/// The blocks: who holds them, what they hold, and which is taken next.
///
/// A block is in the free queue if and only if it has no reference (but for the placeholder). It is
/// in the index if and only if it has a hash. A block may be in both: free, and still to be found.
class BlockPool {
 public:
  /// @param num_blocks the placeholder 0 included. @pre at least 2
  explicit BlockPool(std::size_t num_blocks) : references_(num_blocks, 0) {
    require(num_blocks >= 2, "a pool needs a block besides the placeholder");
    for (Block block = 1; block < num_blocks; ++block) queue_.push_back(block);
  }

  /// Takes blocks from the head of the queue. Each has one reference then, and no content.
  /// @pre there are as many
  Table take(std::size_t count) {
    require(count <= queue_.size(), "fewer blocks are free than are taken");
    Table taken;
    while (taken.size() < count) {
      const Block block = queue_.front();
      queue_.pop_front();
      evict(block);
      references_[block] = 1;
      taken.push_back(block);
    }
    return taken;
  }

  /// Adds a reference to each block. One that was free is revived: it leaves the queue, wherever it
  /// stands, and keeps its content.
  void touch(const Table& blocks) {
    for (const Block block : blocks) {
      if (references_[block] == 0) queue_.remove(block);
      ++references_[block];
    }
  }

  /// Drops a reference to each block of a table, from its last entry to its first. A block that
  /// loses its last reference enters the queue: behind all others if it has a hash, so that the
  /// content which was used longest ago is lost first; before all others if it has none, because no
  /// lookup can find it and nothing is lost.
  ///
  /// Why the last entry first? It then stands nearer to the head, so the tail of a request is
  /// evicted before its beginning. A lookup goes from the first block to the last and ends at the
  /// first that is missing. Without the beginning, nobody could find the tail, and it would only
  /// take up room; without the tail, the beginning still serves every prompt that begins like it.
  /// And the deeper a block, the fewer prompts agree with all tokens before it.
  ///
  /// Example: the queue is [1, 2], and a request that ends has the table [7, 5, 9]. Block 9 is not
  /// full and has no hash. The queue becomes [9, 1, 2, 5, 7]: of the content, 5 is lost before 7.
  void release(const Table& table) {
    std::list<Block> without_hash;
    std::list<Block> with_hash;
    for (auto block = table.rbegin(); block != table.rend(); ++block) {
      require(references_[*block] > 0, "a block is released that nobody holds");
      if (--references_[*block] > 0) continue;  // another table still names it
      (hash_of_.contains(*block) ? with_hash : without_hash).push_back(*block);
    }
    queue_.splice(queue_.begin(), without_hash);
    queue_.splice(queue_.end(), with_hash);
  }

  /// Names a block in the index: it holds the last block of the prefix with that hash.
  /// @pre it has no hash
  void publish(Block block, Hash hash) {
    require(hash_of_.emplace(block, hash).second, "a block is published twice");
    index_[hash].push_back(block);
  }

  /// The block with which the prefix of that hash ends. Two requests may have computed the same
  /// tokens side by side, so there may be several: it is the one that was published first. Each
  /// request keeps its own, because tables only grow.
  std::optional<Block> find(Hash hash) const {
    const auto found = index_.find(hash);
    if (found == index_.end()) return std::nullopt;
    return found->second.front();
  }

  std::optional<Hash> hash_of(Block block) const {
    const auto found = hash_of_.find(block);
    return found == hash_of_.end() ? std::nullopt : std::optional(found->second);
  }
  std::size_t references(Block block) const { return references_[block]; }
  std::size_t num_free() const { return queue_.size(); }
  const std::list<Block>& queue() const { return queue_; }
  const std::map<Hash, std::vector<Block>>& index() const { return index_; }

 private:
  /// Takes a block out of the index; its content is about to be overwritten.
  void evict(Block block) {
    const auto hashed = hash_of_.find(block);
    if (hashed == hash_of_.end()) return;
    const auto entry = index_.find(hashed->second);
    std::erase(entry->second, block);
    if (entry->second.empty()) index_.erase(entry);
    hash_of_.erase(hashed);
  }

  std::vector<std::size_t> references_;       // of each block: how many tables name it
  std::list<Block> queue_;                    // free blocks; the head is taken next
  std::map<Block, Hash> hash_of_;             // of the blocks that are in the index
  std::map<Hash, std::vector<Block>> index_;  // blocks with that content, first published first
};

struct Request {
  std::vector<Token> tokens;  // the prompt, then what was generated
  std::vector<Hash> hashes;   // hashes[i]: of the first (i + 1) * block_size tokens
  Table table;                // empty while it waits for its admission
  std::size_t published = 0;  // [blocks] of the table that are in the index, from the first on
  std::size_t computed = 0;   // [tokens] whose K and V are there
};

/// The requests and their tables. Each function but arrive() takes the name of a request that is
/// there, or throws std::out_of_range. A call with a broken precondition changes nothing.
class Cache {
 public:
  /// @param num_blocks [blocks] the placeholder included
  /// @param block_size [tokens per block] @pre at least 1
  /// @param watermark the fraction of num_blocks that an admission leaves free, rounded down
  Cache(std::size_t num_blocks, std::size_t block_size, double watermark)
      : block_size_(block_size),
        watermark_blocks_(static_cast<std::size_t>(watermark * static_cast<double>(num_blocks))),
        pool_(num_blocks) {
    require(block_size >= 1, "a block holds at least one token");
  }

  /// A request arrives with its prompt. It holds nothing yet. @pre the name is new
  void arrive(const std::string& name, const std::vector<Token>& prompt) {
    require(requests_.try_emplace(name).second, "the name is in use");
    append(name, prompt);
  }

  /// Tokens that the request has generated. The blocks that they complete get their hashes.
  void append(const std::string& name, const std::vector<Token>& tokens) {
    Request& r = requests_.at(name);
    r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
    while ((r.hashes.size() + 1) * block_size_ <= r.tokens.size()) {
      const auto begin =
          r.tokens.begin() + static_cast<std::ptrdiff_t>(r.hashes.size() * block_size_);
      const Hash parent = r.hashes.empty() ? kEmptyPrefix : r.hashes.back();
      r.hashes.push_back(hash_(parent, {begin, begin + static_cast<std::ptrdiff_t>(block_size_)}));
    }
  }

  /// A step has run: so many of the tokens have K and V now. @pre not more than there are
  void advance(const std::string& name, std::size_t computed) {
    Request& r = requests_.at(name);
    require(computed <= r.tokens.size(), "more tokens are computed than there are");
    r.computed = computed;
  }

  /// The longest beginning of the request that blocks still hold, as those blocks. The last token
  /// is never part of it: it is computed anew, because its output is what the request came for. A
  /// lookup holds nothing: before an admission uses its answer, the blocks may be taken.
  Table lookup(const std::string& name) const {
    const Request& r = requests_.at(name);
    Table hit;
    for (std::size_t end = block_size_; end < r.tokens.size(); end += block_size_) {
      const std::optional<Block> found = pool_.find(r.hashes[hit.size()]);
      if (!found) break;  // a gap: what lies behind it is of no use without it
      hit.push_back(*found);
    }
    return hit;
  }

  /// Makes room for the next `new_tokens` tokens of a request, behind those that are computed or
  /// hit. While its table is empty this is its admission, and `hit` is what lookup found just
  /// before. @return the blocks taken, which now end its table; nullopt: refused, and nothing has
  /// changed.
  ///
  /// It is refused if fewer blocks are free than the sum of
  ///   - the table entries that are missing: each takes a new block;
  ///   - the blocks of the hit that stand in the free queue: they count as free, and will be held;
  ///   - for an admission while others run, the watermark. It is not taken but left to the others:
  ///     each soon wants one more block, and without it somebody would have to be preempted. If
  ///     nobody runs there is nobody to leave it to, and a prompt as long as the pool must not wait
  ///     for ever.
  /// A refused admission waits and tries again. If a request that runs is refused, the engine
  /// preempts one.
  ///
  /// @param others_run whether other requests run in this step
  /// @pre there is a hit or a new token; the tokens are known; a hit only for an empty table, and
  ///      its blocks have not been taken since
  std::optional<Table> allocate(const std::string& name, std::size_t new_tokens,
                                const Table& hit = {}, bool others_run = false) {
    Request& r = requests_.at(name);
    require(new_tokens > 0 || !hit.empty(), "nothing to allocate");
    require(hit.empty() || r.table.empty(), "a hit for a request that has blocks");
    require(still_holds(hit, r), "the hit has been taken since its lookup");
    const std::size_t end = r.computed + hit.size() * block_size_ + new_tokens;  // [tokens]
    require(end <= r.tokens.size(), "room for tokens that are not known");

    const std::size_t entries = (end + block_size_ - 1) / block_size_;  // the last may be partial
    const std::size_t there = r.table.size() + hit.size();
    const std::size_t missing = entries > there ? entries - there : 0;
    const bool admission = r.table.empty();
    const std::size_t left_free = admission && others_run ? watermark_blocks_ : 0;
    if (missing + num_free_of(hit) + left_free > pool_.num_free()) return std::nullopt;

    pool_.touch(hit);  // before any block is taken, or a hit that is free could be among those
    if (admission) {
      r.table = hit;
      r.published = hit.size();
    }
    const Table taken = pool_.take(missing);
    r.table.insert(r.table.end(), taken.begin(), taken.end());
    publish(r, end);
    return taken;
  }

  /// Takes the blocks of a request away. Its tokens stay. It may be looked up and admitted again,
  /// and finds of its own blocks those that have not been evicted by then.
  void preempt(const std::string& name) {
    Request& r = requests_.at(name);
    pool_.release(r.table);
    r.table.clear();
    r.published = 0;
    r.computed = 0;
  }

  /// The request has ended. Its blocks are free, and its content can be found until it is evicted.
  void finish(const std::string& name) {
    preempt(name);
    requests_.erase(name);
  }

  const Request& request(const std::string& name) const { return requests_.at(name); }
  const std::map<std::string, Request>& requests() const { return requests_; }
  const BlockPool& pool() const { return pool_; }

 private:
  /// Whether each block of a hit still has the content for which the request looked it up.
  bool still_holds(const Table& hit, const Request& r) const {
    for (std::size_t i = 0; i < hit.size(); ++i) {
      if (i >= r.hashes.size() || pool_.hash_of(hit[i]) != r.hashes[i]) return false;
    }
    return true;
  }

  /// How many blocks of a hit nobody holds. [blocks]
  std::size_t num_free_of(const Table& hit) const {
    return static_cast<std::size_t>(std::count_if(
        hit.begin(), hit.end(), [&](Block block) { return pool_.references(block) == 0; }));
  }

  /// Publishes the blocks that the first `end` tokens fill. The step of this grant writes their
  /// rows, and whoever finds them runs in this step or a later one, behind it. A block that is not
  /// full has no hash: its next token would change it.
  void publish(Request& r, std::size_t end) {
    for (; (r.published + 1) * block_size_ <= end; ++r.published) {
      pool_.publish(r.table[r.published], r.hashes[r.published]);
    }
  }

  std::size_t block_size_;        // [tokens]
  std::size_t watermark_blocks_;  // [blocks]
  BlockPool pool_;
  ChainedHash hash_;
  std::map<std::string, Request> requests_;
};

}  // namespace kvproof::core
