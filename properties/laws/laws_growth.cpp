// SPDX-License-Identifier: Apache-2.0
// The law of how tables change: their lengths, their entries, and the answer of a grant.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {

std::vector<Copy> copies_of(const Step& step, const RequestState& was, const RequestState& now,
                            GroupId group) {
  std::vector<Copy> out;
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  const std::vector<BlockId>& old = table_of(was, group);
  const std::vector<BlockId>& table = table_of(now, group);
  for (std::size_t i = 0; granted != nullptr && i < std::min(old.size(), table.size()); ++i) {
    const Copy changed{old[i], table[i]};
    if (std::ranges::find(granted->copies, changed) != granted->copies.end()) {
      out.push_back(changed);
    }
  }
  return out;
}

Finding check_lengths(const Step& step, const RequestState& r, const RequestRecord& record) {
  const std::size_t groups = step.config.groups.size();
  if (r.tables.size() != groups) {
    return say("request ", Named{r.name}, " shows ", r.tables.size(), " tables in ", groups,
               " groups");
  }
  if (r.host_tables.size() != (record.on_host ? groups : 0)) {
    return say("request ", Named{r.name}, " shows ", r.host_tables.size(), " host tables; it is ",
               record.on_host ? "" : "not ", "in the host tier");
  }
  for (GroupId g = 0; g < groups; ++g) {
    const std::uint64_t granted = g < record.lengths.size() ? record.lengths[g] : 0;
    const std::uint64_t length = record.on_device ? granted : 0;
    if (r.tables[g].size() != length) {
      return say("the table of ", Named{r.name}, " in group ", g, " has ", r.tables[g].size(),
                 " blocks; what was granted needs ", length);
    }
    if (record.on_host && r.host_tables[g].size() != granted) {
      return say("the host table of ", Named{r.name}, " in group ", g, " has ",
                 r.host_tables[g].size(), " blocks; what was granted needs ", granted);
    }
  }
  return std::nullopt;
}

