// SPDX-License-Identifier: Apache-2.0
// Source patches to optimized/: small mistakes in the shipped allocator itself, which the laws must
// report.
//
// Model:   the build copies optimized/ into namespace patched (patch.h); a subject made here puts
//          its row in force while it works.
// Leaves out: patches that no oracle can see, because they only cost time or only change data that
//          is never read.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "properties/selftest/patch.h"
#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// The rows, in the order of the list.
[[nodiscard]] inline const std::vector<Patch>& all_patches() {
  return patched_folder("optimized").rows;
}

/// The copy of reference/ with the bug of a row of mutants.h. @param id empty = none
[[nodiscard]] std::unique_ptr<Subject> make_museum(std::string_view id, const CacheConfig& config);

/// The copy of optimized/ (128-bit keys) with one patch in force. @param row of all_patches();
/// nullptr = none
[[nodiscard]] std::unique_ptr<Subject> make_patched(const Patch* row, const CacheConfig& config);

}  // namespace kvproof::properties
