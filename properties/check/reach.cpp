// SPDX-License-Identifier: Apache-2.0
#include "properties/check/reach.h"

#include <algorithm>
#include <iterator>

#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

bool all_read(const CacheConfig& config) {
  return std::ranges::all_of(config.groups, [](const GroupConfig& g) { return reads_all(g.kind); });
}

bool declares(const OperationSet& declared, const Reach& reach) {
  return reach.operations.front().empty() ||
         std::ranges::any_of(reach.operations, [&](std::string_view name) {
           return !name.empty() && declared.test(operation_index(name));
         });
}

bool is_about(const CacheConfig& config, About about) {
  switch (about) {
    case About::caching: return config.enable_caching;
    case About::unhashed_first:
      return config.enable_caching && config.profile.caching_on == FreeOrder::unhashed_first;
    case About::several_groups: return config.groups.size() > 1;
    case About::moving_states: return std::ranges::any_of(config.groups, moves_state);
    case About::host_tier: return config.num_host_blocks > 0;
    default: return true;
  }
}

}  // namespace

std::string why_left_out(const Law& law, const CacheConfig& config, const Demands& demands) {
  const Level level = demands.promises.level;
  if (law.promise == Promise::policy && level < Level::policy) {
    return say("it promises ", level == Level::hits ? "hits" : "safety", ", not policy");
  }
  if (law.promise == Promise::hits && level < Level::hits) return "it promises safety, not hits";
  OperationSet declared = demands.promises.operations;
  // What looks up within an admission is sent no read.
  if (demands.promises.traits.looks_up_within() && law.reach.applies == when::reads) {
    declared &= ~operation_set({"lookup"});
  }
  if (!declares(declared, law.reach)) {
    return say("it does not declare ", law.reach.operations.front());
  }
  const bool Calls::*needed_call = law.reach.needs;
  if (needed_call != nullptr && !(demands.promises.abilities.*needed_call)) {
    const auto* row = std::ranges::find(kCalls, law.reach.needs, &CallRow::value);
    return say("it is not asked for ", row->sentence);
  }
  const bool counts_suffice = law.reach.counts_suffice && !config.enable_caching &&
                              all_read(config) &&
                              !demands.promises.operations.test(operation_index("fork"));
  if (counts_suffice) return {};
  Parts needed = law.reach.always | (config.enable_caching ? law.reach.when_caching : 0);
  if (config.num_host_blocks == 0) needed &= ~Parts{kHost};
  const Parts missing = needed & ~demands.shown;
  return missing != 0 ? "it does not show " + names_of(missing) : std::string();
}

Oracles oracles_for(const CacheConfig& config, const Demands& demands) {
  Oracles out;
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    if (!why_left_out(kStateLaws[i], config, demands).empty()) out.laws_left_out |= 1ULL << i;
  }
  out.promises = demands.promises;
  const Promises& promises = demands.promises;
  const Parts shown = demands.shown;
  const Parts to_compare = kIds | kQueue | kReferences | (config.enable_caching ? kCached : 0U) |
                           (config.num_host_blocks > 0 ? kHost : 0U);
  out.content = (shown & kIds) != 0;
  out.model = promises.level == Level::profile && (to_compare & ~shown) == 0 &&
              (promises.profile.empty() || promises.profile == config.profile.name);
  out.compared = {.index = (shown & kIndex) != 0,
                  .progress = (shown & kProgress) != 0,
                  .counters = promises.whole};
  return out;
}

bool is_about(const Law& law, const CacheConfig& config, const OperationSet& asked) {
  return is_about(config, law.reach.about) && declares(asked, law.reach);
}

bool is_about(const Law& law, const CacheConfig& config) {
  return is_about(config, law.reach.about);
}

}  // namespace kvproof::properties
