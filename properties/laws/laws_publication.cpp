// SPDX-License-Identifier: Apache-2.0
// Laws of when content becomes findable, and when it counts as gone.
#include <algorithm>

#include "properties/laws/law_checks.h"
#include "reference/layer_rules.h"

namespace kvproof::properties::law {
namespace {

/// What an operation publishes of one request. All in tokens.
struct Publication {
  const RequestState* was;
  const RequestState* now;
  std::uint64_t tokens;    // computed, or about to be
  const Extent* from_hit;  // the tables begin with a hit or loaded blocks; nullptr = they go on
};

std::optional<Publication> publication_of(const Step& step) {
  const RequestState* was = step.before.find(request_of(step.operation));
  const RequestState* now = step.after.find(request_of(step.operation));
  if (!step.config.enable_caching || was == nullptr || now == nullptr) return std::nullopt;
  const auto* cache = std::get_if<op::Cache>(&step.operation);
  if (cache != nullptr && !std::holds_alternative<Rejected>(step.outcome.result)) {
    return Publication{was, now, cache->computed, nullptr};
  }
  const auto* allocate = std::get_if<op::Allocate>(&step.operation);
  const auto& asked = step.history.asked;
  if (allocate == nullptr || !asked || !std::holds_alternative<Granted>(step.outcome.result)) {
    return std::nullopt;
  }
  return Publication{was, now, allocate->args.delay_cache ? 0 : asked->main,
                     asked->starts ? &*asked : nullptr};
}

// No hit ends where it would need a masked block, so a key there only takes room in the index.
Finding check_masked(const Step& step, const RequestState& r, GroupId group, std::uint64_t from,
                     std::uint64_t to) {
  const CacheMask mask = cache_mask(step.config, step.config.groups[group]);
  for (std::uint64_t i = from; i < to; ++i) {
    const BlockId block = table_of(r, group)[i];
    if (block == kNullBlock || mask.keeps(static_cast<std::uint32_t>(i))) continue;
    const BlockState& was = step.before.blocks[block];
    const BlockState& now = step.after.blocks[block];
    const bool own = now.hashed && now.key == own_key(step, r, group, i);
    if (own && !(was.hashed && was.key == now.key)) {
      return say("position ", i, " of ", r.name, " in group ", group,
                 " is masked out, and its block ", block, " was given a key");
    }
  }
  return std::nullopt;
}

}  // namespace

Finding publication_is_due(const Step& step) {
  const auto p = publication_of(step);
  if (!p) return std::nullopt;
  const std::uint64_t known = std::min<std::uint64_t>(p->tokens, p->now->num_tokens);
  for (GroupId g = 0; g < step.config.groups.size(); ++g) {
    const GroupConfig& group = step.config.groups[g];
    const std::vector<BlockId>& table = table_of(*p->now, g);
    const std::uint64_t before =
        p->from_hit != nullptr ? p->from_hit->groups[g].begun : progress_of(*p->was, g);
    const std::uint64_t due = std::min<std::uint64_t>(
        publishable_tokens(step.config.profile, group, alignment(step.config), known) /
            group.block_size,
        table.size());
    if (progress_of(*p->now, g) != std::max(before, due)) {
      return say("of ", known, " tokens of ", p->now->name, " in group ", g, ", ",
                 progress_of(*p->now, g), " positions are published instead of ",
                 std::max(before, due));
    }
    if (auto finding = check_masked(step, *p->now, g, before, std::max(before, due)))
      return finding;
  }
  return std::nullopt;
}

Finding preemption_starts_over(const Step& step) {
  const bool freed = std::holds_alternative<op::Free>(step.operation) &&
                     !std::holds_alternative<Rejected>(step.outcome.result);
  const RequestState* r = freed ? step.after.find(request_of(step.operation)) : nullptr;
  if (r == nullptr) return std::nullopt;
  const bool clean =
      without_blocks(*r) && without_progress(*r) && r->host_tables.empty() && r->computed == 0;
  if (clean) return std::nullopt;
  return say("request ", r->name, " was preempted and has ", r->computed,
             " computed tokens, blocks ", lists_of(r->tables), " and ", lists_of(r->host_tables));
}

}  // namespace kvproof::properties::law
