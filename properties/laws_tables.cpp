// SPDX-License-Identifier: Apache-2.0
// Laws of block tables: who may share, what a position's block carries, and how tables grow.
#include <algorithm>

#include "properties/law_checks.h"

namespace kvproof::properties::law {

Finding once_per_request(const Step& step) {
  if (const auto& repeat = step.history.tally.repeat) {
    const RequestState& r = step.after.requests[repeat->request];
    return say("block ", repeat->block, " stands twice in the table of ", r.name, ": ",
               list_of(table_of(r)));
  }
  return std::nullopt;
}

Finding shared_is_published(const Step& step) {
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const std::uint32_t sharers = step.history.tally.sharers[block];
    if (sharers > 1 && !step.after.blocks[block].hashed && step.history.evicted[block] == 0) {
      return say("block ", block, " is in ", sharers, " tables without ever having been published");
    }
  }
  return std::nullopt;
}

Finding cache_progress(const Step& step) {
  for (const RequestState& r : step.after.requests) {
    const std::vector<BlockId>& table = table_of(r);
    const std::uint32_t progress = progress_of(r).value_or(0);
    if (progress > table.size()) {
      return say("request ", r.name, " has progress ", progress, " in a table of ", table.size());
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
      const BlockId block = table[i];
      if (block >= step.history.num_blocks || block == kNullBlock) continue;
      const BlockState& state = step.after.blocks[block];
      if (i >= progress) {
        if (state.hashed) {
          return say("block ", block, " at position ", i, " of ", r.name,
                     " carries a key beyond progress ", progress);
        }
      } else if (!state.hashed) {
        if (step.history.evicted[block] == 0) {
          return say("block ", block, " at position ", i, " of ", r.name,
                     " has no key below progress ", progress);
        }
      } else if (i >= r.hashes.size() || state.key != r.hashes[i]) {
        return say("block ", block, " at position ", i, " of ", r.name,
                   " carries the key of other content");
      }
    }
  }
  return std::nullopt;
}

Finding no_null_in_tables(const Step& step) {
  if (step.history.tally.tabled[kNullBlock] == 0) return std::nullopt;
  for (const RequestState& r : step.after.requests) {
    const std::vector<BlockId>& table = table_of(r);
    if (std::find(table.begin(), table.end(), kNullBlock) != table.end()) {
      return say("the table of ", r.name, " holds the null block: ", list_of(table));
    }
  }
  return std::nullopt;
}

namespace {

// Of a granted allocation: the answer lists the new blocks that stand at the end of the table.
Finding answer_matches_table(const RequestState& r, const Granted& granted) {
  const std::vector<BlockId>& table = table_of(r);
  if (granted.blocks.size() != 1)
    return say("the grant for ", r.name, " lists ", granted.blocks.size(), " groups");
  const std::vector<BlockId>& fresh = granted.blocks.front();
  if (fresh.size() <= table.size() && std::equal(fresh.rbegin(), fresh.rend(), table.rbegin())) {
    return std::nullopt;
  }
  return say("the grant for ", r.name, " lists ", list_of(fresh),
             ", which is not the end of its table ", list_of(table));
}

}  // namespace

Finding append_only_table(const Step& step) {
  const std::string& subject = request_of(step.operation);
  const bool releases = std::holds_alternative<op::Free>(step.operation) ||
                        std::holds_alternative<op::Finish>(step.operation);
  const bool grows = std::holds_alternative<op::Allocate>(step.operation);
  for (const RequestState& r : step.after.requests) {
    const std::vector<BlockId>& table = table_of(r);
    const RequestRecord* record = step.history.find(r.name);
    if (record == nullptr) return say("request ", r.name, " is there but never arrived");
    const std::uint64_t length =
        ceil_div<std::uint64_t>(record->granted_tokens, step.config.groups.front().block_size);
    if (table.size() != length) {
      return say("the table of ", r.name, " has ", table.size(), " blocks; ",
                 record->granted_tokens, " granted tokens need ", length);
    }
    if (r.name == subject && releases) continue;
    const RequestState* old = step.before.find(r.name);
    if (old == nullptr) continue;
    const std::vector<BlockId>& was = table_of(*old);
    const bool kept =
        was.size() <= table.size() && std::equal(was.begin(), was.end(), table.begin());
    if (!kept || (was.size() != table.size() && !(grows && r.name == subject))) {
      return say("the table of ", r.name, " went from ", list_of(was), " to ", list_of(table));
    }
  }
  if (const auto* granted = std::get_if<Granted>(&step.outcome.result);
      granted != nullptr && grows) {
    if (const RequestState* r = step.after.find(subject)) return answer_matches_table(*r, *granted);
  }
  return std::nullopt;
}

// Not by counting references: those also count holders that are no request, or none any more.
Finding common_prefix_identity(const Step& step) {
  if (!std::holds_alternative<op::CommonPrefix>(step.operation)) return std::nullopt;
  const auto* shared = std::get_if<SharedBlocks>(&step.outcome.result);
  const RequestState* mine = step.after.find(request_of(step.operation));
  if (shared == nullptr || mine == nullptr || shared->size() != 1) return std::nullopt;
  const std::vector<BlockId>& table = table_of(*mine);
  std::size_t expected = step.config.enable_caching ? table.size() : 0;
  for (const RequestState& other : step.after.requests) {
    const std::vector<BlockId>& theirs = table_of(other);
    if (theirs.empty()) continue;
    expected = std::min(expected, theirs.size());
    for (std::size_t i = 0; i < expected; ++i) {
      if (table[i] != theirs[i]) expected = i;
    }
  }
  if (shared->front() != expected) {
    return say("the common prefix is said to be ", shared->front(), " blocks; the tables agree on ",
               expected);
  }
  return std::nullopt;
}

}  // namespace kvproof::properties::law
