// SPDX-License-Identifier: Apache-2.0
// The host tier: a second pool with its own queue and index, and the swaps between the two.
//
// A swap starts by holding blocks on the other side and naming the copies; until it is completed
// both sides keep their blocks. Content that the other side has already is not copied.
#include <algorithm>
#include <utility>

#include "reference/cache_manager.h"
#include "reference/contract.h"
#include "reference/operations.h"

namespace kvproof::reference {
namespace {

/// The key of a whole block; nullptr if it has no key, or only one for the end of a prompt.
const PrefixKey* whole_key(const BlockPool& pool, BlockId block, std::uint32_t block_size) {
  const PrefixKey* key = pool.cache().key_of(block);
  return key != nullptr && key->prefix_tokens % block_size == 0 ? key : nullptr;
}

}  // namespace

// @return nullopt, with nothing changed, when the other side is short of blocks.
std::optional<Granted> CacheManager::start_copies(const std::vector<Blocks>& source,
                                                  const BlockPool& from, BlockPool& to,
                                                  std::vector<Blocks>& target) {
  Blocks found;
  std::size_t missing = 0;
  target = source;
  for (GroupId g = 0; g < target.size(); ++g) {
    for (BlockId& block : target[g]) {
      if (block == kNullBlock) continue;
      const PrefixKey* carried = whole_key(from, block, config_.groups[g].block_size);
      const auto twin = carried == nullptr ? std::nullopt : to.cache().find(*carried);
      block = twin.value_or(kNullBlock);
      if (twin) {
        found.push_back(*twin);
      } else {
        ++missing;
      }
    }
  }
  const auto revived =
      std::ranges::count_if(found, [&](BlockId block) { return to.ref_cnt(block) == 0; });
  if (missing + static_cast<std::size_t>(revived) > to.num_free()) return std::nullopt;
  to.touch(found);  // before taking: a twin may stand in the free queue
  Granted out;
  for (std::size_t g = 0; g < source.size(); ++g) {
    for (std::size_t i = 0; i < source[g].size(); ++i) {
      if (source[g][i] == kNullBlock || target[g][i] != kNullBlock) continue;
      target[g][i] = to.take(1).front();
      out.copies.push_back({source[g][i], target[g][i]});
    }
  }
  return out;
}

void CacheManager::expect_new_transfer(const std::string& name) const {
  expects(!transfers_.contains(name) && !name.empty(), Breach::duplicate_transfer,
          "swap under a transfer in use, or without a name");
}

Result CacheManager::perform(const op::SwapOut& o) {
  request(o.req);
  expect_new_transfer(o.transfer);
  Request& r = resident(o.req);
  expects(host_.num_blocks() > 0, Breach::not_supported, "swap without a host tier");
  std::vector<Blocks> tables;
  for (const GroupTable& table : r.groups) tables.push_back(table.blocks);
  expects(std::ranges::any_of(tables, [](const Blocks& b) { return !b.empty(); }),
          Breach::not_in_transfer, "swap out of a request without blocks");
  std::vector<Blocks> target;
  std::optional<Granted> granted = start_copies(tables, pool_, host_, target);
  if (!granted) return Refused{};
  r.host = target;
  r.transfer = o.transfer;
  transfers_[o.transfer] = {o.req, true};
  return *granted;
}

Result CacheManager::perform(const op::SwapIn& o) {
  Request& r = request(o.req);
  expect_new_transfer(o.transfer);
  expects(r.transfer.empty(), Breach::in_transfer, "swap in while a transfer is in flight");
  expects(!r.host.empty(), Breach::not_in_transfer, "swap in of a request that is not swapped out");
  std::vector<Blocks> target;
  std::optional<Granted> granted = start_copies(r.host, host_, pool_, target);
  if (!granted) return Refused{};
  for (GroupId g = 0; g < r.groups.size(); ++g) r.groups[g].blocks = target[g];
  r.transfer = o.transfer;
  transfers_[o.transfer] = {o.req, false};
  return *granted;
}

Result CacheManager::perform(const op::Complete& o) {
  const auto at = transfers_.find(o.transfer);
  expects(at != transfers_.end(), Breach::unknown_transfer, "complete of no transfer in flight");
  Request& r = request(at->second.req);
  if (at->second.out) {
    settle_out(r, o.ok);
  } else {
    settle_in(r, o.ok);
  }
  r.transfer.clear();
  transfers_.erase(at);
  return {};
}

void CacheManager::settle_out(Request& r, bool ok) {
  if (!ok) return release_host(r);
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    GroupTable& table = r.groups[g];
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      const PrefixKey* carried = whole_key(pool_, table.blocks[i], config_.groups[g].block_size);
      const BlockId twin = r.host[g][i];
      if (carried == nullptr || host_.cache().key_of(twin) != nullptr) continue;
      host_.publish(g, {twin}, {*carried}, 0, carried->prefix_tokens);
    }
    pool_.release({table.blocks.rbegin(), table.blocks.rend()});
    table.blocks.clear();
    table.hit.clear();
    table.tail.reset();  // what others look up stays in the block that is given back
    r.host_progress.push_back(std::exchange(table.published, std::nullopt));
  }
  r.hit_tokens = 0;
}

// Blocks that carry a key on the host can be found in the device pool again.
void CacheManager::settle_in(Request& r, bool ok) {
  for (GroupId g = 0; g < r.groups.size(); ++g) {
    GroupTable& table = r.groups[g];
    if (!ok) {
      pool_.release({table.blocks.rbegin(), table.blocks.rend()});
      table.blocks.clear();
      continue;
    }
    table.published = r.host_progress[g];
    Blocks blocks;
    std::vector<PrefixKey> keys;
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      const PrefixKey* carried = host_.cache().key_of(r.host[g][i]);  // only whole blocks have one
      if (carried == nullptr || pool_.cache().key_of(table.blocks[i]) != nullptr) continue;
      blocks.push_back(table.blocks[i]);
      keys.push_back(*carried);
      if (!pool_.cache().find(*carried)) new_states_.erase(*carried);  // it was computed before
    }
    if (!blocks.empty()) pool_.publish(g, blocks, keys, 0, keys.back().prefix_tokens);
  }
  if (ok) release_host(r);
}

void CacheManager::release_host(Request& r) {
  for (const Blocks& table : r.host) host_.release({table.rbegin(), table.rend()});
  r.host.clear();
  r.host_progress.clear();
}

}  // namespace kvproof::reference
