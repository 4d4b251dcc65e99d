// SPDX-License-Identifier: Apache-2.0
// The patched copies of optimized/ and reference/ as subjects. A patch is in force only while its
// subject works, so that subjects with different patches can live side by side.
#include <patched/manager_subject.h>
#include <patched/pool/hashing.h>
#include <patched_reference/cache_manager.h>

#include <algorithm>
#include <stdexcept>

#include "properties/selftest/active_patch.h"
#include "properties/selftest/museum_faults.h"
#include "properties/selftest/mutants.h"
#include "properties/selftest/patches.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

class PatchedSubject final : public Subject {
 public:
  template <class Make>
  PatchedSubject(std::string_view id, const CacheConfig& config, const Make& make) : patch_(id) {
    const patched::PatchScope scope(patch_, &memory_);
    inner_ = make(config);
  }
  Outcome apply(const Operation& operation) override {
    const patched::PatchScope scope(patch_, &memory_);
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override {
    const patched::PatchScope scope(patch_, &memory_);
    inner_->observe(snapshot);
  }

 private:
  patched::PatchId patch_;
  mutable patched::FaultMemory memory_;
  std::unique_ptr<Subject> inner_;
};

}  // namespace

std::unique_ptr<Subject> make_patched(const Patch* row, const CacheConfig& config) {
  return std::make_unique<PatchedSubject>(
      row == nullptr ? "" : row->id, config, [](const CacheConfig& its) {
        return patched::make_manager_subject<patched::Xxh3Digest>(its);
      });
}

std::unique_ptr<Subject> make_museum(std::string_view id, const CacheConfig& config) {
  if (!id.empty() && std::ranges::find(kMutants, id, &Mutant::id) == std::end(kMutants)) {
    throw std::invalid_argument(say(id, ": no row of mutants.h"));
  }
  return std::make_unique<PatchedSubject>(id, config, [](const CacheConfig& its) {
    return std::make_unique<patched_reference::CacheManager>(its);
  });
}

}  // namespace kvproof::properties
