// SPDX-License-Identifier: Apache-2.0
// Laws of block tables in one state: which requests may share a block, where nulls stand, and which
// key the block of a position carries.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

bool is_tail_key(const Step& step, const RequestState& r, GroupId group, std::size_t position,
                 std::uint64_t key) {
  const GroupConfig& rules = step.config.groups[group];
  const bool states = moves_state(rules) && step.config.profile.sparse;
  const bool tails = step.config.profile.prompt_tail != PromptTail::none ||
                     step.history.promises->traits.keys_are_partial();
  if (!tails || !(states || reads_all(rules.kind))) {
    return false;
  }
  const std::size_t units = rules.block_size / step.history.unit_tokens;
  std::size_t from = position * units;
  std::size_t to = from + units - 1;
  // The state of a checkpoint stands in the position before that of the running state.
  if (states && rules.checkpoint_alignment > 0) {
    from = 0;
    to = r.hashes.size();
  }
  for (std::size_t u = from; u < std::min(to, r.hashes.size()); ++u) {
    if (r.hashes[u] == key) return true;
  }
  return false;
}

namespace law {

Finding once_per_request(const Step& step) {
  if (const auto& repeat = step.history.tally.repeat) {
    const RequestState& r = step.after.requests[repeat->request];
    return say("block ", repeat->block, " stands twice in the tables of ", Named{r.name}, ": ",
               lists_of(r.tables));
  }
  return std::nullopt;
}

extern const Scenes once_per_request_scenes = {
    {"block twice in a table", play::share, [](Scene& s) { s.table(0)[2] = 1; }},
    {"block in tables of two groups", play::admit_six,
     [](Scene& s) { table(s, 0, 1)[0] = table(s, 0, 0)[0]; }, with::hybrid},
};

Finding shared_is_published(const Step& step) {
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const std::uint32_t sharers = step.history.tally.sharers[block];
    const bool excused = step.history.evicted[block] != 0 || step.history.forked[block] != 0;
    if (sharers > 1 && !step.after.blocks[block].hashed && !excused && !overtaken(step, block)) {
      return say("block ", block, " is in ", sharers, " tables without ever having been published");
    }
  }
  return std::nullopt;
}

extern const Scenes shared_is_published_scenes = {
    {"shared without key", play::share, [](Scene& s) { s.block(1).hashed = false; }},
    {"shared without key or fork", play::admit_hit, [](Scene& s) { s.block(1).hashed = false; }},
};

namespace {

Finding check_position(const Step& step, const RequestState& r, GroupId group, std::size_t i) {
  const BlockId block = table_of(r, group)[i];
  if (block >= step.history.num_blocks || block == kNullBlock) return std::nullopt;
  const BlockState& state = step.after.blocks[block];
  const RequestRecord* record = record_of(step, r);
  const std::uint32_t progress = progress_of(r, group);
  const auto key = own_key(step, r, group, i);
  if (!state.hashed) {
    const bool excused = step.history.evicted[block] != 0 || record == nullptr || record->swapped ||
                         !step.history.keeps(*record, group, i) ||
                         step.config.groups[group].checkpoint_alignment > 0;
    if (i >= progress || excused || superseded(step, block)) return std::nullopt;
    return say("block ", block, " at position ", TableEntry{i}, " of ", Named{r.name},
               " has no key below progress ", progress);
  }
  if (is_tail_key(step, r, group, i, state.key)) return std::nullopt;
  const bool relative = record != nullptr && record->forked;  // its relative may differ by now
  if (i >= progress && relative) return std::nullopt;
  if (i >= progress && !(record != nullptr && !record->resident())) {
    return say("block ", block, " at position ", TableEntry{i}, " of ", Named{r.name},
               " carries a key beyond progress ", progress);
  }
  // A relative's keys may cover other tokens behind the block.
  if (relative && step.config.hash_lookahead > 0) return std::nullopt;
  if (key != state.key) {
    return say("block ", block, " at position ", TableEntry{i}, " of ", Named{r.name},
               " carries the key of other content");
  }
  if (state.tail_key && !is_tail_key(step, r, group, i, *state.tail_key)) {
    return say("block ", block, " at position ", TableEntry{i}, " of ", Named{r.name},
               " carries a second key that is not of its content");
  }
  for (const FurtherKey& further : step.after.further_keys) {
    if (further.block != block || is_tail_key(step, r, group, i, further.key)) continue;
    return say("block ", block, " at position ", TableEntry{i}, " of ", Named{r.name},
               " carries a further key that is not of its content");
  }
  return std::nullopt;
}

}  // namespace

