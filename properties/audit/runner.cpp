// SPDX-License-Identifier: Apache-2.0
// Runs audited sequences of operations.
#include "properties/audit/runner.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "properties/audit/within.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

/// As far as the headers of traces count.
std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (error != std::errc() || at != end || value > kMost) {
    throw std::invalid_argument(
        say(name, "=", text, ": expected a whole number from 0 to ", kMost));
  }
  return value;
}

}  // namespace

bool has_batches(std::span<const Operation> trace) {
  return std::ranges::any_of(trace, [](const Operation& operation) {
    return std::holds_alternative<op::Decode>(operation);
  });
}

Source from_trace(std::span<const Operation> trace, const Calls& calls) {
  return [trace, calls, at = std::size_t{0}](const Audit& audit) mutable {
    const bool ends =
        at == trace.size() || !is_within(calls, trace[at], audit.state(), audit.history());
    return ends ? std::nullopt : std::optional(trace[at++]);
  };
}

std::optional<Failure> play_out(const CacheConfig& config, Audit& audit, const Source& next,
                                const Observer& held) {
  std::vector<Operation> trace;
  try {
    while (auto operation = next(audit)) {
      trace.push_back(std::move(*operation));
      audit.apply(trace.back());
      if (held && !held(trace.back())) break;
    }
    return std::nullopt;
  } catch (Violation& violation) {
    audit.complete(trace.back(), violation.step);  // where it is the observer that objects
    return Failure{std::move(violation), config, std::move(trace)};
  }
}

std::optional<Failure> run_trace(const MakeSubject& make, const CacheConfig& config,
                                 std::span<const Operation> trace, Oracles oracles) {
  const std::unique_ptr<Subject> subject = make(config);
  Audit audit(config, *subject, oracles, has_batches(trace) ? make(config) : nullptr);
  return play_out(config, audit, from_trace(trace, oracles.promises.abilities));
}

std::uint64_t seed_from_environment() { return number_from_environment("KVPROOF_SEED", 1); }

std::uint64_t operations_from_environment() {
  return number_from_environment("KVPROOF_OPERATIONS", 10000);
}

}  // namespace kvproof::properties
