// SPDX-License-Identifier: Apache-2.0
// The manager of one layer group: the blocks that a request needs, takes, publishes and gives back.
//
// Model:   as reference/layer_group.h, block for block; without allocation. When a step
//          has work here stands in the table: slots_end, publish_end, recycle_at.
// Source:  vLLM v1 SingleTypeKVCacheManager and its subclasses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "optimized/manager/admission.h"
#include "optimized/manager/group_table.h"
#include "optimized/pool/block_pool.h"
#include "reference/config.h"
#include "reference/layer_rules.h"

namespace kvproof::optimized {

/// What a request has that may be published.
template <class Key>
struct Content {
  const Key* units = nullptr;  // keys of its hash units, shape [num_units]
  std::uint32_t num_units = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t junction = 0;  // [tokens] see boundaries_of()
};

/// A copy of a block that an allocation has made in place of a shared one.
struct TailCopy {
  BlockId from = kNullBlock;  // null: there is none
  BlockId to = kNullBlock;
};

/// Its members never change; it changes the tables that it is given.
template <class Key>
class LayerGroup {
 public:
  using Pool = BlockPool<Key>;

  LayerGroup(const CacheConfig& config, GroupId id);

  [[nodiscard]] const GroupConfig& config() const { return group_; }
  [[nodiscard]] GroupId id() const { return id_; }
  [[nodiscard]] std::uint32_t block_size() const { return group_.block_size; }
  [[nodiscard]] std::uint32_t units_per_block() const { return units_per_block_; }

  /// The most table positions of a request of `tokens` tokens.
  [[nodiscard]] std::size_t positions(std::uint64_t tokens, std::uint32_t encoder_tokens) const;

  /// What of a request may be published. @param r see requests.h
  template <class Request>
  [[nodiscard]] static Content<Key> content_of(const Request& r) {
    return {r.hashes, r.num_hashes, r.prompt_tokens, r.junction};
  }

  /// The key of a prefix, from the keys of the request's hash units. @pre a multiple of the unit
  [[nodiscard]] Key key_of_prefix(const Key* units, std::uint64_t tokens) const {
    return in_group(units[tokens / resumption_.unit - 1], id_);
  }
  /// The block that has this prefix; kNoBlock = none.
  [[nodiscard]] BlockId find_prefix(const Pool& pool, const Key* units,
                                    std::uint64_t tokens) const {
    const Key key = key_of_prefix(units, tokens);
    return tokens % group_.block_size == 0 ? pool.index().find(key) : pool.find_tail(key);
  }

  /// The key of position `i`, from the keys of the request's hash units.
  [[nodiscard]] Key key(const Key* units, std::size_t i) const {
    return in_group(units[(i + 1) * units_per_block_ - 1], id_);
  }

  /// The number of positions that the table must have in the end.
  [[nodiscard]] std::uint64_t wanted(const Demand& demand) const;

  /// The number of blocks that the allocation takes out of the free queue. It is negative if the
  /// table holds more states than the allocation asks for.
  [[nodiscard]] std::int64_t need(const GroupTable& table, std::span<const BlockId> hit,
                                  const Demand& demand, const Pool& pool) const;

  /// The length of the prefix by whose key position `i` of a hit was found. [tokens]
  [[nodiscard]] std::uint32_t hit_end(const GroupTable& table, std::uint32_t i) const {
    return std::min((i + 1) * group_.block_size, table.hit_found);
  }
  /// Whether the block carries the key of that prefix.
  [[nodiscard]] bool carries(BlockId block, const Content<Key>& content, std::uint32_t tokens,
                             const Pool& pool) const;

  /// Makes a hit the beginning of the table. @param hit the blocks of the last lookup
  void add_hit(GroupTable& table, std::span<const BlockId> hit, const Demand& demand,
               Pool& pool) const;
  void add_external(GroupTable& table, const Demand& demand, Pool& pool) const {
    extend(table, loaded(demand), pool);
  }

  /// Notes how far the running state will have come, and the checkpoint that meeting the demand
  /// will reserve, or that there is none.
  void note_state(GroupTable& table, const Demand& demand, std::uint32_t num_tokens) const;

  /// Extends the table. @return the number of blocks taken
  /// @param copy set if the block in which a hit or an own state ends is not written but copied
  std::uint32_t allocate(GroupTable& table, const Demand& demand, Pool& pool, TailCopy& copy) const;

