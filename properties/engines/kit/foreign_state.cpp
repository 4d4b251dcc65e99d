// SPDX-License-Identifier: Apache-2.0
#include "properties/engines/kit/foreign_state.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using Blocks = std::vector<BlockId>;
using Tables = std::vector<Blocks>;

void check_blocks(const Blocks& blocks, std::uint32_t num_blocks, const char* field) {
  for (const BlockId block : blocks) {
    if (block >= num_blocks) {
      throw TextError(field, say("block ids below ", num_blocks, ", found ", block));
    }
  }
}

void check_tables(const Tables& tables, std::size_t num_groups, std::uint32_t num_blocks,
                  const char* field) {
  if (tables.size() != num_groups) {
    throw TextError(field,
                    say("one list for each of ", num_groups, " groups, found ", tables.size()));
  }
  for (const Blocks& table : tables) check_blocks(table, num_blocks, field);
}

BlockState& block_of(PoolState& pool, BlockId block, const char* field) {
  check_blocks({block}, static_cast<std::uint32_t>(pool.blocks.size()), field);
  return pool.blocks[block];
}

template <class Value>
Value listed_or(const std::map<std::string, Value>& listed, const std::string& name,
                Value otherwise) {
  const auto at = listed.find(name);
  return at != listed.end() ? at->second : otherwise;
}

}  // namespace

ForeignState::ForeignState(const CacheConfig& config) : config_(config) {
  snapshot_.blocks.resize(config.num_blocks);
  snapshot_.host.blocks.resize(config.num_host_blocks);
}

void ForeignState::check(const Outcome& outcome) const {
  const std::size_t groups = config_.groups.size();
  const std::uint32_t most = std::max(config_.num_blocks, config_.num_host_blocks);
  if (const auto* hit = std::get_if<Hit>(&outcome.result)) {
    check_tables(hit->blocks, groups, config_.num_blocks, "out");
  } else if (const auto* granted = std::get_if<Granted>(&outcome.result)) {
    for (const Blocks& blocks : granted->blocks) check_blocks(blocks, config_.num_blocks, "out");
    if (granted->blocks.size() > groups) {
      throw TextError("out", say("at most ", groups, " lists of blocks"));
    }
    for (const Copy& copy : granted->copies) check_blocks({copy.from, copy.to}, most, "copies");
    if (granted->hit) check_tables(granted->hit->blocks, groups, config_.num_blocks, "hit");
  } else if (const auto* decoded = std::get_if<Decoded>(&outcome.result)) {
    for (const Tables& tables : decoded->blocks) {
      if (tables.size() > groups) throw TextError("blocks", say("at most ", groups, " lists"));
      for (const Blocks& blocks : tables) check_blocks(blocks, config_.num_blocks, "blocks");
    }
    for (const Copy& copy : decoded->copies) check_blocks({copy.from, copy.to}, most, "copies");
  }
  for (const Event& event : outcome.events) {
    const auto* stored = std::get_if<event::Stored>(&event);
    const auto* removed = std::get_if<event::Removed>(&event);
    const GroupId group = stored != nullptr    ? stored->group
                          : removed != nullptr ? removed->group
                                               : GroupId();
    if (group >= groups) throw TextError("events", say("groups below ", groups));
  }
}

void ForeignState::read(const RecordedState& state, const Promises& promises,
                        const CallerBook& book) {
  const Parts shown = parts_of(state);
  if (read_ && (shown_ & ~shown & ~Parts{kIds | kEvents}) != 0) {
    throw TextError("state", say("what it showed before, found no ", names_of(shown_ & ~shown)));
  }
  if (((shown & kContents) != 0) != promises.contents) {
    throw TextError("contents", promises.contents ? "it in every state, as was said, found none"
                                                  : "it in the answer to the header, too");
  }
  snapshot_.contents.of = state.contents;
  shown_ |= shown;
  read_ = true;
  read_pool(state, config_.num_blocks, snapshot_);
  if (promises.traits.free_list_is_a_set()) {  // laws then see one order, that of the ids
    std::ranges::sort(snapshot_.queue);
    std::ranges::sort(snapshot_.queue_backward, std::ranges::greater());
  }
  snapshot_.host = {};
  snapshot_.host.blocks.resize(config_.num_host_blocks);
  if (state.host && config_.num_host_blocks > 0) {
    read_pool(*state.host, config_.num_host_blocks, snapshot_.host);
  }
  snapshot_.raw = state.raw.value_or(book.raw());
  snapshot_.copying = state.copying.value_or(Blocks());
  snapshot_.leases = state.leases ? *state.leases : book.leases();
  snapshot_.counters = state.counters;
  std::ranges::sort(snapshot_.raw);
  std::ranges::sort(snapshot_.copying);
  std::ranges::sort(snapshot_.leases, {}, &LeaseState::name);
  check_blocks(snapshot_.raw, config_.num_blocks, "raw");
  check_blocks(snapshot_.copying, config_.num_blocks, "copying");
  for (const LeaseState& lease : snapshot_.leases) {
    check_blocks(lease.blocks, config_.num_blocks, "leases");
  }
  // A request that the caller has finished is gone. If it is listed again, its blocks have leaked.
  std::erase_if(listed_, [&](const auto& item) { return book.find(item.first) == nullptr; });
  for (const RequestRecord& known : book.requests()) listed_.try_emplace(known.name);
  list(state, promises.block_ids);
  snapshot_.requests.clear();
  for (const auto& [name, listed] : listed_) {
    const bool leaked =
        std::ranges::any_of(listed.tables, [](const auto& t) { return !t.empty(); });
    if (!leaked && book.find(name) == nullptr) continue;
    snapshot_.requests.push_back(request(name, listed, state, book));
  }
}