Finding cache_progress(const Step& step) {
  for (const RequestState& r : step.after.requests) {
    for (GroupId g = 0; g < r.tables.size() && g < step.config.groups.size(); ++g) {
      const std::vector<BlockId>& table = r.tables[g];
      const std::size_t units_per_block = step.history.groups[g].units_per_block;
      const std::uint32_t progress = progress_of(r, g);
      if (progress > table.size()) {
        return say("request ", Named{r.name}, " has progress ", progress, " in a table of ",
                   table.size());
      }
      for (std::size_t i = 0; i < table.size(); ++i) {
        // Most are null, unpublished, or carry the one key of their position.
        if (table[i] == kNullBlock) continue;
        if (table[i] < step.history.num_blocks) {
          const BlockState& state = step.after.blocks[table[i]];
          const std::size_t units = (i + 1) * units_per_block;
          const bool own = state.hashed && i < progress && !state.tail_key &&
                           units <= r.hashes.size() && r.hashes[units - 1] == state.key;
          if (own || (!state.hashed && i >= progress)) continue;
        }
        if (auto finding = check_position(step, r, g, i)) return finding;
      }
    }
  }
  return std::nullopt;
}

extern const Scenes cache_progress_scenes = {
    {"progress beyond the table", play::share,
     [](Scene& s) { s.after.requests[0].progress = {4}; }},
    {"unpublished below progress", play::share,
     [](Scene& s) { s.after.requests[0].progress = {3}; }},
    {"published beyond progress", play::share,
     [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"foreign content below progress", play::share, [](Scene& s) { ++s.block(1).key; }},
    {"key of another position in a window", play::admit_six,
     [](Scene& s) { std::swap(table(s, 0, 0)[0], table(s, 0, 0)[1]); }, with::window},
};

Finding nulls_where_unread(const Step& step) {
  if (step.history.tally.tabled[kNullBlock] == 0) return std::nullopt;
  for (const RequestState& r : step.after.requests) {
    for (GroupId g = 0; g < r.tables.size() && g < step.config.groups.size(); ++g) {
      const GroupConfig& group = step.config.groups[g];
      const std::vector<BlockId>& table = r.tables[g];
      const bool whole = reads_all(group.kind) || group.kind == LayerKind::cross;
      if (moves_state(group)) continue;             // I15
      if (group.kind == LayerKind::rswa) continue;  // what it gives back is for I16 to say
      const std::size_t sinks = ceil_div(step.history.promises->sinks, group.block_size);
      const auto end =
          table.begin() + std::ptrdiff_t(whole ? table.size() : std::min(sinks, table.size()));
      auto null = std::find(table.begin(), end, kNullBlock);  // what is always kept
      if (null == end) {
        const auto read = std::find_if(end, table.end(), [](BlockId b) { return b != kNullBlock; });
        null = std::find(read, table.end(), kNullBlock);
      }
      if (null != table.end()) {
        return say("the table of ", Named{r.name}, " in group ", g,
                   " holds the null block at position ",
                   TableEntry{std::uint64_t(null - table.begin())}, ": ", list_of(table));
      }
    }
  }
  return std::nullopt;
}

extern const Scenes nulls_where_unread_scenes = {
    {"null in a table", play::share, [](Scene& s) { s.table(1)[0] = 0; }},
    {"hole in a window", play::decode,
     [](Scene& s) {
       table(s, 0, 0)[1] = 7;
       table(s, 0, 0)[2] = 0;
     },
     with::window},
};

Finding few_states(const Step& step) {
  if (!step.history.moves_states) return std::nullopt;
  for (const RequestState& r : step.after.requests) {
    const RequestRecord* record = record_of(step, r);
    if (record == nullptr || record->ahead) continue;
    for (GroupId g = 0; g < r.tables.size() && g < step.config.groups.size(); ++g) {
      const GroupConfig& group = step.config.groups[g];
      if (!moves_state(group)) continue;
      const auto states = static_cast<std::uint64_t>(
          std::ranges::count_if(r.tables[g], [](BlockId b) { return b != kNullBlock; }));
      // A profile that holds drafts back may keep the states behind them for as many tokens more,
      // as may steps in flight; before those, states of rejected drafts may remain.
      const std::uint64_t drafts = group.speculative_blocks;
      const std::uint64_t back =
          r.computed - recycle_basis(step.config.profile, group, r.computed) + record->in_flight;
      const std::uint64_t kept =
          back > 0 ? ceil_div<std::uint64_t>(back + drafts, group.block_size) : 0;
      const std::uint64_t checkpoints = group.checkpoint_alignment > 0 ? 1 : 0;
      const std::uint64_t most = 2 + drafts + kept + checkpoints;
      if (states > most) {
        return say("request ", Named{r.name}, " holds ", states, " states, ",
                   group.speculative_blocks, " of them for drafts: ", list_of(r.tables[g]));
      }
    }
  }
  return std::nullopt;
}

extern const Scenes few_states_scenes = {
    {"a state too many", play::decode,
     [](Scene& s) {
       for (BlockId& block : table(s, 0, 1)) block = 9;
     },
     with::states},
};

// Not by counting references: those also count holders that are no request, or none any more.
Finding common_prefix_identity(const Step& step) {
  if (!std::holds_alternative<op::CommonPrefix>(step.operation)) return std::nullopt;
  const auto* shared = std::get_if<SharedBlocks>(&step.outcome.result);
  const RequestState* mine = own_after(step);
  if (shared == nullptr || mine == nullptr) return std::nullopt;
  if (shared->size() != step.config.groups.size()) {
    return say("the common prefix is answered for ", shared->size(), " groups");
  }
  for (GroupId g = 0; g < shared->size(); ++g) {
    const std::vector<BlockId>& table = table_of(*mine, g);
    const bool counted = step.config.enable_caching && step.config.profile.counts_common_prefix &&
                         reads_all(step.config.groups[g].kind);
    std::size_t expected = counted ? table.size() : 0;
    for (const RequestState& other : step.after.requests) {
      const std::vector<BlockId>& theirs = table_of(other, g);
      if (theirs.empty()) continue;
      expected = std::min(expected, theirs.size());
      for (std::size_t i = 0; i < expected; ++i) {
        if (table[i] != theirs[i]) expected = i;
      }
    }
    if ((*shared)[g] != expected) {
      return say("the common prefix of group ", g, " is said to be ", (*shared)[g],
                 " blocks; the tables agree on ", expected);
    }
  }
  return std::nullopt;
}

extern const Scenes common_prefix_identity_scenes = {
    {"one block too many", play::common_prefix,
     [](Scene& s) { s.outcome.result = SharedBlocks{3}; }},
    {"a window has no common prefix",
     [](Scene& s) {
       play::compute_six(s);
       s.play(op::CommonPrefix{"a"});
     },
     [](Scene& s) {
       s.outcome.result = SharedBlocks{3, 3};
     },
     with::hybrid},
};

}  // namespace law
}  // namespace kvproof::properties