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
  std::uint32_t num_tokens = 0;
  std::uint32_t computed = 0;
  std::uint32_t encoder_tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t hit_tokens = 0;  // of the looked-up prefix that it will use
  bool uses_hit = false;
  bool idle = false;  // it has no blocks, and has published nothing
};

/// The demand of an allocation on every group, in tokens; as reference::Demand.
struct Demand {
  std::uint64_t slots = 0;        // tokens that need a slot, drafts included
  std::uint64_t main = 0;         // tokens that are known once the step is computed
  std::uint64_t computed = 0;     // tokens that are there before the step: own, hit and external
  std::uint64_t processed = 0;    // those of them that no step in flight computes
  std::uint64_t local = 0;        // those of them that are here
  std::uint64_t external = 0;     // those of them that a connector loads
  std::uint64_t prefill_end = 0;  // where the prefill ends, which a request that resumes replays
  std::uint32_t prompt = 0;
  std::uint32_t encoder = 0;  // tokens that cross attention reads
  bool uses_hit = false;
  bool starts = false;  // the hit and the external tokens become the beginning of the tables
  bool capped = false;  // all tokens are asked for: a window counts only the blocks that it keeps
};

/// @param limit [tokens] that a request may have @pre external tokens within it (Breach::capacity)
[[nodiscard]] inline Demand demand_of(const AllocateArgs& args, const Standing& request,
                                      std::uint64_t limit) {
  Demand out;
  out.local = std::uint64_t{request.computed} + request.hit_tokens;
  out.computed = out.local + args.external;
  expects(out.computed <= limit, Breach::capacity, "external tokens beyond the token limit");
  out.processed = out.computed - std::min<std::uint64_t>(args.in_flight, out.computed);
  out.main = std::min(out.computed + args.new_tokens, limit);
  out.slots = std::min(out.main + args.lookahead, limit);
  out.external = args.external;
  out.prompt = request.prompt_tokens;
  out.prefill_end = std::max<std::uint64_t>(request.prompt_tokens,
                                            std::max<std::uint32_t>(request.num_tokens, 1) - 1);
  out.encoder = request.encoder_tokens;
  out.uses_hit = request.uses_hit;
  out.starts = request.idle && (request.uses_hit || args.external > 0);
  return out;
}

/// The demand of all the tokens that a request has, instead of its next step's.
[[nodiscard]] inline Demand whole_sequence(Demand demand, const Standing& request) {
  demand.slots = demand.main = request.num_tokens;
  demand.capped = true;
  return demand;
}

/// The blocks that an allocation must leave free.
struct Gates {
  std::int64_t watermark = 0;  // of a request that does not run, beside others that do
  std::int64_t reserved = 0;   // promised to others

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
