// SPDX-License-Identifier: Apache-2.0
// The events of the prefix index, for routers and mirrors that follow it from outside.
//
// Model:   a buffer of fixed capacity. take() empties it; events that do not fit are counted as
//          lost, and a mirror that sees a loss has to start over.
// Source:  vLLM v1 KV cache events (BlockStored, BlockRemoved, AllBlocksCleared).
// Memory:  nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/ids.h"
#include "reference/outcomes.h"

namespace kvproof::optimized {

/// Tokens [from, to) of a request.
struct TokenRange {
  std::uint32_t from;
  std::uint32_t to;
};

class EventLog {
 public:
  /// @param capacity [records] between two calls of take(); 0 switches events off. A registration
  /// of n blocks takes n + 1 records. @param num_blocks sizes the side array of prefix lengths.
  EventLog(std::uint32_t capacity, std::uint32_t num_blocks)
      : capacity_(capacity), prefix_tokens_(capacity > 0 ? num_blocks : 0) {
    records_.reserve(capacity);
  }

  [[nodiscard]] bool enabled() const { return capacity_ > 0; }
  [[nodiscard]] std::uint64_t num_lost() const { return num_lost_; }

  /// Tokens that the key of a block covers; 0 when events are off.
  [[nodiscard]] std::uint32_t prefix_tokens(BlockId block) const {
    return enabled() ? prefix_tokens_[block] : 0;
  }

  /// Opens a registration of tokens; one stored_block() per block follows.
  void stored(GroupId group, TokenRange tokens) {
    if (enabled()) add({Kind::stored, group, tokens.from, tokens.to});
  }
  void stored_block(BlockId block, std::uint32_t prefix_tokens) {
    if (!enabled()) return;
    prefix_tokens_[block] = prefix_tokens;
    add({Kind::stored_block, block, prefix_tokens, 0});
  }
  /// As stored_block(), for a key beside the block's first one.
  void second_key(BlockId block, std::uint32_t prefix_tokens) {
    if (enabled()) add({Kind::stored_block, block, prefix_tokens, 0});
  }
  /// The key of one block is now that of another; nothing is announced.
  void moved(BlockId from, BlockId to) {
    if (enabled()) prefix_tokens_[to] = prefix_tokens_[from];
  }
  void removed(GroupId group, BlockId block) {
    if (enabled()) removed_prefix(group, block, prefix_tokens_[block]);
  }
  void removed_prefix(GroupId group, BlockId block, std::uint32_t prefix_tokens) {
    if (enabled()) add({Kind::removed, group, block, prefix_tokens});
  }
  void cleared() {
    if (enabled()) add({Kind::cleared, 0, 0, 0});
  }

  /// The events since the last call, in order.
  [[nodiscard]] std::vector<Event> take();

  [[nodiscard]] std::uint64_t bytes() const {
    return capacity_ * sizeof(Record) + prefix_tokens_.size() * sizeof(std::uint32_t);
  }

 private:
  enum class Kind : std::uint32_t { stored, stored_block, removed, cleared };
  struct Record {
    Kind kind;
    std::uint32_t a, b, c;
  };

  void add(Record record) {
    if (records_.size() == capacity_) {
      ++num_lost_;
    } else {
      records_.push_back(record);
    }
  }

  std::uint32_t capacity_;
  std::uint64_t num_lost_ = 0;
  std::vector<Record> records_;
  std::vector<std::uint32_t> prefix_tokens_;  // shape [num_blocks], empty when events are off
};

}  // namespace kvproof::optimized
