// SPDX-License-Identifier: Apache-2.0
#include "reference/trace_state.h"

#include "reference/trace_fields.h"

namespace kvproof {
namespace {

using namespace fields;  // NOLINT: the words of this file
using nlohmann::ordered_json;

/// Reads a key as its owner writes it: a whole number as it is, any text as its fingerprint
/// (FNV-1a).
std::uint64_t key_of(const json& value, const char* field) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer()) return static_cast<std::uint64_t>(value.get<std::int64_t>());
  if (!value.is_string()) throw TextError(field, "keys that are whole numbers or strings");
  std::uint64_t out = 0xcbf29ce484222325U;
  for (const char c : value.get_ref<const std::string&>()) {
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return out;
}

std::vector<KeyOfBlock> keys_of_blocks(const json& value, const char* field) {
  std::vector<KeyOfBlock> out;
  for (const json& item : array(value, field)) {
    if (!item.is_array() || item.size() < 2 || item.size() > 3) {
      throw TextError(field, "[block, key] or [block, key, tokens]");
    }
    const std::uint32_t tokens = item.size() == 3 ? integer<std::uint32_t>(item[2], field) : 0;
    out.push_back({integer<BlockId>(item[0], field), key_of(item[1], field), tokens});
  }
  return out;
}

std::vector<IndexEntry> index_entries(const json& value) {
  std::vector<IndexEntry> out;
  for (const json& item : array(value, "index")) {
    if (!item.is_array() || item.size() != 3) throw TextError("index", "[group, key, [blocks]]");
    out.push_back({integer<GroupId>(item[0], "index"), key_of(item[1], "index"),
                   integers<BlockId>(item[2], "index")});
  }
  return out;
}

void read_pool(const json& state, RecordedPool& out) {
  const auto has = [&state](const char* field) { return state.contains(field); };
  if (has("free")) out.num_free = count(state, "free");
  if (has("keys")) out.num_keys = count(state, "keys");
  if (has("usage")) out.usage = number(state, "usage");
  if (has("queue")) out.queue = integers<BlockId>(state["queue"], "queue");
  if (has("queue_backward")) {
    out.queue_backward = integers<BlockId>(state["queue_backward"], "queue_backward");
  }
  if (has("linked")) out.linked = integers<BlockId>(state["linked"], "linked");
  if (has("ref")) out.ref = pairs(state["ref"], "ref");
  if (has("cached")) out.cached = pairs(state["cached"], "cached");
  if (has("key")) out.key = keys_of_blocks(state["key"], "key");
  if (has("tail")) out.tail = keys_of_blocks(state["tail"], "tail");
  if (has("index")) out.index = index_entries(state["index"]);
}

std::vector<std::optional<std::uint32_t>> positions(const json& value) {
  std::vector<std::optional<std::uint32_t>> out;
  for (const json& item : array(value, "progress")) {
    out.push_back(item.is_null() ? std::nullopt
                                 : std::optional(integer<std::uint32_t>(item, "progress")));
  }
  return out;
}

std::vector<std::uint64_t> keys(const json& value, const char* field) {
  std::vector<std::uint64_t> out;
  for (const json& item : array(value, field)) out.push_back(key_of(item, field));
  return out;
}

std::vector<ReadBack> contents(const json& value) {
  std::vector<ReadBack> out;
  for (const json& item : array(value, "contents")) {
    if (!item.is_null() && (!item.is_array() || item.size() != 2)) {
      throw TextError("contents", "[token, position] or null for each computed position");
    }
    out.push_back({.kept = !item.is_null()});
    if (item.is_null()) continue;
    out.back().token = integer<std::int64_t>(item[0], "contents");
    out.back().position = integer<std::int64_t>(item[1], "contents");
  }
  return out;
}

void read_requests(const json& state, RecordedState& out) {
  const auto each = [&state](const char* field, auto& into, const auto& read) {
    if (!state.contains(field)) return;
    for (const auto& [name, value] : object(state[field], field).items()) into[name] = read(value);
  };
  each("tables", out.tables, [](const json& v) { return tables(v, "tables"); });
  each("host_tables", out.host_tables, [](const json& v) { return tables(v, "host_tables"); });
  each("lens", out.lengths, [](const json& v) { return integers<std::uint32_t>(v, "lens"); });
  each("progress", out.progress, positions);
  each("tokens", out.tokens, [](const json& v) { return integer<std::uint32_t>(v, "tokens"); });
  each("computed", out.computed,
       [](const json& v) { return integer<std::uint32_t>(v, "computed"); });
  each("contents", out.contents, contents);
  each("hashes", out.hashes, [](const json& v) { return keys(v, "hashes"); });
}

ordered_json pool_json(const PoolState& pool) {
  ordered_json out = {{"free", pool.num_free},
                      {"keys", pool.index.size()},
                      {"usage", pool.usage},
                      {"queue", pool.queue},
                      {"queue_backward", pool.queue_backward}};
  for (const char* field : {"linked", "ref", "cached", "key", "tail", "index"}) {
    out[field] = ordered_json::array();
  }
  for (BlockId block = 0; block < pool.blocks.size(); ++block) {
    const BlockState& b = pool.blocks[block];
    if (b.linked) out["linked"].push_back(block);
    if (b.ref_cnt != 0 && block != kNullBlock) out["ref"].push_back({block, b.ref_cnt});
    if (b.tail_key) out["tail"].push_back({block, *b.tail_key});
    if (!b.hashed) continue;
    out["cached"].push_back({block, b.group});
    out["key"].push_back({block, b.key, b.prefix_tokens});
  }
  for (const FurtherKey& further : pool.further_keys) {
    out["tail"].push_back({further.block, further.key});
  }
  for (const IndexEntry& entry : pool.index) {
    out["index"].push_back({entry.group, entry.key, entry.blocks});
  }
  return out;
}

}  // namespace

