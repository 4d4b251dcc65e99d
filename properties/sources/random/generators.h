// SPDX-License-Identifier: Apache-2.0
// Turns numbers into operations that make sense in the current state: one 64-bit choice becomes one
// operation.
//
// Model:   next(choice, state, history) is a pure function. The choices come from a property test
//          that shrinks them, from a seeded generator, or from the bytes of a fuzzer.
// Biased:  towards inputs that break allocators: lengths k*B-1, k*B, k*B+1, pools from 3 blocks up,
//          old prompts replayed after churn, equal and different extra keys, duplicate ids in one
//          call, failed operations retried, transfers that fail, and a few calls that must be
//          rejected.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/caller/abilities.h"
#include "properties/caller/configurations.h"
#include "properties/laws/history.h"
#include "reference/config.h"
#include "reference/mix64.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

using Choice = std::uint64_t;

/// Takes small numbers out of one choice, lowest byte first. The choice 0 yields zeros, the
/// simplest case.
class Draws {
 public:
  explicit Draws(Choice choice) : bytes_(choice), seed_(choice) {}

  /// @return a number in [0, n). @pre 0 < n <= 65536
  std::uint32_t below(std::uint32_t n);
  bool one_in(std::uint32_t n) { return below(n) == n - 1; }

 private:
  Choice bytes_;
  Choice seed_;
  std::uint32_t used_ = 0;  // [bytes] of the choice
};

/// An endless stream of choices from a seed (SplitMix64).
class ChoiceStream {
 public:
  explicit ChoiceStream(std::uint64_t seed) : state_(seed) {}
  Choice next() { return next_mix64(state_); }
  std::vector<Choice> take(std::size_t n) {
    std::vector<Choice> out(n);
    std::ranges::generate(out, [this] { return next(); });
    return out;
  }

 private:
  std::uint64_t state_;
};

enum class Kind : std::uint8_t {
  arrive,
  lookup,
  allocate,
  advance,
  append,
  finish,
  free,
  cache,
  evict,
  reset,
  common_prefix,
  recycle,
  step,
  take,
  touch,
  release,
  wrong,
  fork,
  truncate,
  pin,
  unpin,
  swap_out,
  swap_in,
  complete,
  decode
};
inline constexpr std::size_t kNumKinds = 25;

