// SPDX-License-Identifier: Apache-2.0
// Runs audited sequences of operations.
#include "properties/random/runner.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "properties/random/within.h"
#include "reference/mix64.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

Failure failure_of(const CacheConfig& config, std::vector<Operation> trace, const Violation& v) {
  return {config, std::move(trace), v.breaches(), v.what()};
}

std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end) {
    throw std::invalid_argument(say(name, "=", text, ": expected a number without sign"));
  }
  return value;
}

}  // namespace

bool Failure::names(const std::string& id) const {
  return std::find(breaches.begin(), breaches.end(), id) != breaches.end();
}

bool has_batches(std::span<const Operation> trace) {
  return std::ranges::any_of(trace, [](const Operation& operation) {
    return std::holds_alternative<op::Decode>(operation);
  });
}

std::optional<Failure> run_trace(const MakeSubject& make, const CacheConfig& config,
                                 std::span<const Operation> trace, Oracles oracles) {
  const std::unique_ptr<Subject> subject = make(config);
  Audit audit(config, *subject, oracles, has_batches(trace) ? make(config) : nullptr);
  const Calls& calls = oracles.promises.abilities;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (!is_within(calls, trace[i], audit.state(), audit.history())) return std::nullopt;
    try {
      audit.apply(trace[i]);
    } catch (const Violation& violation) {
      const auto end = trace.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      return failure_of(config, {trace.begin(), end}, violation);
    }
  }
  return std::nullopt;
}

std::optional<Failure> run_choices(const MakeSubject& make, const CacheConfig& config,
                                   const Swarm& swarm, std::span<const Choice> choices,
                                   Oracles oracles, Counts& counts) {
  const Generator generator(config, swarm);
  const std::unique_ptr<Subject> subject = make(config);
  Audit audit(config, *subject, oracles, draws_batches(swarm) ? make(config) : nullptr);
  std::vector<Operation> trace;
  trace.reserve(choices.size() + 16);
  std::optional<Failure> failure;
  try {
    for (Choice choice : choices) {
      trace.push_back(generator.next(choice, audit.state(), audit.history()));
      audit.apply(trace.back());
    }
    // Each request, lease and transfer, the raw owner and the index need one operation. A subject
    // that needs more leaks blocks; the law of a drained manager (I23) reports it on the way.
    const std::size_t enough = audit.history().requests.size() + audit.history().transfers.size() +
                               audit.state().leases.size() + 2;
    for (std::size_t i = 0; i < enough; ++i) {
      auto operation = Generator::drain(audit.state(), audit.history());
      if (!operation) break;
      trace.push_back(std::move(*operation));
      audit.apply(trace.back());
    }
  } catch (const Violation& violation) {
    failure = failure_of(config, std::move(trace), violation);
  }
  counts += audit.counts();
  return failure;
}

std::optional<Failure> run_case(const MakeSubject& make, const Profile& profile,
                                const Configuration& configuration, const Case& c, Oracles oracles,
                                Counts& counts) {
  return run_choices(make, draw_config(profile, configuration, c.setup),
                     draw_swarm(configuration, mix64(c.setup)), c.choices, oracles, counts);
}

Configuration without_batches(const Configuration& row) {
  static const Abilities kSingleCalls = [] {
    Abilities out;
    out.batches = false;
    return out;
  }();
  Configuration out = row;
  out.within = &kSingleCalls;
  return out;
}

Case draw_case(ChoiceStream& stream, std::size_t max_operations) {
  Case out;
  out.setup = stream.next();
  out.choices.resize(1 + stream.next() % max_operations);
  for (Choice& choice : out.choices) choice = stream.next();
  return out;
}

std::uint64_t seed_from_environment() { return number_from_environment("KVPROOF_SEED", 1); }

std::uint64_t operations_from_environment() {
  return number_from_environment("KVPROOF_OPERATIONS", 10000);
}

}  // namespace kvproof::properties
