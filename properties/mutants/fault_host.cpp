// SPDX-License-Identifier: Apache-2.0
// The requests of the fault host, and the state that it shows.
#include "properties/mutants/fault_host.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "reference/decode_calls.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

FreeOrder order_of(const CacheConfig& config) {
  return config.enable_caching ? config.profile.caching_on : config.profile.caching_off;
}

}  // namespace

bool fault_host_supports(const CacheConfig& config) {
  if (config.profile.prompt_tail != PromptTail::none) return false;
  return std::none_of(config.groups.begin(), config.groups.end(), [](const GroupConfig& group) {
    return group.kind == LayerKind::cross || moves_state(group);
  });
}

FaultHost::FaultHost(const CacheConfig& config, Fault fault)
    : config_(with_eagle_kin(config)),
      fault_(fault),
      pool_(config.num_blocks, order_of(config), fault),
      host_(config.num_host_blocks, order_of(config), fault) {}

// Thrown where the allocators in Python raise. The caller gets an answer, but nothing is rolled
// back.
void FaultHost::require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

Outcome FaultHost::apply(const Operation& operation) {
  Outcome outcome;
  if (is("lease_lapses") && ++since_pin_ == 4 && !leases_.empty()) {
    pool_.release(reversed(leases_.begin()->second));
    leases_.begin()->second.clear();
  }
  try {
    outcome.result = std::visit([this](const auto& o) { return run(o); }, operation);
  } catch (const std::runtime_error& raised) {
    outcome.result = result_of_error(raised.what());
  }
  outcome.events = std::exchange(pool_.events(), {});
  host_.events().clear();
  return outcome;
}

Result FaultHost::run(const op::Arrive& o) {
  require(sequences_.count(o.req) == 0, "duplicate_request: arrive with a name in use");
  require(o.tokens.size() <= config_.max_model_len, "capacity: a prompt beyond the token limit");
  Sequence& s = sequences_[o.req];
  s.tokens = o.tokens;
  s.extra = o.extra;
  s.skip_lookup = o.skip_lookup;
  s.tables.resize(config_.groups.size());
  for (char c : o.req) s.salt = s.salt * 31 + static_cast<unsigned char>(c);
  extend_hashes(s);
  return {};
}

Result FaultHost::run(const op::Append& o) {
  Sequence& s = sequence(o.req);
  require(s.tokens.size() + o.tokens.size() <= config_.max_model_len,
          "capacity: append beyond the token limit");
  s.tokens.insert(s.tokens.end(), o.tokens.begin(), o.tokens.end());
  extend_hashes(s);
  return {};
}

Result FaultHost::run(const op::Advance& o) {
  Sequence& s = sequence(o.req);
  require(o.computed <= s.tokens.size(), "computed_beyond_tokens: advance beyond the tokens");
  s.computed = o.computed;
  return {};
}

Result FaultHost::run(const op::Free& o) {
  if (is("free_after_finish") && finished_.count(o.req) > 0) {
    free_tables(finished_[o.req]);
    return {};
  }
  Sequence& s = sequence(o.req);
  if (is("abort_frees_load_target") && !s.transfer.empty() && !transfers_[s.transfer].out) {
    for (GroupId g = 0; g < s.tables.size(); ++g) free_table(s, g);
    return {};
  }
  require(s.transfer.empty(), "in_transfer: the blocks are in flight");
  if (is("preempt_frees_published")) {
    for (const Table& table : s.tables) {
      for (BlockId block : table.blocks) pool_[block].hashed = false;
    }
  }
  pool_.release(without_null(std::exchange(s.recycled, {})));
  free_tables(s);
  free_host(s);
  s.computed = 0;
  return {};
}

Result FaultHost::run(const op::Finish& o) {
  Sequence& s = sequence(o.req);
  require(s.transfer.empty() || is("finish_in_transfer"), "in_transfer: the blocks are in flight");
  if (is("free_after_finish")) finished_[o.req] = s;
  if (is("finish_keeps_unpublished")) {
    for (Table& table : s.tables) {
      table.blocks.resize(std::min<std::size_t>(table.blocks.size(), table.cached.value_or(0)));
    }
  }
  free_tables(s);
  free_host(s);
  transfers_.erase(s.transfer);
  sequences_.erase(o.req);
  return {};
}

Result FaultHost::run(const op::Recycle& o) {
  Sequence& s = resident(o.req);
  for (GroupId g = 0; g < s.tables.size(); ++g) recycle(s, g, o.processed);
  return {};
}

Result FaultHost::run(const op::Step&) {
  new_states_.clear();
  return {};
}

Result FaultHost::run(const op::Evict& o) {
  for (BlockId block : o.blocks)
    require(block < pool_.size(), "block_out_of_range: evict of an unknown block");
  for (std::size_t i = 0; i < o.blocks.size(); ++i) {
    if (is("evict_marks_first_only") && i > 0) break;
    pool_.unpublish(o.blocks[i]);
    if (is("evict_counts_skipped") && pool_[o.blocks[i]].refs > 0) ++i;
  }
  if (is("evict_never_stops")) {
    for (BlockId block : pool_.free()) pool_.unpublish(block);
  }
  return {};
}

Result FaultHost::run(const op::Reset&) {
  if (!pool_.all_free() || !host_.all_free()) return false;
  if (is("reset_waits_for_empty_index") && host_.has_content()) return false;
  pool_.reset();
  host_.reset();
  return true;
}

