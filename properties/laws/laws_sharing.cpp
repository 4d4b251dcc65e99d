// SPDX-License-Identifier: Apache-2.0
// Laws of sharing beyond lookups: forks, copies before writing, leases.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

std::uint32_t entries_of(const RequestState& r, BlockId block) {
  std::uint32_t out = 0;
  for (const auto& table : r.tables) {
    out += static_cast<std::uint32_t>(std::ranges::count(table, block));
  }
  return out;
}

bool same_tokens(const RequestState& a, const RequestState& b) {
  return a.num_tokens == b.num_tokens && a.computed == b.computed && a.hashes == b.hashes;
}

/// Whether a child has its parent's tables, but for the copies that were answered. What is
/// published is shared.
bool has_tables_of(const Step& step, const RequestState& child, const RequestState& parent,
                   const std::vector<Copy>& copies) {
  std::size_t copied = 0;
  if (child.tables.size() != parent.tables.size()) return false;
  for (GroupId g = 0; g < child.tables.size(); ++g) {
    if (child.tables[g].size() != parent.tables[g].size()) return false;
    for (std::size_t i = 0; i < child.tables[g].size(); ++i) {
      const Copy copy{parent.tables[g][i], child.tables[g][i]};
      if (copy.from == copy.to) continue;
      const bool may = std::ranges::find(copies, copy) != copies.end() &&
                       !step.before.blocks[copy.from].hashed &&
                       step.before.blocks[copy.to].ref_cnt == 0;
      if (!may) return false;
      ++copied;
    }
  }
  return copied == copies.size();
}

}  // namespace

Finding fork_shares(const Step& step) {
  const auto* fork = std::get_if<op::Fork>(&step.operation);
  if (fork == nullptr || is_undone(step.outcome.result)) return std::nullopt;
  const RequestState* was = own_before(step);
  const RequestState* parent = own_after(step);
  const RequestState* child = step.after.find(fork->child);
  if (was == nullptr || parent == nullptr || child == nullptr) {
    return say("a fork of ", Named{fork->req}, " to ", Named{fork->child},
               " was answered, and one is missing");
  }
  if (*parent != *was) return say("the fork changed its parent ", Named{fork->req});
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  const std::vector<Copy> copies = granted != nullptr ? granted->copies : std::vector<Copy>();
  if (!has_tables_of(step, *child, *was, copies) || !same_tokens(*child, *was)) {
    return say("the child ", Named{fork->child}, " has ", lists_of(child->tables),
               ", its parent has ", lists_of(was->tables), "; ", copies.size(),
               " copies are answered");
  }
  if (child->progress != was->progress) {
    return say("the child ", Named{fork->child}, " has not published what its parent has");
  }
  for (BlockId block = 1; block < step.history.num_blocks; ++block) {
    const bool copied = std::ranges::find(copies, block, &Copy::to) != copies.end();
    BlockState expected = copied ? BlockState{} : step.before.blocks[block];
    expected.ref_cnt += entries_of(*child, block);
    if (expected != step.after.blocks[block]) {
      return say("the fork of ", Named{fork->req}, " left block ", block, " with ",
                 step.after.blocks[block].ref_cnt, " references instead of ", expected.ref_cnt);
    }
  }
  return std::nullopt;
}

extern const Scenes fork_shares_scenes = {
    {"child without a block", play::fork, [](Scene& s) { s.table(1).pop_back(); }},
    {"child without references", play::fork, [](Scene& s) { --s.block(1).ref_cnt; }},
    {"parent changed", play::fork, [](Scene& s) { ++s.after.requests[0].computed; }},
    {"child has published nothing", play::fork,
     [](Scene& s) { s.after.requests[1].progress[0] = std::nullopt; }},
    {"a published block copied", play::fork,
     [](Scene& s) {
       s.outcome.result = Granted{{}, {{s.table(1)[0], 4}}};
       --s.block(s.table(1)[0]).ref_cnt;
       s.table(1)[0] = 4;
       s.block(4).ref_cnt = 1;
     }},
    {"a copy concealed", play::fork,
     [](Scene& s) {
       --s.block(s.table(1)[2]).ref_cnt;
       s.table(1)[2] = 4;
       s.block(4).ref_cnt = 1;
     }},
    {"child is missing", play::fork, [](Scene& s) { s.after.requests.pop_back(); }},
};

namespace {

/// Whether an entry is the block that is published for its content, where tables name that one.
bool is_repointed(const Step& step, const RequestState& now, GroupId group, std::size_t i) {
  const std::vector<BlockId>& table = table_of(now, group);
  if (!step.history.promises->traits.table_repointed() || i >= table.size()) return false;
  if (table[i] >= step.after.blocks.size()) return false;
  const BlockState& block = step.after.blocks[table[i]];
  return block.hashed && block.group == group && own_key(step, now, group, i) == block.key;
}

}  // namespace

