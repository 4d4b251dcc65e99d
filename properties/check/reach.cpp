// SPDX-License-Identifier: Apache-2.0
#include "properties/check/reach.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

/// One step as audited.
struct Seen {
  const Audit& audit;
  const Operation& operation;
  const Outcome& outcome;

  [[nodiscard]] const History& history() const { return audit.history(); }
  template <class... Kinds>
  [[nodiscard]] bool is() const {
    return (std::holds_alternative<Kinds>(operation) || ...);
  }
  template <class Answer>
  [[nodiscard]] bool answered() const {
    return std::holds_alternative<Answer>(outcome.result);
  }
  [[nodiscard]] bool failed() const { return answered<Refused>() || answered<Rejected>(); }
};

Speaks yes_if(bool holds) { return holds ? Speaks::yes : Speaks::no; }
Speaks unless(bool suspended) { return suspended ? Speaks::suspended : Speaks::yes; }

// When a law says something; see its sentence and what suspends it.
namespace when {
Speaks always(const Seen&) { return Speaks::yes; }
Speaks queues(const Seen& s) { return unless(s.history().queue_evicted); }
Speaks tables_kept(const Seen& s) {
  return unless(s.is<op::Free, op::Finish, op::Truncate, op::SwapIn, op::Complete>());
}
Speaks chains(const Seen& s) {
  return s.outcome.events.empty() ? Speaks::no : unless(s.history().chains_loose);
}
Speaks hits(const Seen& s) {
  const auto& asked = s.history().asked;
  return yes_if(s.answered<Hit>() || (s.answered<Granted>() && asked && asked->uses_hit));
}
Speaks allocations(const Seen& s) { return yes_if(s.history().asked.has_value()); }
Speaks grants(const Seen& s) {
  return yes_if(s.answered<Granted>() && s.history().asked.has_value());
}
Speaks publications(const Seen& s) { return s.is<op::Cache>() ? yes_if(!s.failed()) : grants(s); }
Speaks preemptions(const Seen& s) { return yes_if(s.is<op::Free>() && !s.failed()); }
Speaks failures(const Seen& s) { return yes_if(s.failed()); }
Speaks successes(const Seen& s) { return yes_if(!s.failed()); }
Speaks gates(const Seen& s) {
  const auto* allocate = std::get_if<op::Allocate>(&s.operation);
  return yes_if(allocate != nullptr && allocate->args.full_sequence_must_fit);
}
Speaks reads(const Seen& s) {
  return yes_if(s.is<op::Lookup, op::CommonPrefix, op::Step, op::Recycle>());
}
Speaks resets(const Seen& s) { return yes_if(s.is<op::Reset>()); }
Speaks common_prefixes(const Seen& s) { return yes_if(s.answered<SharedBlocks>()); }
Speaks forks(const Seen& s) { return yes_if(s.is<op::Fork>() && !s.failed()); }
Speaks leases(const Seen& s) {
  const bool leased = s.is<op::Pin, op::Unpin>() || !s.audit.state_before().leases.empty();
  return leased ? unless(s.is<op::Evict, op::Reset>()) : Speaks::no;
}
Speaks transfers(const Seen& s) {
  return yes_if(!s.history().transfers.empty() || s.history().settled.has_value());
}
}  // namespace when

constexpr Parts kContent = kCached | kKeys | kIndex | kHashes;

/// What a configuration must have for a law to mean something.
enum class About { anything, caching, unhashed_first, several_groups, moving_states, host_tier };