RecordedState read_state(const json& state) {
  RecordedState out;
  for (const auto& [name, value] : state.items()) out.fields.push_back(name);
  read_pool(state, out);
  read_requests(state, out);
  if (state.contains("crc")) {
    const auto words = integers<std::uint32_t>(state["crc"], "crc");
    if (words.size() != 3) throw TextError("crc", "three integers");
    out.crc = {words[0], words[1], words[2]};
  }
  if (state.contains("raw")) out.raw = integers<BlockId>(state["raw"], "raw");
  if (state.contains("copying")) out.copying = integers<BlockId>(state["copying"], "copying");
  if (state.contains("leases")) {
    out.leases.emplace();
    for (const auto& [name, value] : object(state["leases"], "leases").items()) {
      out.leases->push_back({name, integers<BlockId>(value, "leases")});
    }
  }
  if (state.contains("counters")) {
    const auto counters = integers<std::uint64_t>(state["counters"], "counters");
    if (counters.size() != 3) throw TextError("counters", "three integers");
    out.counters = {counters[0], counters[1], counters[2]};
  }
  if (state.contains("host")) read_pool(object(state["host"], "host"), out.host.emplace());
  return out;
}

ordered_json state_json(const Snapshot& state) {
  ordered_json out = pool_json(state);
  for (const char* field : {"tables", "progress", "tokens", "computed", "hashes", "leases"}) {
    out[field] = ordered_json::object();
  }
  for (const RequestState& r : state.requests) {
    out["tables"][r.name] = r.tables;
    out["tokens"][r.name] = r.num_tokens;
    out["computed"][r.name] = r.computed;
    out["hashes"][r.name] = r.hashes;
    out["progress"][r.name] = ordered_json::array();
    for (const auto& position : r.progress) {
      out["progress"][r.name].push_back(position ? ordered_json(*position) : ordered_json(nullptr));
    }
    if (!state.host.blocks.empty()) out["host_tables"][r.name] = r.host_tables;
  }
  out["raw"] = state.raw;
  if (!state.copying.empty()) out["copying"] = state.copying;
  for (const LeaseState& lease : state.leases) out["leases"][lease.name] = lease.blocks;
  if (const auto& c = state.counters) {
    out["counters"] = {c->lookups, c->lookup_tokens, c->hit_tokens};
  }
  if (!state.host.blocks.empty()) out["host"] = pool_json(state.host);
  return out;
}

}  // namespace kvproof