// What is published is complete; to write it again is to write the same bytes.
Finding copy_before_write(const Step& step) {
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  const auto& asked = step.history.asked;
  if (granted == nullptr || !asked) return std::nullopt;
  const RequestState* was = own_before(step);
  const RequestState* now = own_after(step);
  if (was == nullptr || now == nullptr) return std::nullopt;
  for (GroupId g = 0; g < step.config.groups.size() && g < asked->groups.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    if (!is_written_again(group.kind)) continue;
    const std::vector<BlockId>& table = table_of(*now, g);
    const std::uint64_t block_size = group.block_size;
    const std::uint64_t published =
        asked->starts ? asked->groups[g].begun : std::uint64_t{progress_of(*was, g)};
    const auto end = std::min<std::uint64_t>(ceil_div(asked->slots, block_size), table.size());
    for (auto i = static_cast<std::size_t>(std::max(asked->total / block_size, published)); i < end;
         ++i) {
      if (table[i] >= step.after.blocks.size()) continue;
      const BlockState& block = step.after.blocks[table[i]];
      const bool foreign = block.hashed && block.key != own_key(step, *now, g, i) &&
                           !is_tail_key(step, *now, g, i, block.key);
      if (writers_of(step.after, table[i]) <= 1 && !foreign) continue;
      if (!foreign && exempted(step, is_repointed(step, *now, g, i))) continue;
      return say("position ", TableEntry{i}, " of ", Named{now->name}, " in group ", g,
                 " is about to be written in ", "block ", table[i], ", which has ", block.ref_cnt,
                 " holders", foreign ? " and carries a key of other content" : "");
    }
    const auto shared = shared_in_range(step, *was, g, asked->total, asked->slots);
    const std::size_t copied = copies_of(step, *was, *now, g).size();
    const auto repointed = static_cast<std::size_t>(std::ranges::count_if(
        shared, [&](std::size_t i) { return is_repointed(step, *now, g, i); }));
    if (exempted(step, repointed > 0 && copied + repointed >= shared.size())) continue;
    if (copied != (asked->starts ? 0 : shared.size())) {
      return say(copied, " blocks of ", Named{now->name}, " were copied in group ", g, "; ",
                 shared.size(), " are about to be written and have another holder");
    }
  }
  return std::nullopt;
}

extern const Scenes copy_before_write_scenes = {
    {"written while shared", play::copy, [](Scene& s) { s.block(s.table(1)[2]).ref_cnt = 2; }},
    {"not copied", play::copy,
     [](Scene& s) {
       s.table(1)[2] = s.table(0)[2];
       granted(s) = Granted{{{}}};
     }},
    {"written under a foreign key", play::copy,
     [](Scene& s) {
       s.block(s.table(1)[2]).hashed = true;
       s.block(s.table(1)[2]).key = 77;
     }},
};

namespace {

Finding check_lease_list(const Step& step) {
  const bool rejected = is_undone(step.outcome.result);
  const auto* pin = std::get_if<op::Pin>(&step.operation);
  const auto* unpin = std::get_if<op::Unpin>(&step.operation);
  const bool stays = rejected || (pin == nullptr && unpin == nullptr);
  if (stays && step.before.leases == step.after.leases &&
      std::ranges::is_sorted(step.after.leases, {}, &LeaseState::name)) {
    return std::nullopt;
  }
  std::vector<LeaseState> expected = step.before.leases;
  if (pin != nullptr && !rejected) expected.push_back({pin->lease, pin->blocks});
  if (unpin != nullptr && !rejected) {
    std::erase_if(expected, [&](const LeaseState& l) { return l.name == unpin->lease; });
  }
  std::ranges::sort(expected, {}, &LeaseState::name);
  if (expected == step.after.leases) return std::nullopt;
  return say("the leases are ", step.after.leases.size(), ", not the ", expected.size(),
             " that were given and not returned");
}

}  // namespace

Finding lease_holds(const Step& step) {
  if (auto finding = check_lease_list(step)) return finding;
  if (step.before.leases.empty()) return std::nullopt;
  const bool forgets = std::holds_alternative<op::Evict>(step.operation) ||
                       std::holds_alternative<op::Reset>(step.operation);
  const auto* answer = std::get_if<Granted>(&step.outcome.result);
  const bool takes_raw = std::holds_alternative<op::Take>(step.operation);
  for (const LeaseState& lease : step.before.leases) {
    for (BlockId block : lease.blocks) {
      if (block >= step.history.num_blocks) continue;
      const bool handed_out =
          takes_raw && answer != nullptr && !answer->blocks.empty() &&
          std::ranges::find(answer->blocks.front(), block) != answer->blocks.front().end();
      const bool moved = std::ranges::any_of(  // with the copy of a state that is overwritten
          step.history.tail_copies, [&](const auto& copy) { return copy && copy->from == block; });
      const bool lost =
          step.before.blocks[block].hashed && !step.after.blocks[block].hashed && !moved;
      if (handed_out || (lost && !forgets)) {
        return say("block ", block, handed_out ? " was handed out" : " lost its key",
                   " while lease ", lease.name, " holds it");
      }
      if (step.history.tally.queued[block] != 0 && step.history.tally.leased[block] != 0) {
        return say("block ", block, " is queued while lease ", lease.name, " holds it");
      }
    }
  }
  return std::nullopt;
}

extern const Scenes lease_holds_scenes = {
    {"lease lost", play::pin, [](Scene& s) { s.after.leases.clear(); }},
    {"leased block handed out", play::take_while_pinned,
     [](Scene& s) { granted(s).blocks[0][0] = 1; }},
    {"leased block lost its key", play::take_while_pinned,
     [](Scene& s) { s.block(1).hashed = false; }},
};

}  // namespace kvproof::properties::law