  /// Gives back the blocks that the group does not read any more once `computed` tokens are cached.
  void recycle(GroupTable& table, std::uint64_t computed, std::uint32_t prompt_tokens,
               Pool& pool) const;

  /// The same, of what is due after a step: usually one block. @pre computed >= table.recycle_at
  [[gnu::always_inline]] void recycle_due(GroupTable& table, std::uint32_t computed,
                                          std::uint32_t prompt_tokens, Pool& pool) const {
    const std::uint32_t at = table.kept_from;
    const bool one = recycles_singly_ && computed < table.recycle_at + group_.block_size;
    if (!one || at >= table.length) return recycle(table, computed, prompt_tokens, pool);
    if (table.blocks[at] != kNullBlock) pool.release_one(table.blocks[at]);
    table.blocks[at] = kNullBlock;
    table.kept_from = at + 1;
    table.recycle_at += group_.block_size;
  }

  /// Publishes what is complete within `tokens` tokens: blocks, the end of the prompt, states.
  void publish(GroupTable& table, const Content<Key>& content, std::uint64_t tokens,
               Pool& pool) const;

  /// Publishes the blocks that `complete` tokens complete, usually only the next. @pre there is
  /// one, and the group is not Mamba, whose new states would have to be marked
  template <class Request>
  [[gnu::always_inline]] void publish_due(GroupTable& table, const Request& r,
                                          std::uint32_t complete, Pool& pool) const {
    const std::uint32_t end = table.publish_end;
    if (!publishes_singly_ || complete >= end + group_.block_size) {
      return publish(table, content_of(r), complete, pool);
    }
    const std::uint32_t at = table.progress();
    const BlockId block = table.blocks[at];
    pool.events().stored(id_, {end - group_.block_size, end});
    if (block != kNullBlock) pool.publish(block, key(r.hashes, at), id_, end);
    table.published = at + 1;
    table.publish_end = end + group_.block_size;
  }
  /// Publishes the next block.
  /// @pre it is complete, the pool and the group are plain, the request runs
  template <class Request>
  [[gnu::always_inline]] static void publish_plain(GroupTable& table, const Request& r,
                                                   std::uint32_t block_size, Pool& pool) {
    const std::uint32_t at = table.published;
    pool.publish_later(table.blocks[at], r.hashes[at]);
    table.published = at + 1;
    table.publish_end += block_size;
  }

  /// Releases the whole table, deepest first, and forgets the request.
  void release(GroupTable& table, Pool& pool) const;
  /// Releases only the blocks; the facts about the request stay, e.g. while it is on the host.
  void release_blocks(GroupTable& table, Pool& pool) const;

  /// Whether steps write into blocks that may have other holders. Encoder rows are written once,
  /// and a running state is never forked.
  [[nodiscard]] bool is_written_again() const { return kvproof::is_written_again(group_.kind); }
  /// The positions [first, second) that an allocation writes and that are not published.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> written(const GroupTable& table,
                                                                const Demand& demand) const;

  /// Whether it is the first group, and every block has a key and is published as soon as it is
  /// complete, under the key of the one hash unit that it has.
  [[nodiscard]] bool plain() const {
    return id_ == 0 && publishes_singly_ && units_per_block_ == 1 && reads_all(group_.kind);
  }

  /// Blocks that are missing for `slots` tokens. @pre there are not slots enough
  [[nodiscard]] std::uint32_t missing(const GroupTable& table, std::uint32_t slots) const {
    const std::uint32_t tokens = slots - table.slots_end;
    return tokens <= group_.block_size ? 1 : ceil_div(tokens, group_.block_size);
  }

  /// Takes that many blocks. @pre there is room for them
  void append(GroupTable& table, std::uint32_t count, Pool& pool) const {
    if (count == 1) {
      table.blocks[table.length] = pool.take_one();
    } else {
      pool.take({table.blocks + table.length, count});
    }
    set_length(table, table.length + count);
  }

  /// As append() of one block, in a plain pool and group. @return the block
  [[gnu::always_inline]] static BlockId append_plain(GroupTable& table, std::uint32_t block_size,
                                                     Pool& pool) {
    const BlockId block = pool.template take_one<true>();
    table.grown_from = table.length;
    table.blocks[table.length++] = block;
    table.slots_end += block_size;
    return block;
  }

