// SPDX-License-Identifier: Apache-2.0
// What must hold of every implementation of attention.
//
// Checks:  the exact result within attention_bound.h, paged, contiguous and latent, decode also as
//          prefill of one token; nothing written but the rows, and every row; bit-identical output
//          whatever lies outside the valid tokens, K and V apart, in scratch, in other sequences;
//          refusals that touch nothing.
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

/// One implementation of one operation, on any problem of the kinds that the operation has.
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
/// Those whose name starts with `prefix`.
[[nodiscard]] std::vector<AttentionRow> attention_rows(std::string_view prefix);

/// What became of the rows of a run.
struct AttentionTally {
  struct Row {
    int ran = 0;
    int refused = 0;
    std::string reason;    // of the last refusal
    double most_used = 0;  // largest error as a share of its bound, where arithmetic makes it
  };
  std::map<std::string, Row> rows;
};

/// The exact result of a problem, by the double reference, whose own idea of who sees what is
/// compared with the definition.
class ExactAttention {
 public:
  explicit ExactAttention(const AttentionProblem& problem);
  /// What the reference gets wrong about visibility, if anything.
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

/// Every broken parameter is refused, with a reason, and nothing is written.
/// @param operation of the rows tried; empty: all
[[nodiscard]] Finding check_attention_refusals(std::string_view operation = {});

/// One sequence at every type and usual head size: no row waits for a batch to be chosen.
[[nodiscard]] Finding check_attention_grid(const std::vector<AttentionRow>& rows,
                                           AttentionTally& tally);

/// The cases of one seed: decode, prefill, latent, and one in 8 times far.
[[nodiscard]] Finding attention_round(std::uint64_t seed, int size,
                                      const std::vector<AttentionRow>& rows, AttentionTally& tally);

}  // namespace kvproof::properties
