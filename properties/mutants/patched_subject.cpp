// SPDX-License-Identifier: Apache-2.0
// The patched copy of optimized/ as a subject. Its patch is in force only while it works, so that
// subjects with different patches can live side by side.
#include <patched/manager_subject.h>
#include <patched/pool/hashing.h>

#include <cstddef>

#include "properties/mutants/active_patch.h"
#include "properties/mutants/patches.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

class PatchedSubject final : public Subject {
 public:
  PatchedSubject(std::size_t number, const CacheConfig& config) : number_(number) {
    const patched::PatchScope scope(number_);
    inner_ = patched::make_manager_subject<patched::Xxh3Digest>(config);
  }
  Outcome apply(const Operation& operation) override {
    const patched::PatchScope scope(number_);
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override {
    const patched::PatchScope scope(number_);
    inner_->observe(snapshot);
  }

 private:
  std::size_t number_;
  std::unique_ptr<Subject> inner_;
};

}  // namespace

std::unique_ptr<Subject> make_patched(const Patch* row, const CacheConfig& config) {
  const auto number = row == nullptr ? 0 : static_cast<std::size_t>(row - all_patches().data()) + 1;
  return std::make_unique<PatchedSubject>(number, config);
}

}  // namespace kvproof::properties
