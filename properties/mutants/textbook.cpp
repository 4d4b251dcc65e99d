// SPDX-License-Identifier: Apache-2.0
// The textbook allocator, with the places where it can be made to fail like a real one.
#include "properties/mutants/textbook.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "properties/oracles/prefix_digest.h"

namespace kvproof::properties {
// Raised where the Python allocators raise; it is answered, but nothing is rolled back.
void Textbook::require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

Textbook::Textbook(const CacheConfig& config, Fault fault)
    : config_(config),
      fault_(fault),
      block_size_(config.groups.front().block_size),
      blocks_(config.num_blocks) {
  for (BlockId block = 1; block < config.num_blocks; ++block) free_.push_back(block);
}

Outcome Textbook::apply(const Operation& operation) {
  Outcome outcome;
  try {
    outcome.result = std::visit([this](const auto& o) { return run(o); }, operation);
  } catch (const std::runtime_error& raised) {
    outcome.result = Rejected{raised.what()};
  }
  outcome.events = std::exchange(events_, {});
  return outcome;
}

// ---- requests ----

Result Textbook::run(const op::Arrive& o) {
  require(sequences_.count(o.req) == 0, "duplicate request");
  Sequence& s = sequences_[o.req];
  s.tokens = o.tokens;
  s.extra = o.extra;
  s.skip_lookup = o.skip_lookup;
  extend_hashes(s);
  return {};
}

Result Textbook::run(const op::Append& o) {
  Sequence& s = sequence(o.req);
  for (TokenId token : o.tokens) s.tokens.push_back(token);
  extend_hashes(s);
  return {};
}

Result Textbook::run(const op::Advance& o) {
  Sequence& s = sequence(o.req);
  require(o.computed <= s.tokens.size(), "more computed tokens than tokens");
  s.computed = o.computed;
  return {};
}

Result Textbook::run(const op::Free& o) {
  Sequence& s = sequence(o.req);
  if (is(Fault::preempt_frees_published)) {
    for (BlockId block : s.table) blocks_[block].hashed = false;
  }
  free_table(s);
  s.computed = 0;
  return {};
}

Result Textbook::run(const op::Finish& o) {
  free_table(sequence(o.req));
  sequences_.erase(o.req);
  return {};
}

Result Textbook::run(const op::Recycle& o) { return sequence(o.req), Result(); }
Result Textbook::run(const op::Step&) { return {}; }

Textbook::Sequence& Textbook::sequence(const std::string& name) {
  const auto at = sequences_.find(name);
  require(at != sequences_.end(), "unknown request");
  return at->second;
}

// ---- hashes and the index ----

void Textbook::extend_hashes(Sequence& s) const {
  if (!config_.enable_caching) return;
  while ((s.hashes.size() + 1) * block_size_ <= s.tokens.size()) {
    const std::uint64_t parent = s.hashes.empty() ? 0x6b7670726f6f66U : s.hashes.back();
    s.hashes.push_back(
        hash_block(parent, s, static_cast<std::uint32_t>(s.hashes.size()) * block_size_));
  }
}

std::uint64_t Textbook::hash_block(std::uint64_t parent, const Sequence& s,
                                   std::uint32_t start) const {
  std::uint64_t hash = parent;
  const auto add = [&](std::uint64_t value) { hash = scramble(hash * 31 + value + 1); };
  const auto add_text = [&](const char tag, const std::string& text) {
    if (!is(Fault::hash_untagged)) add(static_cast<unsigned char>(tag));
    for (char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  };
  const std::uint32_t end = start + block_size_;
  for (std::uint32_t i = start; i < end; ++i) add(static_cast<std::uint32_t>(s.tokens[i]));
  if (!s.extra.lora.empty() && !is(Fault::hash_without_adapter)) add_text('L', s.extra.lora);
  for (const MultimodalItem& item : s.extra.mm) {
    const bool overlaps = item.offset < end && std::uint64_t{item.offset} + item.length > start;
    if (!overlaps || is(Fault::hash_without_images)) continue;
    add_text('M', item.id);
    if (!is(Fault::hash_without_image_offset)) add(std::uint64_t{item.offset} - start);
  }
  for (const MultimodalItem& item : s.extra.embeds) {
    const bool overlaps = item.offset < end && std::uint64_t{item.offset} + item.length > start;
    if (!overlaps) continue;
    add_text('E', item.id);
    add(std::uint64_t{item.offset} - start);
  }
  if (start == 0 && !s.extra.salt.empty()) add_text('S', s.extra.salt);
  if (start == 0 && !s.extra.layout.empty()) add_text('D', s.extra.layout);
  return is(Fault::hash_truncated) ? hash & 0x3f : hash;
}

Result Textbook::run(const op::Lookup& o) {
  Sequence& s = sequence(o.req);
  s.found.clear();
  if (config_.enable_caching && !s.skip_lookup && !s.tokens.empty()) {
    const std::size_t last = s.tokens.size() - (is(Fault::lookup_takes_last_token) ? 0 : 1);
    for (std::size_t i = 0; i < last / block_size_; ++i) {
      const auto at = index_.find(s.hashes[i]);
      if (at == index_.end()) {
        if (is(Fault::lookup_continues_after_miss)) continue;
        break;
      }
      s.found.push_back(at->second.front());
    }
  }
  if (is(Fault::lookup_pins)) touch(s.found);
  return Hit{static_cast<std::uint32_t>(s.found.size()) * block_size_, {s.found}};
}

Result Textbook::run(const op::Cache& o) {
  publish(sequence(o.req), o.computed);
  return {};
}

void Textbook::publish(Sequence& s, std::uint64_t tokens) {
  if (!config_.enable_caching) return;
  const std::size_t full =
      std::min({static_cast<std::size_t>(tokens / block_size_), s.hashes.size(), s.table.size()});
  const std::uint32_t first = s.cached.value_or(0);
  if (first >= full) return;
  event::Stored stored{0, first * block_size_, static_cast<std::uint32_t>(full) * block_size_, {}};
  for (std::uint32_t i = first; i < full; ++i) {
    std::vector<BlockId>& copies = index_[s.hashes[i]];
    if (is(Fault::index_holds_one_block) && !copies.empty()) continue;
    copies.push_back(s.table[i]);
    blocks_[s.table[i]].hashed = true;
    blocks_[s.table[i]].hash = s.hashes[i];
    blocks_[s.table[i]].prefix_tokens = (i + 1) * block_size_;
    stored.blocks.push_back({s.table[i], (i + 1) * block_size_});
  }
  events_.emplace_back(std::move(stored));
  s.cached = static_cast<std::uint32_t>(full);
}

void Textbook::unpublish(BlockId block) {
  Block& b = blocks_[block];
  if (!b.hashed) return;
  const auto at = index_.find(b.hash);
  if (at != index_.end()) {
    const BlockId named = is(Fault::removal_names_first_copy) ? at->second.front() : block;
    events_.emplace_back(event::Removed{0, named, b.prefix_tokens});
    std::vector<BlockId>& copies = at->second;
    copies.erase(std::remove(copies.begin(), copies.end(), block), copies.end());
    if (copies.empty()) index_.erase(at);
  }
  if (!is(Fault::evict_keeps_block_hash)) b.hashed = false;
}

Result Textbook::run(const op::Evict& o) {
  for (BlockId block : o.blocks) require(block < blocks_.size(), "evict of an unknown block");
  for (BlockId block : o.blocks) unpublish(block);
  return {};
}

Result Textbook::run(const op::Reset&) {
  if (free_.size() + 1 != blocks_.size()) return false;
  index_.clear();
  if (!is(Fault::reset_forgets_blocks)) {
    for (Block& b : blocks_) b.hashed = false;
  }
  events_.emplace_back(event::Cleared{});
  return true;
}

Result Textbook::run(const op::CommonPrefix& o) {
  const std::vector<BlockId>& mine = sequence(o.req).table;
  std::uint32_t shared = 0;
  if (!config_.enable_caching) return SharedBlocks{0};
  const auto holding = std::count_if(sequences_.begin(), sequences_.end(),
                                     [](const auto& entry) { return !entry.second.table.empty(); });
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const bool common =
        is(Fault::common_prefix_by_count)
            ? blocks_[mine[i]].refs == holding
            : std::all_of(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
                const std::vector<BlockId>& theirs = entry.second.table;
                return theirs.empty() || (i < theirs.size() && theirs[i] == mine[i]);
              });
    if (!common) break;
    ++shared;
  }
  return SharedBlocks{shared};
}

