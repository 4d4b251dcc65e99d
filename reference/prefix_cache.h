// SPDX-License-Identifier: Apache-2.0
// The specification of the prefix cache: which blocks hold which content.
//
// Model:   key -> blocks with that content, oldest registration first. Two blocks may hold the same
//          content: tables are append-only, so a request keeps the second copy that it has made.
// Source:  vLLM v1 BlockHashToBlockMap, with the content itself in place of its hash.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reference/config.h"
#include "reference/request.h"

namespace kvproof::reference {

/// A number that stands for the content of a whole prefix: all its tokens and extra keys.
using ContentId = std::uint32_t;

/// Gives each content a number: equal prefixes have one number and different prefixes never do,
/// which a hash only approximates. Numbers are only ever added, so copies of a model may share one
/// book and stay values.
class ContentBook {
 public:
  static constexpr ContentId kEmptyPrefix = 0;

  /// The prefix `parent` followed by one hash unit.
  [[nodiscard]] ContentId name(ContentId parent, std::span<const TokenId> tokens,
                               std::vector<std::string> extra);

 private:
  std::map<std::tuple<ContentId, std::vector<TokenId>, std::vector<std::string>>, ContentId> names_;
};

/// Extra keys of the hash unit [start, end): the adapter, the images and embedded rows that overlap
/// it (with their offset from its start), and salt and layout if it is the first unit. Each entry
/// starts with its type.
[[nodiscard]] std::vector<std::string> unit_extra(const ExtraKeys& extra, std::uint32_t start,
                                                  std::uint32_t end);

/// The identity of a block: everything that decides its bytes.
struct PrefixKey {
  GroupId group = 0;
  ContentId content = ContentBook::kEmptyPrefix;
  std::uint32_t prefix_tokens = 0;
  auto operator<=>(const PrefixKey&) const = default;
};

class PrefixCache {
 public:
  /// The oldest block with this content; nullopt when there is none.
  [[nodiscard]] std::optional<BlockId> find(const PrefixKey& key) const;

  /// Registers one more block for this content; its key follows those that the block has already.
  void insert(const PrefixKey& key, BlockId block);

  /// Removes the keys of a block. @return the removed keys in the order of their registration
  std::vector<PrefixKey> erase(BlockId block);

  void clear();

  /// The keys of a block. There are several only where prompts end inside of it.
  [[nodiscard]] const std::vector<PrefixKey>& keys_of(BlockId block) const;

  /// The first key of a block; nullptr if it has no key.
  [[nodiscard]] const PrefixKey* key_of(BlockId block) const;
  /// The blocks of each content, and the keys of each block that has some.
  [[nodiscard]] const std::map<PrefixKey, std::vector<BlockId>>& entries() const { return blocks_; }
  [[nodiscard]] const std::map<BlockId, std::vector<PrefixKey>>& carried() const {
    return keys_of_;
  }

 private:
  std::map<PrefixKey, std::vector<BlockId>> blocks_;
  std::map<BlockId, std::vector<PrefixKey>> keys_of_;
};

}  // namespace kvproof::reference
