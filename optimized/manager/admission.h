// SPDX-License-Identifier: Apache-2.0
// The demand of one allocation, and the gates that it must pass: arithmetic without a pool.
//
// Source:  vLLM v1 allocate_slots; the watermark of PR 44594, the reserve of PR 44560.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/config.h"
#include "reference/contract.h"
#include "reference/request.h"

namespace kvproof::optimized {

/// How many blocks an admission took, or that it was refused. One word: an optional of 32 bits is
/// assembled in memory, and reading it back stalls every decode step.
class Admission {
 public:
  constexpr Admission(std::uint32_t num_taken) : num_taken_(num_taken) {}  // NOLINT: a count is one
  [[nodiscard]] static constexpr Admission refused() { return {kRefused}; }
  [[nodiscard]] constexpr explicit operator bool() const { return num_taken_ != kRefused; }
  /// [blocks] @pre granted
  [[nodiscard]] constexpr std::uint32_t operator*() const { return num_taken_; }

 private:
  static constexpr std::uint32_t kRefused = 0xffffffffU;  // more than any pool has
  std::uint32_t num_taken_;
};

/// Whether an allocation is a step of a running request, which no gate can refuse.
[[nodiscard]] constexpr bool is_ungated_step(const AllocateArgs& args) {
  return args.status == RequestStatus::running && args.reserved == 0 && args.in_flight == 0 &&
         !args.full_sequence_must_fit && !args.use_lookup && args.external == 0 &&
         args.new_tokens > 0;
}

/// The facts about a request before an allocation, in tokens.
struct Standing {
  std::uint32_t num_tokens;
  std::uint32_t computed;
  std::uint32_t encoder_tokens;
  std::uint32_t prompt_tokens;
  std::uint32_t hit_tokens;  // of the looked-up prefix that it will use
  bool uses_hit;
  bool idle;  // it has no blocks, and has published nothing
};

/// The demand of an allocation on every group, in tokens; as reference::Demand.
struct Demand {
  std::uint64_t slots;        // tokens that need a slot, drafts included
  std::uint64_t main;         // tokens that are known once the step is computed
  std::uint64_t computed;     // tokens that are there before the step: own, hit and external
  std::uint64_t processed;    // those of them that no step in flight computes
  std::uint64_t local;        // those of them that are here
  std::uint64_t external;     // those of them that a connector loads
  std::uint64_t prefill_end;  // where the prefill ends, which a request that resumes replays
  std::uint32_t prompt;
  std::uint32_t encoder;  // tokens that cross attention reads
  bool uses_hit;
  bool starts;  // the hit and the external tokens become the beginning of the tables
  bool capped;  // all tokens are asked for: a window counts only the blocks that it keeps
};

/// @param limit [tokens] that a request may have @pre external tokens within it (Breach::capacity)
[[nodiscard]] inline Demand demand_of(const AllocateArgs& args, const Standing& request,
                                      std::uint64_t limit) {
  const std::uint64_t local = std::uint64_t{request.computed} + request.hit_tokens;
  const std::uint64_t computed = local + args.external;
  expects(computed <= limit, Breach::capacity, "external tokens beyond the token limit");
  const std::uint64_t main = std::min(computed + args.new_tokens, limit);
  return {.slots = std::min(main + args.lookahead, limit),
          .main = main,
          .computed = computed,
          .processed = computed - std::min<std::uint64_t>(args.in_flight, computed),
          .local = local,
          .external = args.external,
          .prefill_end = std::max<std::uint64_t>(
              request.prompt_tokens, std::max<std::uint32_t>(request.num_tokens, 1) - 1),
          .prompt = request.prompt_tokens,
          .encoder = request.encoder_tokens,
          .uses_hit = request.uses_hit,
          .starts = request.idle && (request.uses_hit || args.external > 0),
          .capped = false};
}

/// The demand of all the tokens that a request has, instead of its next step's.
[[nodiscard]] inline Demand whole_sequence(Demand demand, const Standing& request) {
  demand.slots = demand.main = request.num_tokens;
  demand.capped = true;
  return demand;
}

/// The blocks that an allocation must leave free.
struct Gates {
  std::int64_t watermark;  // of a request that does not run, beside others that do
  std::int64_t reserved;   // promised to others

  [[nodiscard]] bool admit_sequence(std::int64_t need, std::int64_t num_free) const {
    return need + watermark <= num_free;
  }
  [[nodiscard]] bool admit_step(std::int64_t need, std::int64_t num_free) const {
    return need + watermark + reserved <= num_free;
  }
};

[[nodiscard]] inline Gates gates_of(const CacheConfig& config, const AllocateArgs& args) {
  const bool admission = args.has_scheduled && args.status != RequestStatus::running;
  return {.watermark = admission ? config.watermark_blocks() : 0,
          .reserved = config.profile.admission_gates ? args.reserved : 0};
}

}  // namespace kvproof::optimized