/// How often each kind is tried. Drawn anew per run, some kinds off (swarm testing: Groce et al.,
/// ISSTA'12), because what two features hide from each other shows when one of them is absent.
struct Swarm {
  [[nodiscard]] std::uint8_t& of(Kind kind) { return weight[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::uint8_t of(Kind kind) const { return weight[static_cast<std::size_t>(kind)]; }

  std::array<std::uint8_t, kNumKinds> weight{};
  std::uint32_t extra_one_in = 4;  // arrivals with extra keys; 0 = never
  std::uint32_t external_one_in = 6;
  std::uint32_t draft_one_in = 4;
  Calls calls = {};
};

/// Every kind as often as usual, but no mistakes and no batches.
[[nodiscard]] Swarm usual_swarm();

/// Draws a swarm. Kinds that do nothing in a configuration are off.
[[nodiscard]] Swarm draw_swarm(const Configuration& configuration, Choice choice);

/// Whether runs of the swarm decode in batches, for which an audit needs a second subject.
[[nodiscard]] bool draws_batches(const Swarm& swarm);

/// A row of features, which all have their share: kinds of layers, alike groups, lengths of blocks
/// and windows, EAGLE on some of them, units, pools, tiers, policies.
[[nodiscard]] Configuration draw_row(Choice choice);

/// A small manager of the row: 3..12 usable blocks per group, in units of 1..4 tokens.
[[nodiscard]] CacheConfig draw_config(const Profile& profile, const Configuration& configuration,
                                      Choice choice);

/// The hash units with which all groups have block sizes that the subject has. Shape [any];
/// empty also if it has all sizes.
[[nodiscard]] std::vector<std::uint32_t> units_within(const Configuration& configuration);

inline constexpr std::size_t kMostRequests = 5;

/// A token of one of three texts over three tokens. The texts differ from positions 0, 3 and 6 on,
/// so that prompts share prefixes of every length, and a prompt that is drawn again after churn is
/// the same prompt.
[[nodiscard]] constexpr TokenId token_at(std::uint32_t text, std::uint32_t position) {
  const std::uint32_t base = position * 7 + position / 3;
  return static_cast<TokenId>((base + (position >= 3 * text ? text : 0)) % 3);
}

/// One of the requests for which `keep` holds, if there is any.
template <class Keep>
[[nodiscard]] const RequestRecord* pick(const History& history, Draws& draws, const Keep& keep) {
  const auto& all = history.book.requests();
  const auto n = static_cast<std::uint32_t>(std::count_if(all.begin(), all.end(), keep));
  if (n == 0) return nullptr;
  std::uint32_t skip = draws.below(n);
  for (const RequestRecord& r : all) {
    if (keep(r) && skip-- == 0) return &r;
  }
  return nullptr;
}

class Generator {
 public:
  Generator(const CacheConfig& config, const Swarm& swarm);

  [[nodiscard]] Operation next(Choice choice, const Snapshot& state, const History& history) const;

  /// The next operation that ends the run: transfers end, requests finish, leases and the raw owner
  /// release their blocks, the index is reset. @return nullopt when all that is done
  [[nodiscard]] static std::optional<Operation> drain(const Snapshot& state,
                                                      const History& history);

 private:
  [[nodiscard]] Operation draw(Choice choice, const Snapshot& state, const History& history) const;
  struct Moment {
    const Snapshot& state;
    const History& history;
    Draws& draws;
  };
  // Both lists are sorted by name and mostly list the same requests.
  [[nodiscard]] static const RequestState* state_of(const Moment& m, const RequestRecord& record) {
    const auto at = static_cast<std::size_t>(&record - m.history.book.requests().data());
    const auto& states = m.state.requests;
    if (at < states.size() && states[at].name == record.name) return &states[at];
    return m.state.find(record.name);
  }
  /// The tokens that the last grant covers and that are no drafts.
  [[nodiscard]] static std::uint32_t granted_tokens(const RequestRecord& record,
                                                    const RequestState& r) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(record.scheduled_tokens, r.num_tokens));
  }
  [[nodiscard]] std::optional<Operation> make(Kind kind, Moment& m) const;
  [[nodiscard]] std::optional<Operation> make_rest(Kind kind, Moment& m) const;
  [[nodiscard]] std::optional<Operation> follow_up(Moment& m) const;
  [[nodiscard]] Operation arrive(Moment& m) const;
  [[nodiscard]] ExtraKeys extra(Moment& m, std::uint32_t num_tokens) const;
  [[nodiscard]] ExtraKeys imitation(Moment& m, std::uint32_t num_tokens) const;
  [[nodiscard]] std::optional<Operation> lookup(Moment& m) const;
  [[nodiscard]] Operation look_up(Moment& m, const std::string& req) const;
  [[nodiscard]] std::optional<Operation> allocate(Moment& m) const;
  [[nodiscard]] Operation admit(Moment& m, const RequestState& r,
                                const RequestRecord& record) const;
  [[nodiscard]] Operation admit_as_running(Moment& m, const RequestState& r) const;
  [[nodiscard]] Operation within_calls(const std::string& req, AllocateArgs args) const;
  [[nodiscard]] Operation extend(Moment& m, const RequestState& r) const;
  [[nodiscard]] std::uint32_t chunk(Moment& m, std::uint32_t start, std::uint32_t rest) const;
  [[nodiscard]] bool must_look_up(const RequestRecord& record) const;
  [[nodiscard]] bool may_fork(const Moment& m, const RequestRecord& record) const;
  [[nodiscard]] bool waits_for_state(const RequestState& r) const;
  [[nodiscard]] std::uint32_t without_loss(std::uint64_t start, std::uint32_t n) const;
  [[nodiscard]] std::uint32_t to_boundary(Moment& m, std::uint32_t prompt_tokens,
                                          std::uint64_t start, std::uint32_t n) const;
  [[nodiscard]] std::optional<Operation> advance(Moment& m) const;
  [[nodiscard]] std::optional<Operation> append(Moment& m) const;
  [[nodiscard]] std::optional<Operation> cache(Moment& m) const;
  [[nodiscard]] Operation evict(Moment& m) const;
  [[nodiscard]] Operation touch(Moment& m) const;
  [[nodiscard]] std::optional<Operation> release(Moment& m) const;
  [[nodiscard]] static std::string someone_gone(Moment& m);
  [[nodiscard]] Operation wrong(Moment& m) const;
  [[nodiscard]] std::optional<Operation> wrong_sharing(Moment& m) const;
  [[nodiscard]] std::optional<Operation> wrong_swap(Moment& m) const;
  [[nodiscard]] std::optional<Operation> wrong_length(Moment& m) const;
  [[nodiscard]] std::optional<Operation> recycle(Moment& m) const;
  // generators_sharing.cpp
  [[nodiscard]] std::optional<Operation> fork(Moment& m) const;
  [[nodiscard]] std::optional<Operation> relatives(Moment& m) const;
  [[nodiscard]] std::optional<Operation> write_on(Moment& m, const RequestState& r,
                                                  BlockId block) const;
  [[nodiscard]] std::optional<Operation> truncate(Moment& m) const;
  [[nodiscard]] Operation pin(Moment& m) const;
  [[nodiscard]] std::optional<Operation> unpin(Moment& m) const;
  [[nodiscard]] std::optional<Operation> swap_out(Moment& m) const;
  [[nodiscard]] std::optional<Operation> swap_in(Moment& m) const;
  [[nodiscard]] std::optional<Operation> complete(Moment& m) const;
  [[nodiscard]] BlockId some_block(Moment& m) const;
  // generators_batch.cpp
  [[nodiscard]] bool may_decode(const Moment& m, const RequestRecord& record) const;
  [[nodiscard]] std::optional<Operation> decode(Moment& m) const;

  CacheConfig config_;
  Swarm swarm_;
  std::size_t most_requests_;
  std::uint32_t total_weight_ = 0;
  std::uint32_t block_size_;         // [tokens] the unit in which lengths are drawn
  std::uint32_t align_;              // [tokens] at whose multiples groups publish
  bool inside_;                      // hits may end inside blocks
  bool has_checkpoints_ = false;     // of prefills, in some group
  std::uint32_t state_size_ = 0;     // [tokens] block of a group whose states move; 0 = none does
  std::uint32_t draft_states_ = 0;   // how many states such a group has for drafts
  bool has_states_ = false;          // in some group
  std::uint32_t encoder_units_ = 0;  // [tokens] block of a cross group; 0 = there is none
};

}  // namespace kvproof::properties
