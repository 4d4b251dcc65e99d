// SPDX-License-Identifier: Apache-2.0
// The law that what was asked has happened, as far as the caller itself can count.
#include <algorithm>

#include "properties/laws/law_scenes.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties::law {
namespace {

/// What a request must have after the operation. [tokens]
struct Told {
  std::uint64_t tokens = 0;
  std::uint64_t computed = 0;
};

Told told_of(const Operation& operation, const RequestState& was) {
  Told out{was.num_tokens, was.computed};
  if (const auto* append = std::get_if<op::Append>(&operation)) out.tokens += append->tokens.size();
  if (const auto* advance = std::get_if<op::Advance>(&operation)) out.computed = advance->computed;
  if (std::holds_alternative<op::Free>(operation)) out.computed = 0;
  return out;
}

Finding check_tokens(const Step& step) {
  const std::string& own = request_of(step.operation);
  for (const RequestState& r : step.after.requests) {
    const RequestState* was = before_of(step, r);
    if (was == nullptr) continue;
    const Told told =
        r.name == own ? told_of(step.operation, *was) : Told{was->num_tokens, was->computed};
    if (r.num_tokens != told.tokens || r.computed != told.computed) {
      return say(Named{r.name}, " has ", r.computed, " of ", r.num_tokens,
                 " tokens computed, expected ", told.computed, " of ", told.tokens);
    }
  }
  const auto* fork = std::get_if<op::Fork>(&step.operation);
  const RequestState* parent = own_after(step);
  const RequestState* child = fork != nullptr ? step.after.find(fork->child) : nullptr;
  if (fork != nullptr && parent != nullptr &&
      (child == nullptr || child->num_tokens != parent->num_tokens ||
       child->computed != parent->computed)) {
    return say(Named{fork->child}, " has not the tokens of ", Named{own});
  }
  const auto* arrive = std::get_if<op::Arrive>(&step.operation);
  const RequestState* now = step.after.find(own);
  if (arrive != nullptr && (now == nullptr || now->num_tokens != arrive->tokens.size())) {
    return say(Named{own}, " arrived with ", arrive->tokens.size(),
               " tokens, and does not show them");
  }
  const bool gone = std::holds_alternative<op::Finish>(step.operation);
  if (gone && now != nullptr) return say(Named{own}, " was finished, and is there");
  return std::nullopt;
}

/// Adds or removes the references that the raw owner was given or gave back.
void follow_raw(const Step& step, std::vector<BlockId>& raw) {
  const auto add = [&raw](const std::vector<BlockId>& blocks) {
    raw.insert(raw.end(), blocks.begin(), blocks.end());
  };
  const auto* granted = std::get_if<Granted>(&step.outcome.result);
  if (granted != nullptr && std::holds_alternative<op::Take>(step.operation)) {
    for (const auto& blocks : granted->blocks) add(blocks);
  }
  if (const auto* touch = std::get_if<op::Touch>(&step.operation)) add(touch->blocks);
  if (const auto* release = std::get_if<op::Release>(&step.operation)) {
    for (const BlockId block : release->blocks) {
      const auto at = std::ranges::find(raw, block);
      if (at != raw.end()) raw.erase(at);
    }
  }
}

Finding check_raw(const Step& step) {
  if (const auto* take = std::get_if<op::Take>(&step.operation)) {
    std::size_t taken = 0;
    const auto* granted = std::get_if<Granted>(&step.outcome.result);
    for (std::size_t g = 0; granted != nullptr && g < granted->blocks.size(); ++g) {
      taken += granted->blocks[g].size();
    }
    if (granted != nullptr && taken != take->n) {
      return say(take->n, " blocks were to be taken, ", taken, " are answered");
    }
  }
  if (!when::is<op::Take, op::Touch, op::Release>(step) && step.before.raw == step.after.raw) {
    return std::nullopt;
  }
  std::vector<BlockId> raw = step.before.raw;
  follow_raw(step, raw);
  std::ranges::sort(raw);
  if (raw == step.after.raw) return std::nullopt;
  return say("the raw owner holds ", list_of(step.after.raw), " instead of ", list_of(raw));
}

Finding check_tables(const Step& step) {
  for (const RequestState& r : step.after.requests) {
    const RequestRecord* record = record_of(step, r);
    if (record == nullptr) return say("request ", Named{r.name}, " is there but never arrived");
    if (auto finding = check_lengths(step, r, *record)) return finding;
  }
  const RequestState* was = own_before(step);
  const RequestState* now = own_after(step);
  if (was == nullptr || now == nullptr || !when::is<op::Recycle>(step)) return std::nullopt;
  for (GroupId g = 0; g < step.config.groups.size(); ++g) {
    for (const std::size_t i : recycled_in(step, *was, *now, g).run) {
      if (table_of(*now, g)[i] == kNullBlock) continue;
      return say("position ", TableEntry{i}, " of ", Named{now->name}, " in group ", g,
                 " is not read any more, and was not recycled");
    }
  }
  return std::nullopt;
}

/// The most leading blocks that two requests can share: those of equal content, and of relatives by
/// a fork all.
std::uint64_t may_share(const Step& step, GroupId g, const RequestRecord& a,
                        const RequestRecord& b) {
  if (!a.holds() || !b.holds()) return 0;
  if (a.forked && b.forked) return std::min(a.lengths[g], b.lengths[g]);
  const auto parted = std::ranges::mismatch(a.sequence->contents, b.sequence->contents).in1;
  const auto units = static_cast<std::uint64_t>(parted - a.sequence->contents.begin());
  return units / step.history.groups[g].units_per_block;
}

/// A lone table is its own common prefix; several share at most what has equal content.
Finding check_shared(const Step& step) {
  const auto* shared = std::get_if<SharedBlocks>(&step.outcome.result);
  const RequestState* own = own_after(step);
  const RequestRecord* record = own_record(step);
  if (shared == nullptr || own == nullptr || record == nullptr) return std::nullopt;
  for (GroupId g = 0; g < shared->size() && g < step.config.groups.size(); ++g) {
    const bool counted = step.config.enable_caching && step.config.profile.counts_common_prefix &&
                         reads_all(step.config.groups[g].kind);
    std::uint64_t most = counted ? table_of(*own, g).size() : 0;
    bool lone = true;
    for (const RequestState& other : step.after.requests) {
      const RequestRecord* theirs = record_of(step, other);
      if (&other == own || theirs == nullptr || table_of(other, g).empty()) continue;
      lone = false;
      most = std::min(most, may_share(step, g, *record, *theirs));
    }
    const std::uint64_t said = (*shared)[g];
    if (said > most || (lone && said != most)) {
      return say("the common prefix of group ", g, " is said to be ", said,
                 " blocks; by their tokens ", most, " can be");
    }
  }
  return std::nullopt;
}

/// Hits are counted when they are used (C9), and at no other time.
Finding check_counters(const Step& step) {
  if (step.before.counters == step.after.counters || step.history.asked) return std::nullopt;
  return say("the hit counters changed without an allocation");
}

Finding check_evicted(const Step& step) {
  const auto* evict = std::get_if<op::Evict>(&step.operation);
  for (std::size_t i = 0; evict != nullptr && i < evict->blocks.size(); ++i) {
    const BlockId block = evict->blocks[i];
    if (block < step.after.blocks.size() && step.after.blocks[block].hashed) {
      return say("block ", block, " was evicted and still carries a key");
    }
  }
  return std::nullopt;
}

}  // namespace

