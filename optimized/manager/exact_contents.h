// SPDX-License-Identifier: Apache-2.0
// The exact contents of blocks, by which a hit is checked token by token: a hash collision can cost
// a hit, but never serve wrong content.
//
// Model:   every published content has a number; a block remembers its own, that of the block
//          before it, the tokens and the extra keys that its key covers. Two blocks hold the same
//          iff all of that agrees, so one comparison per block checks the whole prefix.
// Source:  ours; LMDeploy's trie and nano-vllm compare tokens, too.
// Leaves out: groups that do not read every token, and the host tier, where the block before is not
//          at hand. Content that was evicted and computed again is new: blocks behind it are not
//          hit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "optimized/manager/requests.h"
#include "optimized/pool/hashing.h"
#include "optimized/pool/huge_pages.h"
#include "optimized/pool/prefix_index.h"

namespace kvproof::optimized {

class ExactContents {
 public:
  using ContentNumber = std::uint64_t;
  static constexpr ContentNumber kNoPrefix = 0;

  /// The content that a position of a request's table has to hold.
  struct Expected {
    ContentNumber before = kNoPrefix;  // number() of the block before it
    std::span<const TokenId> tokens;   // shape [block_size + lookahead]
    std::uint32_t start = 0;           // [tokens] position of the first of them
    const SharedExtraKeys& extra;      // of the request
  };

  /// @param lookahead [tokens] behind a block that its key covers
  ExactContents(std::uint32_t num_blocks, std::uint32_t block_size, std::uint32_t lookahead = 0)
      : block_size_(block_size),
        covered_(block_size + lookahead),
        notes_(num_blocks),
        tokens_(std::size_t{num_blocks} * covered_),
        extra_(num_blocks) {}

  /// Makes room for the extra keys of a request, so that comparing them does not allocate.
  void reserve(const ExtraKeys& extra) {
    held_text_.reserve(extra_key_bytes(extra));
    expected_text_.reserve(extra_key_bytes(extra));
  }

  /// The number of the content that the block held when it was last published.
  [[nodiscard]] ContentNumber number(BlockId block) const { return notes_[block].own; }

  [[nodiscard]] bool holds(BlockId block, const Expected& expected) {
    const Note& note = notes_[block];
    const TokenId* tokens = &tokens_[std::size_t{block} * covered_];
    if (note.before != expected.before) return false;
    if (std::memcmp(tokens, expected.tokens.data(), expected.tokens.size_bytes()) != 0)
      return false;
    // The prefixes before them are equal, so both start at the same position.
    return extra_[block] == expected.extra ||
           text(extra_[block], expected.start, held_text_) ==
               text(expected.extra, expected.start, expected_text_);
  }

  /// The oldest block under `key` that holds the expected content, or kNoBlock.
  template <class Key>
  [[nodiscard]] BlockId find(const PrefixIndex<Key>& index, const Key& key,
                             const Expected& expected) {
    BlockId block = index.find(key);
    while (block != kNoBlock && !holds(block, expected)) block = index.next_copy(block);
    return block;
  }

  /// Notes the content of a block that is about to be published under `key`. Equal contents get the
  /// same number.
  template <class Key>
  void note(const PrefixIndex<Key>& index, const Key& key, BlockId block,
            const Expected& expected) {
    const BlockId twin = find(index, key, expected);
    notes_[block] = {twin == kNoBlock ? ++last_number_ : notes_[twin].own, expected.before};
    std::ranges::copy(expected.tokens, &tokens_[std::size_t{block} * covered_]);
    extra_[block] = expected.extra;
  }

  /// The content that position `position` of a request must hold behind block `before`; kNullBlock
  /// for the first position.
  template <class Digest>
  [[nodiscard]] Expected expected(const RequestTable<Digest>& requests, RequestId id,
                                  std::uint32_t position, BlockId before) const {
    const std::uint32_t start = position * block_size_;
    return {before == kNullBlock ? kNoPrefix : number(before),
            {requests.tokens(id) + start, covered_},
            start,
            requests.extra(id)};
  }

  /// Notes the contents of the blocks that are complete within `tokens` tokens and will be
  /// published.
  template <class Digest>
  void note_complete(const RequestTable<Digest>& requests, RequestId id, const GroupTable& table,
                     std::uint64_t tokens, const BlockPool<typename Digest::Key>& pool) {
    const auto& request = requests[id];
    const auto known = std::min<std::uint64_t>(tokens / block_size_, request.num_hashes);
    const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(known, table.length));
    for (std::uint32_t i = table.progress(); i < end; ++i) {
      if (pool.holds_whole(table.blocks[i])) continue;  // a fork has published it
      const BlockId before = i == 0 ? kNullBlock : table.blocks[i - 1];
      note(pool.index(), request.hashes[i], table.blocks[i], expected(requests, id, i, before));
    }
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return notes_.size() * sizeof(Note) + tokens_.size() * sizeof(TokenId) +
           extra_.size() * sizeof(SharedExtraKeys);
  }

 private:
  struct Note {
    ContentNumber own = kNoPrefix;
    ContentNumber before = kNoPrefix;
  };

  /// The extra keys of the block at `start`, as append_extra_keys() writes them.
  const std::string& text(const SharedExtraKeys& extra, std::uint32_t start, std::string& out) {
    out.clear();
    if (extra) append_extra_keys(*extra, start, start + covered_, out);
    return out;
  }

  std::uint32_t block_size_;  // [tokens]
  std::uint32_t covered_;     // [tokens] by the key of a block
  ContentNumber last_number_ = kNoPrefix;
  HugeVector<Note> notes_;              // shape [num_blocks]
  HugeVector<TokenId> tokens_;          // shape [num_blocks, covered]
  std::vector<SharedExtraKeys> extra_;  // shape [num_blocks]; of the request that published it
  std::string held_text_;
  std::string expected_text_;
};

}  // namespace kvproof::optimized
