// SPDX-License-Identifier: Apache-2.0
// A subject that consults every oracle that applies after each operation.
#pragma once

#include <memory>
#include <utility>

#include "properties/check/candidate.h"
#include "properties/oracles/audit.h"

namespace kvproof::properties {

/// Throws the violations of the oracles.
class AuditedSubject final : public Subject {
 public:
  /// @param twin see Audit
  AuditedSubject(const CacheConfig& config, Opened opened, std::unique_ptr<Subject> twin)
      : inner_(std::move(opened.subject)),
        audit_(config, *inner_, oracles_for(config, opened.demands), std::move(twin)) {}
  Outcome apply(const Operation& operation) override { return audit_.apply(operation); }
  void observe(Snapshot& snapshot) const override { snapshot = audit_.state(); }

 private:
  std::unique_ptr<Subject> inner_;
  Audit audit_;
};

/// @param candidate makes the twin, if there may be decode steps
[[nodiscard]] inline std::unique_ptr<Subject> audited(const CacheConfig& config, Opened opened,
                                                      const Candidate& candidate) {
  const bool decodes = opened.demands.promises.operations.test(operation_index("decode"));
  auto twin = decodes ? candidate.open(config).subject : nullptr;
  return std::make_unique<AuditedSubject>(config, std::move(opened), std::move(twin));
}

}  // namespace kvproof::properties