Result FaultHost::run(const op::CommonPrefix& o) {
  const Sequence& mine = sequence(o.req);
  SharedBlocks out(mine.tables.size(), 0);
  for (GroupId g = 0; g < out.size(); ++g) {
    if (!config_.enable_caching || !reads_all(config_.groups[g].kind)) continue;
    const auto holds = [&](const auto& entry) { return !entry.second.tables[g].blocks.empty(); };
    const auto holding = std::count_if(sequences_.begin(), sequences_.end(), holds);
    const Blocks& table = mine.tables[g].blocks;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const std::int64_t refs = pool_[table[i]].refs;
      bool common = std::all_of(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
        const Blocks& theirs = entry.second.tables[g].blocks;
        return theirs.empty() || (i < theirs.size() && theirs[i] == table[i]);
      });
      if (is("common_prefix_by_count")) common = refs == holding;
      if (is("common_prefix_by_holders")) common = refs >= holding;
      if (!common) break;
      ++out[g];
    }
  }
  return out;
}

// What a call would raise is raised before the first of them: nothing is rolled back.
Result FaultHost::run(const op::Decode& o) {
  require(o.tokens.size() == o.reqs.size(), "capacity: not one token for each request");
  std::map<std::string, std::size_t> appended;
  for (const std::string& req : o.reqs) {
    require(sequence(req).tokens.size() + ++appended[req] <= config_.max_model_len,
            "capacity: append beyond the token limit");
    resident(req);
  }
  return by_three_calls(
      o, [this](const std::string& req) { return sequence(req).computed; },
      [this](const Operation& call) {
        return std::visit([this](const auto& one) { return run(one); }, call);
      });
}

FaultHost::Sequence& FaultHost::sequence(const std::string& name) {
  const auto at = sequences_.find(name);
  require(at != sequences_.end(), "unknown_request: no request of that name");
  return at->second;
}

FaultHost::Sequence& FaultHost::resident(const std::string& name) {
  Sequence& s = sequence(name);
  require(s.transfer.empty() && s.host.empty(),
          "in_transfer: the blocks are not in the device pool");
  return s;
}

FaultHost::Blocks FaultHost::without_null(const Blocks& blocks) {
  Blocks out = blocks;
  std::erase(out, kNullBlock);
  return out;
}

FaultHost::Blocks FaultHost::reversed(const Blocks& blocks) {
  return {blocks.rbegin(), blocks.rend()};
}

// Deepest first: the deeper a block, the fewer prompts can use it.
void FaultHost::free_table(Sequence& s, GroupId group) {
  Table& table = s.tables[group];
  Blocks blocks = table.blocks;
  if (is("free_by_computed_tokens")) {
    const std::size_t used = ceil_div(s.computed, config_.groups[group].block_size);
    blocks.resize(std::min(blocks.size(), used));
  }
  if (is("release_recomputes_window")) {
    const std::uint64_t skipped = skipped_tokens(config_.groups[group], s.tokens.size());
    const std::size_t gone = skipped / config_.groups[group].block_size;
    std::fill_n(blocks.begin(), std::min(blocks.size(), gone), kNullBlock);
  }
  if (!is("free_parents_first")) blocks = reversed(blocks);
  pool_.release(is("release_queues_null") ? blocks : without_null(blocks));
  table = {};
}

void FaultHost::free_tables(Sequence& s) {
  for (GroupId g = 0; g < s.tables.size(); ++g) free_table(s, g);
  s.found_tokens = 0;
}

void FaultHost::free_host(Sequence& s) {
  for (const Blocks& table : s.host) host_.release(without_null(reversed(table)));
  s.host.clear();
  s.host_cached.clear();
}

void FaultHost::recycle(Sequence& s, GroupId group, std::uint64_t computed) {
  const std::uint64_t block_size = config_.groups[group].block_size;
  Blocks& table = s.tables[group].blocks;
  std::uint64_t gone = recyclable_tokens(config_.profile, config_.groups[group], computed);
  if (is("recycle_rounds_up") && gone > 0) gone += block_size - 1;
  std::size_t at = std::min<std::size_t>(gone / block_size, table.size());
  Blocks unread;
  for (; at > 0 && table[at - 1] != kNullBlock; --at) {
    unread.push_back(table[at - 1]);
    pool_[table[at - 1]].recycled = true;
    if (is("preempt_releases_recycled")) s.recycled.push_back(table[at - 1]);
    if (is("recycle_keeps_entry")) break;
    table[at - 1] = kNullBlock;
  }
  pool_.release(unread);
}

void FaultHost::observe(Snapshot& out) const {
  pool_.observe(out);
  host_.observe(out.host);
  out.requests.resize(sequences_.size());
  auto state = out.requests.begin();
  for (const auto& [name, s] : sequences_) {
    state->name = name;
    state->num_tokens = static_cast<std::uint32_t>(s.tokens.size());
    state->computed = s.computed;
    state->hashes = s.hashes;
    state->tables.clear();
    state->progress.clear();
    for (const Table& table : s.tables) {
      state->tables.push_back(table.blocks);
      state->progress.push_back(table.cached);
    }
    state->host_tables = s.host;
    ++state;
  }
  out.raw = raw_;
  std::sort(out.raw.begin(), out.raw.end());
  out.leases.clear();
  for (const auto& [name, blocks] : leases_) out.leases.push_back({name, blocks});
  out.counters = counts_;
}

}  // namespace kvproof::properties
