// SPDX-License-Identifier: Apache-2.0
// Writes the copy of optimized/ that holds every source patch behind a switch.
//
// Model:   `found` becomes (patch_is_on(k) ? replacement : found), or an if/else over statements;
//          k is the place of the row in the list, from 1. Includes and namespace are renamed.
// Refuses: a row whose text does not occur exactly once, and rows that overlap.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "properties/mutants/patches.h"

namespace kvproof::properties {

/// @param file its name below optimized/ @return the text of its copy. @throws
/// std::invalid_argument with one line that names the row
[[nodiscard]] std::string patched_text(std::string_view file, std::string_view text,
                                       std::span<const Patch> patches);

}  // namespace kvproof::properties
