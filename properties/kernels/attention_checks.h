// SPDX-License-Identifier: Apache-2.0
// The checks that every implementation of attention must pass.
//
// Checks:  the result is exact within attention_bound.h: paged, contiguous and latent, decode also
//          as prefill of one token. Every row is written, and nothing else. The output does not
//          change by a bit when bytes change outside of the valid tokens (K and V apart), in
//          scratch memory, or in other sequences. A refusal touches nothing.
// Source:  the invariants of kernel_mutants.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/attention_reference.h"
#include "properties/kernels/attention_bound.h"
#include "properties/kernels/attention_case.h"

namespace kvproof::properties {

/// One implementation of one operation, which runs on any problem of the operation's kinds.
struct AttentionRow {
  std::string_view operation;
  std::string_view name;
  bool decodes = false;  // only one query token per sequence
  bool latent = false;
  std::function<kernels::Refusal(const AttentionProblem&)> launch;

  [[nodiscard]] bool takes(const AttentionPlan& plan) const;
  [[nodiscard]] std::string text() const { return say(operation, " ", name); }
};

/// Every implementation of every operation of the family.
[[nodiscard]] std::vector<AttentionRow> attention_rows();
/// The implementations whose name starts with `prefix`.
[[nodiscard]] std::vector<AttentionRow> attention_rows(std::string_view prefix);

/// How the rows of a run fared.
struct AttentionTally {
  struct Row {
    int ran = 0;
    int refused = 0;
    std::string reason;    // of the last refusal
    double most_used = 0;  // largest error as a share of its bound, not counting pure rounding
  };
  std::map<std::string, Row> rows;
};

/// The exact result of a problem by the double reference. Which tokens the reference sees is
/// checked against the definition.
class ExactAttention {
 public:
  explicit ExactAttention(const AttentionProblem& problem);
  /// The mistake of the reference about visibility, if it makes one.
  [[nodiscard]] const Finding& finding() const { return finding_; }
  /// Compares the problem's output and log-sum-exp. @param most_used see AttentionTally
  [[nodiscard]] Finding compare(const AttentionProblem& problem, Rounds rounds,
                                double& most_used) const;

 private:
  std::vector<kernels::ExactRow> rows_;
  std::vector<double> most_value_;  // per query token
  Finding finding_;
};

/// All checks of one case on the rows that take it.
[[nodiscard]] Finding check_attention(const AttentionPlan& plan,
                                      const std::vector<AttentionRow>& rows, AttentionTally& tally);

/// Requires that every broken parameter is refused with a reason and nothing is written.
/// @param operation only rows of this one; empty: all
[[nodiscard]] Finding check_attention_refusals(std::string_view operation = {});

/// One sequence at every type and usual head size, so that every row runs.
[[nodiscard]] Finding check_attention_grid(const std::vector<AttentionRow>& rows,
                                           AttentionTally& tally);

/// long_prefills() on the rows that take them.
[[nodiscard]] Finding check_long_prefills(const std::vector<AttentionRow>& rows,
                                          AttentionTally& tally);

/// Latents of many tiles and pieces, more than random cases have.
[[nodiscard]] Finding check_latent_pieces(const std::vector<AttentionRow>& rows,
                                          AttentionTally& tally);

/// A prefill and a decode over several tiles of tokens, without and with a window: every row sees
/// some tiles whole, and of some only a part.
[[nodiscard]] Finding check_attention_tiles(const std::vector<AttentionRow>& rows,
                                            AttentionTally& tally);

/// The cases of one seed: decode, prefill, latent, and one in 8 times far.
[[nodiscard]] Finding attention_round(std::uint64_t seed, int size,
                                      const std::vector<AttentionRow>& rows, AttentionTally& tally);

}  // namespace kvproof::properties
