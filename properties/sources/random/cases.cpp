// SPDX-License-Identifier: Apache-2.0
// Draws cases and plays them.
#include "properties/sources/random/cases.h"

#include <tuple>

#include "reference/mix64.h"

namespace kvproof::properties {

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
    if (!left) {
      const CallerBook& book = history.book;
      left = book.requests().size() + book.transfers().size() + state.leases.size() + 2;
    }
    if (*left == 0) return std::nullopt;
    --*left;
    return Generator::drain(state, history);
  };
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

}  // namespace kvproof::properties
