// SPDX-License-Identifier: Apache-2.0
// Follows the events without any other knowledge, and notes an event that cannot be right.
#include <algorithm>
#include <utility>

#include "properties/laws/history.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

using Entry = Mirror::Entry;

/// The key of a block that covers so many tokens; end() if it has none.
std::vector<Entry>::iterator key_of_length(std::vector<Entry>& keys, GroupId group,
                                           std::uint32_t prefix_tokens) {
  return std::ranges::find_if(
      keys, [&](const Entry& e) { return e.group == group && e.prefix_tokens == prefix_tokens; });
}

/// The key of a prefix that a request has.
std::optional<std::uint64_t> own_key(const RequestState* request, std::size_t units) {
  if (request == nullptr || units == 0 || units > request->hashes.size()) return std::nullopt;
  return request->hashes[units - 1];
}

/// The key under which a block of the host tier lands. It may be that of a relative, which knows
/// more tokens than the request, or others behind the block.
std::optional<std::uint64_t> key_on_host(const Snapshot& before, const RequestState& request,
                                         GroupId group, std::size_t position) {
  if (group >= request.host_tables.size()) return std::nullopt;
  const std::vector<BlockId>& table = request.host_tables[group];
  if (position >= table.size() || table[position] >= before.host.blocks.size()) return std::nullopt;
  const BlockState& source = before.host.blocks[table[position]];
  return source.hashed ? std::optional(source.key) : std::nullopt;
}

}  // namespace

void History::fold_events(const Snapshot& before, const Operation& operation,
                          const Outcome& outcome, const Snapshot& after) {
  mirror.fault.reset();
  if (std::holds_alternative<op::Step>(operation)) new_states.clear();
  const std::size_t older_states = new_states.size();
  const auto& settled = book.settled();
  const std::string& name = settled ? settled->req : request_of(operation);
  // One that ends may publish what it has computed as it goes.
  const RequestState* request = after.find(name);
  if (std::holds_alternative<op::Finish>(operation)) request = before.find(name);
  for (const Event& event : outcome.events) {
    if (const auto* stored = std::get_if<event::Stored>(&event)) {
      mirror_moves();
      mirror_stored(*stored, request, settled ? before.find(name) : nullptr, before);
    } else if (const auto* removed = std::get_if<event::Removed>(&event)) {
      if (removed->block < num_blocks) {
        std::vector<Entry>& known = mirror.blocks[removed->block];
        const auto at = key_of_length(known, removed->group, removed->prefix_tokens);
        if (at != known.end()) {
          forget_state(older_states, *at);
          known.erase(at);
          continue;
        }
      }
      if (!mirror.fault) {
        mirror.fault = Mirror::Fault{"removed without having been stored", removed->block,
                                     removed->prefix_tokens};
      }
    } else {
      for (std::vector<Entry>& known : mirror.blocks) known.clear();
    }
  }
  mirror_moves();
}

// Nobody has to wait for a state whose key came and went in one operation.
void History::forget_state(std::size_t older_states, const Entry& key) {
  const auto fresh = new_states.begin() + static_cast<std::ptrdiff_t>(older_states);
  const auto at = std::find(fresh, new_states.end(), std::pair{key.group, key.key});
  if (at != new_states.end()) new_states.erase(at);
}

// Keys go along with a copied state unannounced, once the block of the copy has lost its own.
void History::mirror_moves() {
  for (const Copy& copy : std::exchange(moved_keys, {})) {
    std::vector<Entry>& to = mirror.blocks[copy.to];
    if (!to.empty() && !mirror.fault) {
      mirror.fault =
          Mirror::Fault{"taken for a copy with a key", copy.to, to.front().prefix_tokens};
    }
    to = std::exchange(mirror.blocks[copy.from], {});
    for (const Entry& key : to) new_states.emplace_back(key.group, key.key);
  }
}

bool History::mirrors(GroupId group, std::uint64_t key) const {
  return std::ranges::any_of(mirror.blocks, [&](const std::vector<Entry>& known) {
    return std::ranges::any_of(known,
                               [&](const Entry& e) { return e.group == group && e.key == key; });
  });
}

// Whoever finds a state of a registration waits for the next step, even if it had its key before.
void History::renew_states(const event::Stored& stored, const RequestState* request) {
  if (request == nullptr || stored.group >= request->tables.size()) return;
  const std::vector<BlockId>& table = request->tables[stored.group];
  const std::uint32_t block_size = config->groups[stored.group].block_size;
  const std::size_t end = std::min<std::size_t>(stored.to / block_size, table.size());
  for (std::size_t i = stored.from / block_size; i < end; ++i) {
    if (table[i] == kNullBlock || table[i] >= num_blocks) continue;
    for (const Entry& e : mirror.blocks[table[i]]) new_states.emplace_back(e.group, e.key);
  }
}