Finding done_as_asked(const Step& step) {
  if (when::failed(step)) return std::nullopt;  // I20
  if (auto finding = check_tokens(step)) return finding;
  if (auto finding = check_raw(step)) return finding;
  if (auto finding = check_tables(step)) return finding;
  if (auto finding = check_shared(step)) return finding;
  if (auto finding = check_evicted(step)) return finding;
  if (auto finding = check_counters(step)) return finding;
  const auto* reset = std::get_if<bool>(&step.outcome.result);
  const bool idle = step.before.num_free + 1 == step.config.num_blocks;
  if (reset == nullptr || step.config.num_host_blocks > 0 || *reset == idle) return std::nullopt;
  return say("a reset answered ", *reset ? "true" : "false", " with ", step.before.num_free,
             " free blocks of ", step.config.num_blocks - 1);
}

extern const Scenes done_as_asked_scenes = {
    {"a token lost", play::append, [](Scene& s) { --s.after.requests[0].num_tokens; }},
    {"another request computed", play::append, [](Scene& s) { ++s.after.requests[1].computed; }},
    {"arrived without tokens", play::arrive_other,
     [](Scene& s) { s.after.requests[2].num_tokens = 0; }},
    {"finished and there", play::share_and_finish,
     [](Scene& s) { s.after.requests = s.before.requests; }},
    {"one block too few taken", play::take_while_pinned,
     [](Scene& s) { granted(s).blocks.front().pop_back(); }},
    {"a raw reference kept", play::look_up, [](Scene& s) { s.after.raw.push_back(1); }},
    {"no room for what was granted", play::share, [](Scene& s) { s.table(1).pop_back(); }},
    {"child without its parent's tokens", play::fork,
     [](Scene& s) { --s.after.requests[1].computed; }},
    {"not recycled", play::recycle, [](Scene& s) { s.after = s.before; }, with::window},
    {"more shared than held", play::common_prefix,
     [](Scene& s) { s.outcome.result = SharedBlocks{3}; }},
    {"hits counted by a lookup", play::look_up, [](Scene& s) { s.after.counters.emplace(); }},
    {"evicted in vain", play::evict, [](Scene& s) { s.block(1).hashed = true; }},
    {"preempted with blocks", play::preempt,
     [](Scene& s) { s.after.requests = s.before.requests, s.after.requests[0].computed = 0; }},
    {"reset in vain", play::reset_device, [](Scene& s) { s.outcome.result = false; }},
};

}  // namespace kvproof::properties::law