void ForeignState::read_pool(const RecordedPool& pool, std::uint32_t num_blocks,
                             PoolState& out) const {
  if (!pool.num_free) throw TextError("free", "the number of free blocks, found none");
  out.num_free = *pool.num_free;
  const double usable = num_blocks > 1 ? num_blocks - 1.0 : 1.0;
  out.usage = pool.usage.value_or(1.0 - out.num_free / usable);
  out.queue = pool.queue.value_or(Blocks());
  check_blocks(out.queue, num_blocks, "queue");
  out.queue_backward = pool.queue_backward.value_or(Blocks(out.queue.rbegin(), out.queue.rend()));
  check_blocks(out.queue_backward, num_blocks, "queue_backward");
  out.blocks.assign(num_blocks, {});
  out.further_keys.clear();
  const Blocks linked = pool.linked.value_or(out.queue);
  for (const BlockId block : linked) block_of(out, block, "linked").linked = true;
  for (const auto& [block, count] : pool.ref.value_or(RecordedPool::Pairs())) {
    block_of(out, BlockId(block), "ref").ref_cnt = count;
  }
  for (const auto& [block, group] : pool.cached.value_or(RecordedPool::Pairs())) {
    if (group >= config_.groups.size()) {
      throw TextError("cached", say("groups below ", config_.groups.size(), ", found ", group));
    }
    BlockState& b = block_of(out, BlockId(block), "cached");
    b.hashed = true;
    b.group = GroupId(group);
  }
  for (const KeyOfBlock& key : pool.key.value_or(std::vector<KeyOfBlock>())) {
    BlockState& b = block_of(out, key.block, "key");
    b.key = key.key;
    b.prefix_tokens = key.prefix_tokens;
  }
  for (const KeyOfBlock& key : pool.tail.value_or(std::vector<KeyOfBlock>())) {
    BlockState& b = block_of(out, key.block, "tail");
    if (b.tail_key) out.further_keys.push_back({key.block, key.key});
    if (!b.tail_key) b.tail_key = key.key;
  }
  std::ranges::stable_sort(out.further_keys, {}, &FurtherKey::block);
  out.index = pool.index.value_or(std::vector<IndexEntry>());
  for (const IndexEntry& entry : out.index) check_blocks(entry.blocks, num_blocks, "index");
  // A block may have two keys: one order, whatever the order in which they were listed.
  std::ranges::sort(out.index, {}, [&](const IndexEntry& e) {
    const BlockId first = e.blocks.empty() ? BlockId{0} : e.blocks.front();
    return std::tuple(first, out.blocks[first].key != e.key, e.group, e.key);
  });
}

void ForeignState::list(const RecordedState& state, bool block_ids) {
  const std::size_t groups = config_.groups.size();
  for (const auto& [name, tables] : state.tables) {
    check_tables(tables, groups, config_.num_blocks, "tables");
    listed_[name].tables = tables;
    listed_[name].host_tables.clear();  // listed below if it is there, too
  }
  for (const auto& [name, lengths] : state.lengths) {
    if (block_ids) continue;
    if (lengths.size() != groups) throw TextError("lens", say("one number for each of ", groups));
    Tables& tables = listed_[name].tables;
    tables.clear();
    for (const std::uint32_t length : lengths) {
      if (length > config_.max_model_len + std::uint64_t{config_.num_blocks}) {
        throw TextError("lens", "lengths that a request can have");
      }
      tables.emplace_back(length, kNullBlock);
    }
  }
  for (const auto& [name, tables] : state.host_tables) {
    if (!tables.empty()) check_tables(tables, groups, config_.num_host_blocks, "host_tables");
    listed_[name].host_tables = tables;
  }
  for (const auto& [name, progress] : state.progress) {
    if (progress.size() != groups) {
      throw TextError("progress", say("one number or null for each of ", groups, " groups"));
    }
    listed_[name].progress = progress;
  }
  for (const auto& [name, hashes] : state.hashes) listed_[name].hashes = hashes;
}

RequestState ForeignState::request(const std::string& name, const Listed& listed,
                                   const RecordedState& state, const CallerBook& book) const {
  const std::size_t groups = config_.groups.size();
  const RequestRecord* known = book.find(name);
  RequestState out;
  out.name = name;
  out.num_tokens = listed_or(state.tokens, name, known != nullptr ? known->num_tokens : 0);
  out.computed = listed_or(state.computed, name, known != nullptr ? known->computed : 0);
  out.hashes = listed.hashes;
  out.tables = listed.tables.empty() ? Tables(groups) : listed.tables;
  out.host_tables = listed.host_tables;
  out.progress = listed.progress;
  if (out.progress.empty()) out.progress.resize(groups);
  return out;
}

}  // namespace kvproof::properties