namespace law {
namespace {

using Blocks = std::vector<BlockId>;

bool releases(const Operation& o) {
  return std::holds_alternative<op::Free>(o) || std::holds_alternative<op::Finish>(o) ||
         std::holds_alternative<op::Truncate>(o) || std::holds_alternative<op::SwapIn>(o) ||
         std::holds_alternative<op::Complete>(o);
}

/// Whether this entry of the operation's own request may have changed to its new value.
bool may_change(const Step& step, const RequestState& was, const RequestState& now, GroupId group,
                std::size_t i) {
  const Blocks& old = table_of(was, group);
  const Blocks& table = table_of(now, group);
  if (table[i] != kNullBlock) {
    const auto* granted = std::get_if<Granted>(&step.outcome.result);
    return granted != nullptr &&
           std::ranges::find(granted->copies, Copy{old[i], table[i]}) != granted->copies.end();
  }
  const Recycled gone = recycled_in(step, was, now, group);
  if (std::ranges::find(gone.run, i) != gone.run.end()) return true;
  if (std::ranges::find(gone.states, i) != gone.states.end()) return true;
  const GroupConfig& rules = step.config.groups[group];  // a draft's state that moved to the end
  return moves_state(rules) && i + rules.speculative_blocks >= old.size() &&
         std::find(table.begin() + static_cast<std::ptrdiff_t>(old.size()), table.end(), old[i]) !=
             table.end();
}

/// Whether this entry became the block that the index has for its content, as far as that is shown.
bool repointed(const Step& step, const RequestState& now, GroupId group, std::size_t i) {
  const BlockId block = table_of(now, group)[i];
  if (!step.history.promises->traits.table_repointed() || block == kNullBlock) return false;
  if (block >= step.after.blocks.size()) return false;
  const BlockState& state = step.after.blocks[block];
  const auto key = own_key(step, now, group, i);
  const bool shows_keys = !step.after.index.empty() && key.has_value();
  const bool published = !shows_keys || (state.hashed && state.group == group && state.key == key);
  return exempted(step, published);  // what its rows are is for the content oracle to say
}

/// Whether this grant took more than it was asked for, as the trait allows.
bool reserves_more(const Step& step, const RequestRecord& record) {
  if (!step.history.asked || !step.history.promises->traits.reserves_prompt()) return false;
  for (GroupId g = 0; g < std::min(record.lengths.size(), step.history.asked->groups.size()); ++g) {
    if (record.lengths[g] > step.history.asked->groups[g].length) return true;
  }
  return false;
}

Finding check_entries(const Step& step, const RequestState& was, const RequestState& now) {
  const bool own = !step.history.book.settled() && &now == own_after(step);
  const bool grows = own && std::holds_alternative<op::Allocate>(step.operation);
  const bool recycles = grows || (own && std::holds_alternative<op::Recycle>(step.operation));
  for (GroupId g = 0; g < step.config.groups.size(); ++g) {
    const Blocks& old = table_of(was, g);
    const Blocks& table = table_of(now, g);
    bool kept = grows ? old.size() <= table.size() : old.size() == table.size();
    for (std::size_t i = 0; kept && i < old.size(); ++i) {
      kept = old[i] == table[i] || (recycles && may_change(step, was, now, g, i)) ||
             (own && repointed(step, now, g, i));
    }
    if (!kept) {
      return say("the table of ", Named{now.name}, " in group ", g, " went from ", list_of(old),
                 " to ", list_of(table));
    }
  }
  return std::nullopt;
}

// The answer lists copies first, then the new blocks of the table.
Finding answer_matches_tables(const Step& step, const RequestState& was, const RequestState& now,
                              const Granted& granted) {
  if (granted.blocks.size() != step.config.groups.size()) {
    return say("the grant for ", Named{now.name}, " lists ", granted.blocks.size(), " groups");
  }
  std::size_t copies = 0;
  for (GroupId g = 0; g < granted.blocks.size(); ++g) {
    Blocks expected;
    for (const Copy& copy : copies_of(step, was, now, g)) expected.push_back(copy.to);
    copies += expected.size();
    if (const auto& copy = step.history.tail_copies[g]) {
      ++copies;
      if (step.history.asked->starts) expected.push_back(copy->to);
    }
    const Blocks& table = table_of(now, g);
    const auto loaded = std::min<std::size_t>(
        table.size(), static_cast<std::size_t>(step.history.asked->groups[g].loaded));
    expected.insert(expected.end(), table.begin() + static_cast<std::ptrdiff_t>(loaded),
                    table.end());
    if (expected != granted.blocks[g]) {
      return say("the grant for ", Named{now.name}, " lists ", list_of(granted.blocks[g]),
                 " in group ", g, "; copies and the end of its table are ", list_of(expected));
    }
  }
  if (copies != granted.copies.size()) {
    return say("the grant for ", Named{now.name}, " lists ", granted.copies.size(),
               " copies; its tables "
               "show ",
               copies);
  }
  return std::nullopt;
}

}  // namespace

Finding append_only_table(const Step& step) {
  const RequestState* const own = own_after(step);
  for (const RequestState& r : step.after.requests) {
    const RequestRecord* record = record_of(step, r);
    if (record == nullptr) return say("request ", Named{r.name}, " is there but never arrived");
    if (auto finding = check_lengths(step, r, *record)) return finding;
    if (&r == own && reserves_more(step, *record)) static_cast<void>(exempted(step, true));
    if (&r == own && releases(step.operation)) continue;
    const RequestState* old = before_of(step, r);
    if (old == nullptr || old->tables == r.tables) continue;
    if (auto finding = check_entries(step, *old, r)) return finding;
  }
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  if (granted == nullptr || !step.history.asked) return std::nullopt;
  const RequestState* was = own_before(step);
  if (was == nullptr || own == nullptr) return std::nullopt;
  return answer_matches_tables(step, *was, *own, *granted);
}

extern const Scenes append_only_table_scenes = {
    {"table too long", play::share, [](Scene& s) { s.table(1).push_back(5); }},
    {"table too short", play::share, [](Scene& s) { s.table(1).pop_back(); }},
    {"another request's table changed", play::share,
     [](Scene& s) { std::swap(s.table(0)[0], s.table(0)[1]); }},
    {"answer is not the table's end", play::share,
     [](Scene& s) { s.outcome.result = Granted{{{3}}}; }},
    {"request that never arrived", play::share, [](Scene& s) { s.after.requests[1].name = "z"; }},
    {"read position recycled", play::decode, [](Scene& s) { table(s, 0, 0)[2] = 0; }, with::window},
    {"too short in one group", play::decode, [](Scene& s) { table(s, 0, 1).pop_back(); },
     with::hybrid},
    {"copy that the answer conceals", play::copy, [](Scene& s) { granted(s).copies.clear(); }},
    {"host table too short", play::swapped_out, [](Scene& s) { host_table(s).pop_back(); },
     with::two_tiers},
};

}  // namespace law
}  // namespace kvproof::properties
