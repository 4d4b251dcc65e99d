// SPDX-License-Identifier: Apache-2.0
// The patched copy of optimized/ as a subject. Its patch is in force only while it works, so that
// subjects with different patches can live side by side.
#include <patched/manager_subject.h>
#include <patched/pool/hashing.h>

#include "properties/mutants/active_patch.h"
#include "properties/mutants/patches.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

class PatchedSubject final : public Subject {
 public:
  PatchedSubject(patched::PatchId patch, const CacheConfig& config) : patch_(patch) {
    const patched::PatchScope scope(patch_);
    inner_ = patched::make_manager_subject<patched::Xxh3Digest>(config);
  }
  Outcome apply(const Operation& operation) override {
    const patched::PatchScope scope(patch_);
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override {
    const patched::PatchScope scope(patch_);
    inner_->observe(snapshot);
  }

 private:
  patched::PatchId patch_;
  std::unique_ptr<Subject> inner_;
};

}  // namespace

std::unique_ptr<Subject> make_patched(const Patch* row, const CacheConfig& config) {
  const auto patch = row == nullptr ? patched::PatchId() : patched::PatchId(row->id);
  return std::make_unique<PatchedSubject>(patch, config);
}

}  // namespace kvproof::properties