/// What a law reads of a state, when it has a say, and the operations that it is about.
struct Reading {
  std::string_view id;
  Parts always = kAllParts;
  Parts when_caching = 0;
  About about = About::anything;
  Speaks (*speaks)(const Seen&) = when::always;
  std::array<std::string_view, 4> operations = {};  // one of which the subject must declare
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
    {"I9", 0, kCached | kKeys | kIndex, About::caching},
    {"I10", 0, kIndex, About::caching},
    {"I11", kIds, 0, About::several_groups},
    {"I12", kQueue, kCached, About::unhashed_first, when::queues},
    {"I13", kIds, kContent | kProgress, About::caching},
    {"I14", kIds},
    {"I15", kIds, 0, About::moving_states},
    {"I16", kIds, 0, About::anything, when::tables_kept},
    {"I17", 0, kIndex | kHashes, About::caching, when::chains},
    {"I18", kIds, kContent, About::anything, when::hits, {"lookup"}},
    {"I19", kIds | kReferences, kProgress, About::anything, when::allocations},
    {"I20", 0, 0, About::anything, when::failures},
    {"I21", kIds | kReferences, kProgress, About::anything, when::gates},
    {"I22", 0, 0, About::anything, when::reads, {"lookup", "common_prefix", "step", "recycle"}},
    {"I23", 0},
    {"I24", kEvents, kCached, About::anything, when::resets, {"reset"}},
    {"I25", 0, kEvents | kContent, About::caching},
    {"I26", kIds | kQueue | kReferences, kCached, About::anything, when::successes},
    {"I29", 0, kHashes, About::caching},
    {"I31", kUsage},
    {"C1", kIds, 0, About::anything, when::common_prefixes, {"common_prefix"}},
    {"C2", kIds | kReferences, 0, About::anything, when::forks, {"fork"}},
    {"C3", kIds | kReferences, kContent | kProgress, About::anything, when::grants, {"fork"}},
    {"C4", 0, kCached, About::anything, when::leases, {"pin"}},
    {"C5", kIds, kContent, About::host_tier, when::transfers, {"swap_out"}},
    {"C6", kHost, 0, About::host_tier, when::always, {"swap_out"}},
    {"C7", 0, kIds | kContent, About::caching},
    {"C8", kIds, kContent | kProgress, About::caching, when::publications},
    {"C9", kCounters, 0, About::caching, when::grants},
    {"C10", 0, kIds | kContent, About::caching, when::hits, {"lookup"}},
    {"C11", kIds, kProgress, About::anything, when::preemptions, {"free"}},
};

/// One for each row of the list of laws.
constexpr auto kReadingOfLaw = [] {
  std::array<Reading, std::size(kLaws)> out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].id = kLaws[i].id;
    for (const Reading& reading : kReadings) {
      if (reading.id == kLaws[i].id) out[i] = reading;
    }
  }
  return out;
}();

std::size_t index_of(const Law& law) { return static_cast<std::size_t>(&law - std::begin(kLaws)); }

bool all_read(const CacheConfig& config) {
  return std::ranges::all_of(config.groups, [](const GroupConfig& g) { return reads_all(g.kind); });
}

bool declares(const OperationSet& declared, const Reading& reading) {
  return reading.operations.front().empty() ||
         std::ranges::any_of(reading.operations, [&](std::string_view name) {
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
  const Reading& reading = kReadingOfLaw[index_of(law)];
  const bool ours = demands.promises.level != Level::safety;
  if (law.promise == Promise::policy && !ours) return "it promises safety, not policy";
  if (!declares(demands.promises.operations, reading)) {
    return say("it does not declare ", reading.operations.front());
  }
  // Which end of the queue a refused request gives its skipped blocks to is policy.
  if (law.id == "I20" && !ours && !all_read(config)) return "it promises safety, not policy";
  // Without sharing and windows, counts say what an allocation needs.
  const bool counts_suffice = (law.id == "I19" || law.id == "I21") && !config.enable_caching &&
                              all_read(config) &&
                              !demands.promises.operations.test(operation_index("fork"));
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

bool is_about(const Law& law, const CacheConfig& config, const OperationSet& asked) {
  const Reading& reading = kReadingOfLaw[index_of(law)];
  return is_about(config, reading.about) && declares(asked, reading);
}

Speaks speaks(const Law& law, const Audit& audit, const Operation& operation,
              const Outcome& outcome) {
  const Reading& reading = kReadingOfLaw[index_of(law)];
  return is_about(audit.config(), reading.about) ? reading.speaks({audit, operation, outcome})
                                                 : Speaks::no;
}

}  // namespace kvproof::properties
