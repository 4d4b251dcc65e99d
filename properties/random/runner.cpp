// SPDX-License-Identifier: Apache-2.0
// Runs audited sequences of operations.
#include "properties/random/runner.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "properties/random/within.h"
#include "reference/mix64.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

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

Source from_trace(std::span<const Operation> trace, const Calls& calls) {
  return [trace, calls, at = std::size_t{0}](const Audit& audit) mutable {
    const bool ends =
        at == trace.size() || !is_within(calls, trace[at], audit.state(), audit.history());
    return ends ? std::nullopt : std::optional(trace[at++]);
  };
}

Source from_choices(const Generator& generator, std::span<const Choice> choices) {
  return [&generator, choices, left = std::optional<std::size_t>()](
             const Audit& audit) mutable -> std::optional<Operation> {
    const auto& [state, history] = std::tie(audit.state(), audit.history());
    if (!choices.empty()) {
      const Choice choice = choices.front();
      choices = choices.subspan(1);
      return generator.next(choice, state, history);
    }
    // Each request, lease and transfer, the raw owner and the index need one operation. A subject
    // that needs more leaks blocks; the law of a drained manager (I23) reports it on the way.
    if (!left) left = history.requests.size() + history.transfers.size() + state.leases.size() + 2;
    if (*left == 0) return std::nullopt;
    --*left;
    return Generator::drain(state, history);
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
  } catch (const Violation& violation) {
    return Failure{config, std::move(trace), violation.breaches(), violation.what()};
  }
}

std::optional<Failure> run_trace(const MakeSubject& make, const CacheConfig& config,
                                 std::span<const Operation> trace, Oracles oracles) {
  const std::unique_ptr<Subject> subject = make(config);
  Audit audit(config, *subject, oracles, has_batches(trace) ? make(config) : nullptr);
  return play_out(config, audit, from_trace(trace, oracles.promises.abilities));
}

std::optional<Failure> run_choices(const MakeSubject& make, const CacheConfig& config,
                                   const Swarm& swarm, std::span<const Choice> choices,
                                   Oracles oracles, Counts& counts) {
  const Generator generator(config, swarm);
  const std::unique_ptr<Subject> subject = make(config);
  Audit audit(config, *subject, oracles, draws_batches(swarm) ? make(config) : nullptr);
  auto failure = play_out(config, audit, from_choices(generator, choices));
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
  out.choices = stream.take(1 + stream.next() % max_operations);
  return out;
}

std::uint64_t seed_from_environment() { return number_from_environment("KVPROOF_SEED", 1); }

std::uint64_t operations_from_environment() {
  return number_from_environment("KVPROOF_OPERATIONS", 10000);
}

}  // namespace kvproof::properties