// A registration of tokens [from, to) covers whole blocks, or it is that of a prompt's tail.
// `landed` is the request as it was in the host tier, if its blocks come from there.
void History::mirror_stored(const event::Stored& stored, const RequestState* request,
                            const RequestState* landed, const Snapshot& before) {
  const auto fail = [this](const char* what, const StoredBlock& block) {
    if (!mirror.fault) mirror.fault = Mirror::Fault{what, block.block, block.prefix_tokens};
  };
  if (stored.group >= config->groups.size()) return fail("of a group that does not exist", {});
  if (stored.to <= stored.from) return fail("a registration of nothing", {0, stored.to});
  const GroupConfig& group = config->groups[stored.group];
  const std::uint32_t block_size = group.block_size;
  const bool tail = stored.to % block_size != 0 || stored.from % block_size != 0;
  const bool has_tails = reads_all(group.kind) ? config->profile.prompt_tail != PromptTail::none
                                               : moves_state(group) && config->profile.sparse;
  if (tail && !(has_tails && stored.blocks.size() == 1 && stored.to - stored.from == unit_tokens)) {
    return fail("a registration whose range does not match its blocks", {0, stored.to});
  }
  if (group.kind == LayerKind::mamba && !tail && landed == nullptr) renew_states(stored, request);
  std::uint32_t last = stored.from;
  for (const StoredBlock& block : stored.blocks) {
    const bool whole =
        tail ? block.prefix_tokens == stored.to : block.prefix_tokens % block_size == 0;
    if (!whole || block.prefix_tokens <= last || block.prefix_tokens > stored.to) {
      fail("stored for a prefix that is not in the registration's range", block);
    }
    last = block.prefix_tokens;
    const bool from_host = landed != nullptr && !before.host.blocks.empty();
    mirror_block(stored, block,
                 from_host ? key_on_host(before, *landed, stored.group,
                                         (block.prefix_tokens - 1) / block_size)
                           : own_key(request, block.prefix_tokens / unit_tokens));
  }
  if (tail || landed != nullptr || request == nullptr || mirror.fault) return;
  if (stored.group >= request->tables.size()) return;
  // Every block that the registration leaves out must be null, masked out, or known by its key.
  const RequestRecord* record = find(request->name);
  if (record == nullptr) return;
  const std::vector<BlockId>& table = request->tables[stored.group];
  for (std::uint32_t i = stored.from / block_size; i < stored.to / block_size; ++i) {
    const BlockId block = i < table.size() ? table[i] : kNullBlock;
    if (block == kNullBlock || block >= num_blocks || !keeps(*record, stored.group, i)) continue;
    std::vector<Entry>& known = mirror.blocks[block];
    if (key_of_length(known, stored.group, (i + 1) * block_size) == known.end()) {
      fail("left out of a registration that covers it", {block, (i + 1) * block_size});
    }
  }
}

void History::mirror_block(const event::Stored& stored, const StoredBlock& block,
                           std::optional<std::uint64_t> key) {
  const auto fail = [&](const char* what) {
    if (!mirror.fault) mirror.fault = Mirror::Fault{what, block.block, block.prefix_tokens};
  };
  if (!key) return fail("stored for a prefix that the request does not have there");
  if (block.block >= num_blocks) return fail("stored, but the pool has no such block");
  std::vector<Entry>& known = mirror.blocks[block.block];
  const bool second_keys = config->profile.prompt_tail != PromptTail::none &&
                           reads_all(config->groups[stored.group].kind);
  if (!known.empty() && (!second_keys || known.front().group != stored.group)) {
    return fail("stored while it still holds another key");
  }
  if (key_of_length(known, stored.group, block.prefix_tokens) != known.end()) {
    return fail("stored twice");
  }
  if (config->groups[stored.group].kind == LayerKind::mamba) {
    // What lands was computed before, but for a key that a block on the device keeps.
    if (!book.settled()) new_states.emplace_back(stored.group, *key);
    if (book.settled() && !mirrors(stored.group, *key))
      std::erase(new_states, std::pair{stored.group, *key});
  }
  known.push_back({stored.group, *key, block.prefix_tokens});
}

}  // namespace kvproof::properties
