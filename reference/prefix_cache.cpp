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
  const auto add_overlapping = [&](const char* type, const std::vector<MultimodalItem>& items) {
    for (const MultimodalItem& item : items) {
      const std::uint64_t item_end = std::uint64_t{item.offset} + item.length;
      if (item.offset >= end || item_end <= start) continue;
      const std::int64_t shift = std::int64_t{item.offset} - std::int64_t{start};
      out.push_back(type + std::to_string(shift) + ":" + item.id);
    }
  };
  if (!extra.lora.empty()) out.push_back("lora:" + extra.lora);
  if (!extra.lora_path.empty()) out.push_back("path:" + extra.lora_path);
  add_overlapping("mm:", extra.mm);
  add_overlapping("embeds:", extra.embeds);
  if (start == 0 && !extra.salt.empty()) out.push_back("salt:" + extra.salt);
  if (start == 0 && !extra.layout.empty()) out.push_back("layout:" + extra.layout);
  return out;
}

std::optional<BlockId> PrefixCache::find(const PrefixKey& key) const {
  const auto at = blocks_.find(key);
  if (at == blocks_.end()) return std::nullopt;
  return at->second.front();
}

void PrefixCache::insert(const PrefixKey& key, BlockId block) {
  blocks_[key].push_back(block);
  keys_of_[block].push_back(key);
}

std::vector<PrefixKey> PrefixCache::erase(BlockId block) {
  std::vector<PrefixKey> keys = keys_of(block);
  keys_of_.erase(block);
  for (const PrefixKey& key : keys) {
    std::vector<BlockId>& copies = blocks_[key];
    std::erase(copies, block);
    if (copies.empty()) blocks_.erase(key);
  }
  return keys;
}

void PrefixCache::clear() {
  blocks_.clear();
  keys_of_.clear();
}

const std::vector<PrefixKey>& PrefixCache::keys_of(BlockId block) const {
  static const std::vector<PrefixKey> kNone;
  const auto at = keys_of_.find(block);
  return at == keys_of_.end() ? kNone : at->second;
}

const PrefixKey* PrefixCache::key_of(BlockId block) const {
  const std::vector<PrefixKey>& keys = keys_of(block);
  return keys.empty() ? nullptr : &keys.front();
}

}  // namespace kvproof::reference