void Textbook::observe(Snapshot& out) const {
  out.num_free = static_cast<std::uint32_t>(free_.size());
  out.usage = 1.0 - static_cast<double>(free_.size()) / static_cast<double>(blocks_.size() - 1);
  out.queue.assign(free_.begin(), free_.end());
  out.queue_backward.assign(free_.rbegin(), free_.rend());
  out.blocks.assign(blocks_.size(), {});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& b = blocks_[i];
    out.blocks[i].ref_cnt = b.refs;
    out.blocks[i].hashed = b.hashed;
    if (b.hashed) out.blocks[i].key = b.hash;
    if (b.hashed) out.blocks[i].prefix_tokens = b.prefix_tokens;
  }
  for (BlockId block : free_) out.blocks[block].linked = true;
  out.index.clear();
  for (const auto& [hash, copies] : index_) out.index.push_back({0, hash, copies});
  std::sort(out.index.begin(), out.index.end(),
            [](const IndexEntry& a, const IndexEntry& b) { return a.blocks < b.blocks; });
  out.requests.resize(sequences_.size());
  auto state = out.requests.begin();
  for (const auto& [name, s] : sequences_) {
    state->name = name;
    state->num_tokens = static_cast<std::uint32_t>(s.tokens.size());
    state->computed = s.computed;
    state->hashes = s.hashes;
    state->tables.assign(1, s.table);
    state->progress.assign(1, s.cached);
    ++state;
  }
  out.raw = raw_;
  std::sort(out.raw.begin(), out.raw.end());
}

}  // namespace kvproof::properties
