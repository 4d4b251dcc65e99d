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
      return say(r.name, " has ", r.computed, " of ", r.num_tokens, " tokens computed, expected ",
                 told.computed, " of ", told.tokens);
    }
  }
  const auto* arrive = std::get_if<op::Arrive>(&step.operation);
  const RequestState* now = step.after.find(own);
  if (arrive != nullptr && (now == nullptr || now->num_tokens != arrive->tokens.size())) {
    return say(own, " arrived with ", arrive->tokens.size(), " tokens, and does not show them");
  }
  const bool gone = std::holds_alternative<op::Finish>(step.operation);
  if (gone && now != nullptr) return say(own, " was finished, and is there");
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

Finding check_room(const Step& step) {
  const RequestState* now = own_after(step);
  if (now == nullptr) return std::nullopt;
  if (std::holds_alternative<op::Free>(step.operation) && !without_blocks(*now)) {
    return say(now->name, " was preempted, and has blocks");
  }
  const auto& asked = step.history.asked;
  for (GroupId g = 0; asked && g < asked->groups.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    const std::uint64_t room = table_of(*now, g).size() * std::uint64_t{group.block_size};
    if (reads_all(group.kind) && room < asked->slots) {
      return say(now->name, " was granted ", asked->slots, " slots, and has room for ", room);
    }
  }
  return std::nullopt;
}

}  // namespace

Finding done_as_asked(const Step& step) {
  if (when::failed(step)) return std::nullopt;  // I20
  if (auto finding = check_tokens(step)) return finding;
  if (auto finding = check_raw(step)) return finding;
  if (auto finding = check_room(step)) return finding;
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
    {"preempted with blocks", play::preempt,
     [](Scene& s) { s.after.requests = s.before.requests, s.after.requests[0].computed = 0; }},
    {"reset in vain", play::reset_device, [](Scene& s) { s.outcome.result = false; }},
};

}  // namespace kvproof::properties::law
