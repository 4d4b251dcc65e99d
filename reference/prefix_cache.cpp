// SPDX-License-Identifier: Apache-2.0
#include "reference/prefix_cache.h"

#include <utility>

namespace kvproof::reference {
ContentId ContentBook::name(ContentId parent, std::span<const TokenId> tokens,
                            std::vector<std::string> extra) {
  const auto next = static_cast<ContentId>(names_.size() + 1);
  std::vector<TokenId> own(tokens.begin(), tokens.end());
  return names_.try_emplace({parent, std::move(own), std::move(extra)}, next).first->second;
}

std::vector<std::string> unit_extra(const ExtraKeys& extra, std::uint32_t start,
                                    std::uint32_t end) {
  std::vector<std::string> out;
  if (!extra.lora.empty()) out.push_back("lora:" + extra.lora);
  for (const MultimodalItem& item : extra.mm) {
    const std::uint64_t item_end = std::uint64_t{item.offset} + item.length;
    if (item.offset >= end || item_end <= start) continue;
    const std::int64_t shift = std::int64_t{item.offset} - std::int64_t{start};
    out.push_back("mm:" + std::to_string(shift) + ":" + item.id);
  }
  if (start == 0 && !extra.salt.empty()) out.push_back("salt:" + extra.salt);
  return out;
}

std::optional<BlockId> PrefixCache::find(const PrefixKey& key) const {
  const auto at = blocks_.find(key);
  if (at == blocks_.end()) return std::nullopt;
  return at->second.front();
}

void PrefixCache::insert(const PrefixKey& key, BlockId block) {
  blocks_[key].push_back(block);
  key_of_.emplace(block, key);
}

std::optional<PrefixKey> PrefixCache::erase(BlockId block) {
  const auto at = key_of_.find(block);
  if (at == key_of_.end()) return std::nullopt;
  PrefixKey key = at->second;
  key_of_.erase(at);
  std::vector<BlockId>& copies = blocks_[key];
  std::erase(copies, block);
  if (copies.empty()) blocks_.erase(key);
  return key;
}

void PrefixCache::clear() {
  blocks_.clear();
  key_of_.clear();
}

const PrefixKey* PrefixCache::key_of(BlockId block) const {
  const auto at = key_of_.find(block);
  return at == key_of_.end() ? nullptr : &at->second;
}

}  // namespace kvproof::reference
