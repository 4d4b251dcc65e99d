// SPDX-License-Identifier: Apache-2.0
// What happens when a caller breaks a precondition: a ContractViolation that names the law.
//
// Shortage (no block free) is never a violation: it is an answer. A violation is a caller's bug,
// and it is thrown before anything was changed. It is an exception, not an abort, because property
// tests shrink exceptions and lose the case on an abort.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvproof {

/// Why an operation was rejected as a whole. The manager is as it was before the call.
enum class Breach {
  unknown_request,         // the name was never announced, or was finished
  duplicate_request,       // the name is in use
  nothing_to_allocate,     // neither new nor external tokens were asked for
  hit_on_running,          // a looked-up prefix was handed in for a request that already has blocks
  stale_lookup,            // a block of the handed-in prefix no longer carries that content
  computed_beyond_tokens,  // more tokens computed than the request has
  block_out_of_range,      // a block id that the pool does not have
  not_held,                // a reference was dropped that does not exist (double free)
  capacity,                // more requests or tokens than the manager was built for
  published_tail,          // a truncation would drop a block that is published or computed
  no_content,              // a block was pinned that has neither a holder nor content
  unknown_lease,           // the lease was never given, or was returned
  duplicate_lease,         // the lease is in use
  unknown_transfer,        // no such transfer is in flight
  duplicate_transfer,      // the transfer is in flight already
  in_transfer,             // the blocks of the request are in flight, or lie in the host tier
  not_in_transfer,         // the blocks of the request do not lie where the operation needs them
  not_supported,  // this manager has no such mechanism: no host tier, a state that cannot be forked
};

[[nodiscard]] constexpr std::string_view to_string(Breach breach) {
  switch (breach) {
    case Breach::unknown_request: return "unknown_request";
    case Breach::duplicate_request: return "duplicate_request";
    case Breach::nothing_to_allocate: return "nothing_to_allocate";
    case Breach::hit_on_running: return "hit_on_running";
    case Breach::stale_lookup: return "stale_lookup";
    case Breach::computed_beyond_tokens: return "computed_beyond_tokens";
    case Breach::block_out_of_range: return "block_out_of_range";
    case Breach::not_held: return "not_held";
    case Breach::capacity: return "capacity";
    case Breach::published_tail: return "published_tail";
    case Breach::no_content: return "no_content";
    case Breach::unknown_lease: return "unknown_lease";
    case Breach::duplicate_lease: return "duplicate_lease";
    case Breach::unknown_transfer: return "unknown_transfer";
    case Breach::duplicate_transfer: return "duplicate_transfer";
    case Breach::in_transfer: return "in_transfer";
    case Breach::not_in_transfer: return "not_in_transfer";
    case Breach::not_supported: return "not_supported";
  }
  return "unnamed";
}

/// @return the breach whose name begins this text, as that of a ContractViolation does
[[nodiscard]] constexpr std::optional<Breach> breach_of(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Breach::not_supported); ++i) {
    const auto breach = static_cast<Breach>(i);
    if (text.substr(0, text.find(':')) == to_string(breach)) return breach;
  }
  return std::nullopt;
}

class ContractViolation : public std::logic_error {
 public:
  ContractViolation(Breach breach, const std::string& detail)
      : std::logic_error(std::string(to_string(breach)) + ": " + detail), breach_(breach) {}

  [[nodiscard]] Breach breach() const { return breach_; }

 private:
  Breach breach_;
};

/// Out of line, so that a check costs its caller a compare and a jump.
[[noreturn, gnu::noinline, gnu::cold]] inline void violated(Breach breach, const char* detail) {
  throw ContractViolation(breach, detail);
}

/// Throws unless `holds`. The detail is a string literal, so that the passing path builds nothing.
inline void expects(bool holds, Breach breach, const char* detail) {
  if (!holds) [[unlikely]]
    violated(breach, detail);
}

}  // namespace kvproof
