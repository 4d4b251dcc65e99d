// SPDX-License-Identifier: Apache-2.0
// A subject that consults every oracle that applies after each operation.
#pragma once

#include <memory>
#include <utility>

#include "properties/audit/audit.h"
#include "properties/check/candidate.h"

namespace kvproof::properties {

/// Throws the violations of the oracles.
class AuditedSubject final : public Subject {
 public:
  /// @param twin see Audit
  AuditedSubject(const CacheConfig& config, Opened opened, std::unique_ptr<Subject> twin,
                 std::uint64_t laws_left_out)
      : inner_(std::move(opened.subject)),
        audit_(config, *inner_, oracles(config, opened.demands, laws_left_out), std::move(twin)) {}
  Outcome apply(const Operation& operation) override { return audit_.apply(operation); }
  void observe(Snapshot& snapshot) const override { snapshot = audit_.state(); }

 private:
  static Oracles oracles(const CacheConfig& config, const Demands& demands, std::uint64_t without) {
    Oracles out = oracles_for(config, demands);
    out.laws_left_out |= without;
    return out;
  }

  std::unique_ptr<Subject> inner_;
  Audit audit_;
};

/// @param candidate makes the twin, if there may be decode steps
/// @param laws_left_out bit i: the i-th law is not asked
[[nodiscard]] inline std::unique_ptr<Subject> audited(const CacheConfig& config, Opened opened,
                                                      const Candidate& candidate,
                                                      std::uint64_t laws_left_out = 0) {
  const bool decodes = opened.demands.promises.operations.test(operation_index("decode"));
  auto twin = decodes ? candidate.open(config).subject : nullptr;
  return std::make_unique<AuditedSubject>(config, std::move(opened), std::move(twin),
                                          laws_left_out);
}

}  // namespace kvproof::properties
