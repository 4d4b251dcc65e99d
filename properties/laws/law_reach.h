// SPDX-License-Identifier: Apache-2.0
// The reach of a law: the parts of a state that it must see, the operations that it is about, and
// the steps that it is checked on. The rows of laws.h use these words.
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

/// Whether a law is checked on a step.
enum class Speaks { no, suspended, yes };

/// The steps on which a law is checked; see its sentence and the operations that suspend it.
namespace when {
[[nodiscard]] inline Speaks yes_if(bool holds) { return holds ? Speaks::yes : Speaks::no; }
[[nodiscard]] inline Speaks unless(bool suspended) {
  return suspended ? Speaks::suspended : Speaks::yes;
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

inline Speaks always(const Step&) { return Speaks::yes; }
inline Speaks queues(const Step& s) { return unless(s.history.queue_evicted); }
inline Speaks tables_kept(const Step& s) {
  return unless(is<op::Free, op::Finish, op::Truncate, op::SwapIn, op::Complete>(s));
}
inline Speaks chains(const Step& s) {
  return s.outcome.events.empty() ? Speaks::no : unless(s.history.chains_loose);
}
inline Speaks hits(const Step& s) {
  const auto& asked = s.history.asked;
  return yes_if(answered<Hit>(s) || (answered<Granted>(s) && asked && asked->uses_hit));
}
inline Speaks allocations(const Step& s) { return yes_if(s.history.asked.has_value()); }
inline Speaks grants(const Step& s) {
  return yes_if(answered<Granted>(s) && s.history.asked.has_value());
}
inline Speaks publications(const Step& s) {
  return is<op::Cache>(s) ? yes_if(!failed(s)) : grants(s);
}
inline Speaks preemptions(const Step& s) { return yes_if(is<op::Free>(s) && !failed(s)); }
inline Speaks failures(const Step& s) { return yes_if(failed(s)); }
inline Speaks refusals(const Step& s) { return yes_if(answered<Refused>(s)); }
inline Speaks successes(const Step& s) { return yes_if(!failed(s)); }
inline Speaks gates(const Step& s) {
  const auto* allocate = std::get_if<op::Allocate>(&s.operation);
  return yes_if(allocate != nullptr && allocate->args.full_sequence_must_fit);
}
inline Speaks reads(const Step& s) {
  return yes_if(only_asks(s.operation) || is<op::Step, op::Recycle>(s));
}
inline Speaks resets(const Step& s) { return yes_if(is<op::Reset>(s)); }
inline Speaks common_prefixes(const Step& s) { return yes_if(answered<SharedBlocks>(s)); }
inline Speaks forks(const Step& s) { return yes_if(is<op::Fork>(s) && !failed(s)); }
inline Speaks leases(const Step& s) {
  const bool leased = is<op::Pin, op::Unpin>(s) || !s.before.leases.empty();
  return leased ? unless(is<op::Evict, op::Reset>(s)) : Speaks::no;
}
inline Speaks batches(const Step& s) { return yes_if(is<op::Decode>(s) && !failed(s)); }
inline Speaks transfers(const Step& s) {
  return yes_if(!s.history.book.transfers().empty() || s.history.book.settled().has_value());
}
}  // namespace when

inline constexpr Parts kContent = kCached | kKeys | kIndex | kHashes;

/// By default a law needs every part of a state, so it is only demanded of our own subjects.
struct Reach {
  Parts always = kAllParts;  // the parts that it reads
  Parts when_caching = 0;    // further parts with a prefix cache
  About about = About::anything;
  Speaks (*speaks)(const Step&) = when::always;
  std::array<std::string_view, 4> operations = {};  // the subject must declare one of them
  bool Calls::*needs = nullptr;                     // the way of calling that it is about
  /// Whether counts alone suffice to check it without prefix cache, forks and windows.
  bool counts_suffice = false;
  Occasions occasions = on::any;  // a step without any of them cannot break it
};

/// Whether the step can break the law.
[[nodiscard]] inline bool is_due(const Reach& reach, const History& history) {
  return (reach.occasions & history.occasions) != 0;
}

}  // namespace kvproof::properties
