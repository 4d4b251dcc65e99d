// SPDX-License-Identifier: Apache-2.0
// The reach of a law: the parts of a state that it must see, the operations that it is about, and
// the steps that it applies to. The rows of laws.h use these words.
#pragma once

#include <array>
#include <string_view>
#include <variant>

#include "properties/caller/promises.h"
#include "properties/laws/law_checks.h"
#include "properties/laws/occasion.h"
#include "reference/operations.h"

namespace kvproof::properties {

/// What a configuration must have so that a law can be broken in it.
enum class About { anything, caching, unhashed_first, several_groups, moving_states, host_tier };

/// Whether a law is evaluated on a step.
enum class Applies { no, suspended, yes };

/// The steps on which a law is evaluated; see its sentence and the operations that suspend it.
namespace when {
[[nodiscard]] inline Applies yes_if(bool holds) { return holds ? Applies::yes : Applies::no; }
[[nodiscard]] inline Applies unless(bool suspended) {
  return suspended ? Applies::suspended : Applies::yes;
}
template <class... Kinds>
[[nodiscard]] bool is(const Step& s) {
  return (std::holds_alternative<Kinds>(s.operation) || ...);
}
template <class Answer>
[[nodiscard]] bool answered(const Step& s) {
  return std::holds_alternative<Answer>(s.outcome.result);
}
[[nodiscard]] inline bool failed(const Step& s) {
  return answered<Refused>(s) || is_undone(s.outcome.result);
}

inline Applies always(const Step&) { return Applies::yes; }
inline Applies queues(const Step& s) { return unless(s.history.queue_evicted); }
inline Applies tables_kept(const Step& s) {
  return unless(is<op::Free, op::Finish, op::Truncate, op::SwapIn, op::Complete>(s));
}
inline Applies chains(const Step& s) {
  return s.outcome.events.empty() ? Applies::no : unless(s.history.chains_loose);
}
inline Applies hits(const Step& s) {
  const auto& asked = s.history.asked;
  return yes_if(answered<Hit>(s) || (answered<Granted>(s) && asked && asked->uses_hit));
}
inline Applies allocations(const Step& s) { return yes_if(s.history.asked.has_value()); }
inline Applies grants(const Step& s) {
  return yes_if(answered<Granted>(s) && s.history.asked.has_value());
}
inline Applies publications(const Step& s) {
  return is<op::Cache>(s) ? yes_if(!failed(s)) : grants(s);
}
inline Applies preemptions(const Step& s) { return yes_if(is<op::Free>(s) && !failed(s)); }
inline Applies failures(const Step& s) { return yes_if(failed(s)); }
inline Applies refusals(const Step& s) { return yes_if(answered<Refused>(s)); }
inline Applies successes(const Step& s) { return yes_if(!failed(s)); }
inline Applies gates(const Step& s) {
  const auto* allocate = std::get_if<op::Allocate>(&s.operation);
  return yes_if(allocate != nullptr && allocate->args.full_sequence_must_fit);
}
inline Applies reads(const Step& s) {
  return yes_if(only_asks(s.operation) || is<op::Step, op::Recycle>(s));
}
inline Applies resets(const Step& s) { return yes_if(is<op::Reset>(s)); }
inline Applies common_prefixes(const Step& s) { return yes_if(answered<SharedBlocks>(s)); }
inline Applies forks(const Step& s) { return yes_if(is<op::Fork>(s) && !failed(s)); }
inline Applies leases(const Step& s) {
  const bool leased = is<op::Pin, op::Unpin>(s) || !s.before.leases.empty();
  return leased ? unless(is<op::Evict, op::Reset>(s)) : Applies::no;
}
inline Applies batches(const Step& s) { return yes_if(is<op::Decode>(s) && !failed(s)); }
inline Applies transfers(const Step& s) {
  return yes_if(!s.history.book.transfers().empty() || s.history.book.settled().has_value());
}
}  // namespace when

inline constexpr Parts kContent = kCached | kKeys | kIndex | kHashes;

/// By default a law needs every part of a state, so it is only demanded of our own subjects.
struct Reach {
  Parts always = kAllParts;  // the parts that it reads
  Parts when_caching = 0;    // further parts with a prefix cache
  About about = About::anything;
  Applies (*applies)(const Step&) = when::always;
  std::array<std::string_view, 4> operations = {};  // the subject must declare one of them
  bool Calls::*needs = nullptr;                     // the way of calling that it is about
  /// Whether counts alone suffice to check it without prefix cache, forks and windows.
  bool counts_suffice = false;
  Occasions occasions = on::any;       // a step without any of them cannot break it
  std::string_view suspended_by = {};  // operations after which it is not demanded; empty = none
};

/// Whether the step can break the law.
[[nodiscard]] inline bool is_due(const Reach& reach, const History& history) {
  return (reach.occasions & history.occasions) != 0;
}

}  // namespace kvproof::properties
