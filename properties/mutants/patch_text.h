// SPDX-License-Identifier: Apache-2.0
// Writes the copy of a file that holds every source patch behind a switch.
//
// Model:   `found` becomes (patch_is_on("id") ? replacement : found), or an if/else over
//          statements; `` becomes if (patch_is_on("id")) { replacement }. Rows with the same target
//          are alternatives. Includes of copied files and the namespace are renamed.
// Refuses: a row whose text does not occur exactly once, and rows that overlap otherwise.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "properties/mutants/patch.h"

namespace kvproof::properties {

/// @param file its name below the folder. @param files all that are copied.
/// @return the text of its copy. @throws std::invalid_argument with one line that names the row
[[nodiscard]] std::string patched_text(const PatchedFolder& folder, std::string_view file,
                                       std::string_view text, std::span<const std::string> files);

}  // namespace kvproof::properties
