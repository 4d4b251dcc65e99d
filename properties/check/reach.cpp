// SPDX-License-Identifier: Apache-2.0
#include "properties/check/reach.h"

#include <algorithm>
#include <iterator>

#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

constexpr Parts kContent = kCached | kKeys | kIndex | kHashes;

/// What a law reads of a state, and the operations that it is about.
struct Reading {
  std::string_view id;
  Parts always;
  Parts when_caching = 0;
  std::string_view operation = {};  // that the subject must declare
};

constexpr Reading kReadings[] = {
    {"I1", kQueue},
    {"I2", kQueue | kReferences},
    {"I3", kQueue | kLinks},
    {"I4", kQueue},
    {"I5", kReferences},
    {"I6", kIds | kReferences},
    {"I7", kIds},
    {"I8", kIds, kCached},
    {"I9", 0, kCached | kKeys | kIndex},
    {"I10", 0, kIndex},
    {"I11", kIds},
    {"I12", kQueue, kCached},
    {"I13", kIds, kContent | kProgress},
    {"I14", kIds},
    {"I15", kIds},
    {"I16", kIds},
    {"I17", 0, kIndex | kHashes},
    {"I18", kIds, kContent, "lookup"},
    {"I19", kIds | kReferences, kProgress},
    {"I20", 0},
    {"I21", kIds | kReferences, kProgress},
    {"I22", 0},
    {"I23", 0},
    {"I24", kEvents, kCached, "reset"},
    {"I25", 0, kEvents | kContent},
    {"I26", kIds | kQueue | kReferences, kCached},
    {"I29", 0, kHashes},
    {"I31", kUsage},
    {"C1", kIds, 0, "common_prefix"},
    {"C2", kIds | kReferences, 0, "fork"},
    {"C3", kIds | kReferences, kContent | kProgress, "fork"},
    {"C4", 0, kCached, "pin"},
    {"C5", kIds, kContent, "swap_out"},
    {"C6", kHost, 0, "swap_out"},
};

Reading reading_of(std::string_view id) {
  const auto* at = std::ranges::find(kReadings, id, &Reading::id);
  return at != std::end(kReadings) ? *at : Reading{id, kAllParts};
}

bool all_read(const CacheConfig& config) {
  return std::ranges::all_of(config.groups, [](const GroupConfig& g) { return reads_all(g.kind); });
}

bool declares(const Demands& demands, std::string_view operation) {
  return operation.empty() || demands.promises.operations.test(operation_index(operation));
}

}  // namespace

std::string why_left_out(const Law& law, const CacheConfig& config, const Demands& demands) {
  const Reading reading = reading_of(law.id);
  const bool ours = demands.promises.level != Level::safety;
  if (law.promise == Promise::policy && !ours) return "it promises safety, not policy";
  if (!declares(demands, reading.operation)) return say("it does not declare ", reading.operation);
  // Which end of the queue a refused request gives its skipped blocks to is policy.
  if (law.id == "I20" && !ours && !all_read(config)) return "it promises safety, not policy";
  // Without sharing and windows, counts say what an allocation needs.
  const bool counts_suffice = (law.id == "I19" || law.id == "I21") && !config.enable_caching &&
                              all_read(config) && !declares(demands, "fork");
  if (counts_suffice) return {};
  Parts needed = reading.always | (config.enable_caching ? reading.when_caching : 0);
  if (config.num_host_blocks == 0) needed &= ~Parts{kHost};
  const Parts missing = needed & ~demands.shown;
  return missing != 0 ? "it does not show " + names_of(missing) : std::string();
}

Oracles oracles_for(const CacheConfig& config, const Demands& demands) {
  Oracles out;
  for (std::size_t i = 0; i < std::size(kLaws); ++i) {
    if (!why_left_out(kLaws[i], config, demands).empty()) out.laws_left_out |= 1ULL << i;
  }
  const Promises& promises = demands.promises;
  const Parts shown = demands.shown;
  const Parts to_compare = kIds | kQueue | kReferences | (config.enable_caching ? kCached : 0U) |
                           (config.num_host_blocks > 0 ? kHost : 0U);
  out.content = (shown & kIds) != 0;
  out.model = promises.level == Level::profile && (to_compare & ~shown) == 0 &&
              (promises.profile.empty() || promises.profile == config.profile.name);
  out.compared = {.index = (shown & kIndex) != 0, .progress = (shown & kProgress) != 0};
  return out;
}

namespace {

template <class... Kinds>
bool is_any(const Operation& operation) {
  return (std::holds_alternative<Kinds>(operation) || ...);
}

bool failed(const Outcome& outcome) {
  return std::holds_alternative<Refused>(outcome.result) ||
         std::holds_alternative<Rejected>(outcome.result);
}

Speaks yes_if(bool holds) { return holds ? Speaks::yes : Speaks::no; }
Speaks unless(bool suspended) { return suspended ? Speaks::suspended : Speaks::yes; }

}  // namespace

Speaks speaks(const Law& law, const Audit& audit, const Operation& o, const Outcome& outcome) {
  const CacheConfig& config = audit.config();
  const History& history = audit.history();
  const bool granted = std::holds_alternative<Granted>(outcome.result);
  const std::string_view id = law.id;
  if (id == "I9" || id == "I10" || id == "I13" || id == "I25" || id == "I29") {
    return yes_if(config.enable_caching);
  }
  if (id == "I11") return yes_if(config.groups.size() > 1);
  if (id == "I12") {
    const bool ordered = config.profile.caching_on == FreeOrder::unhashed_first;
    return config.enable_caching && ordered ? unless(history.queue_evicted) : Speaks::no;
  }
  if (id == "I15") return yes_if(std::ranges::any_of(config.groups, moves_state));
  if (id == "I16") {
    return unless(is_any<op::Free, op::Finish, op::Truncate, op::SwapIn, op::Complete>(o));
  }
  if (id == "I17") {
    return outcome.events.empty() ? Speaks::no : unless(history.chains_loose);
  }
  if (id == "I18") {
    const bool uses = granted && history.asked && history.asked->uses_hit;
    return yes_if(std::holds_alternative<Hit>(outcome.result) || uses);
  }
  if (id == "I19") return yes_if(history.asked.has_value());
  if (id == "I20") return yes_if(failed(outcome));
  if (id == "I21") {
    const auto* allocate = std::get_if<op::Allocate>(&o);
    return yes_if(allocate != nullptr && allocate->args.full_sequence_must_fit);
  }
  if (id == "I22") return yes_if(is_any<op::Lookup, op::CommonPrefix, op::Step, op::Recycle>(o));
  if (id == "I24") return yes_if(std::holds_alternative<op::Reset>(o));
  if (id == "I26") return yes_if(!failed(outcome));
  if (id == "C1") return yes_if(std::holds_alternative<SharedBlocks>(outcome.result));
  if (id == "C2") return yes_if(std::holds_alternative<op::Fork>(o) && !failed(outcome));
  if (id == "C3") return yes_if(granted && history.asked);
  if (id == "C4") {
    const bool leased = is_any<op::Pin, op::Unpin>(o) || !audit.state_before().leases.empty();
    return leased ? unless(is_any<op::Evict, op::Reset>(o)) : Speaks::no;
  }
  if (id == "C5") return yes_if(!history.transfers.empty() || history.settled.has_value());
  if (id == "C6") return yes_if(config.num_host_blocks > 0);
  return Speaks::yes;
}

}  // namespace kvproof::properties