  void set_length(GroupTable& table, std::uint32_t length) const {
    table.length = length;
    table.slots_end = length * group_.block_size;
    const bool made_at_once = group_.kind == LayerKind::cross || group_.kind == LayerKind::ring;
    if (made_at_once && length > 0) table.slots_end = kNever;
  }
  void set_kept_from(GroupTable& table, std::uint32_t kept_from) const;
  void set_published(GroupTable& table, std::uint32_t published) const {
    table.published = published;
    if (!caching_) return;  // nor is a ring ever published
    table.publish_end = (table.progress() + 1) * group_.block_size;
    if (align_ != group_.block_size && !publishes_ahead_) {  // groups publish together
      table.publish_end =
          static_cast<std::uint32_t>(ceil_div<std::uint64_t>(table.publish_end, align_) * align_);
    }
  }

 private:
  [[nodiscard]] std::uint64_t blocks_of(std::uint64_t tokens) const {
    return ceil_div<std::uint64_t>(tokens, group_.block_size);
  }
  [[nodiscard]] std::uint64_t loaded(const Demand& demand) const;
  [[nodiscard]] bool ends_inside(std::span<const BlockId> hit, const Demand& demand) const {
    return !hit.empty() && demand.local % group_.block_size != 0;
  }
  [[nodiscard]] std::int64_t fresh_states(const GroupTable& table, std::span<const BlockId> hit,
                                          std::int64_t start, const Demand& demand) const;
  [[nodiscard]] std::uint64_t checkpoint_tokens(const GroupTable& table,
                                                const Demand& demand) const;
  void extend(GroupTable& table, std::uint64_t length, Pool& pool) const;
  std::uint32_t allocate_states(GroupTable& table, std::uint64_t want, Pool& pool,
                                TailCopy& copy) const;
  void recycle_range(GroupTable& table, std::uint32_t from, std::uint32_t to, bool over_gaps,
                     Pool& pool) const;
  void publish_blocks(GroupTable& table, const Content<Key>& content, std::uint64_t tokens,
                      Pool& pool) const;
  /// Publishes blocks that follow one another. @param units keys, from the first unit of the first
  /// block on @param begin [tokens] at which that begins
  template <bool kPlain>
  void publish_run(std::span<const BlockId> blocks, const Key* units, std::uint32_t begin,
                   Pool& pool) const;
  void publish_chosen(GroupTable& table, const Content<Key>& content, std::uint32_t from,
                      std::uint32_t to, Pool& pool) const;
  void publish_prompt_tail(const GroupTable& table, const Content<Key>& content,
                           std::uint64_t tokens, Pool& pool) const;
  void publish_states(GroupTable& table, const Content<Key>& content, std::uint64_t tokens,
                      Pool& pool) const;
  void publish_state_tail(GroupTable& table, const Content<Key>& content, std::uint64_t tokens,
                          Pool& pool) const;
  void publish_checkpoint(const GroupTable& table, const Content<Key>& content,
                          std::uint64_t tokens, Pool& pool) const;
  /// Publishes the state in which `tokens` tokens end, under that key alone.
  void publish_state(BlockId block, const Content<Key>& content, std::uint32_t tokens,
                     Pool& pool) const;
  void recycle_last_state(GroupTable& table, std::uint64_t basis, Pool& pool) const;

  Profile profile_;
  GroupConfig group_;
  GroupId id_;
  std::uint32_t units_per_block_;
  bool caching_;
  std::uint64_t align_;    // [tokens]
  bool publishes_ahead_;   // one block beyond the alignment, for EAGLE
  bool publishes_singly_;  // it publishes every block, as soon as it is complete
  bool recycles_singly_;   // it gives every block back, as soon as that is not read any more
  CacheMask mask_;
  Resumption resumption_;
  std::optional<std::uint32_t> retention_;
  std::optional<std::uint64_t> cap_;
};

template <class Key>
[[nodiscard]] std::vector<LayerGroup<Key>> make_groups(const CacheConfig& config) {
  std::vector<LayerGroup<Key>> out;
  for (GroupId g = 0; g < config.groups.size(); ++g) out.emplace_back(config, g);
  return out;
}  // unreached: code of this line runs when memory is refused

}  // namespace kvproof::optimized
