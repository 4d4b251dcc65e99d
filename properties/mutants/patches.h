// SPDX-License-Identifier: Apache-2.0
// Source patches to optimized/: small mistakes in the shipped allocator itself, which the laws must
// report.
//
// Model:   the build copies optimized/ into namespace patched, with every row of the list in it
//          behind a switch (patch_text.h); a subject made here puts its row in force while it
//          works. optimized/ itself stays as it is.
// Leaves out: patches that no oracle can see, because they only cost time or only change data that
//          is never read.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

struct Patch {
  std::string_view id;
  std::string_view file;   // below optimized/
  std::string_view found;  // occurs exactly once, up to white space. The part `in backticks` is
                           // replaced, or all: an expression, or statements if it ends in ; or }
  std::string_view replacement;
  std::string_view sentence;
  std::string_view law;            // must be among the laws broken first
  std::string_view configuration;  // the patch is live in this one
  std::string_view profile = "vllm-0.24";
};

/// The rows, in the order of the list.
[[nodiscard]] std::span<const Patch> all_patches();

/// The copy of optimized/ (128-bit keys) with one patch in force. @param row of all_patches();
/// nullptr = none
[[nodiscard]] std::unique_ptr<Subject> make_patched(const Patch* row, const CacheConfig& config);

}  // namespace kvproof::properties
