// SPDX-License-Identifier: Apache-2.0
// A seeded bug as a change of text, and the list of those of one folder.
//
// Model:   the build makes a copy of the folder in which every row of the list stands behind a
//          switch (patch_text.h); active_patch.h puts one of them in force. The folder itself stays
//          as it is.
#pragma once

#include <span>
#include <string_view>

namespace kvproof::properties {

struct Patch {
  std::string_view id;     // rows of one id are one patch, in several places
  std::string_view file;   // below the folder
  std::string_view found;  // occurs exactly once, up to white space. The part `in backticks` is
                           // replaced, or all: an expression, or statements if it ends in ; or };
                           // at `` statements are inserted
  std::string_view replacement;
  std::string_view sentence = {};
  std::string_view law = {};            // must be among the laws broken first
  std::string_view configuration = {};  // the patch is live in this one
  std::string_view profile = "vllm-0.24";
};

/// The patches of one folder.
struct PatchedFolder {
  std::string_view name;
  std::string_view copy;  // what the copy's includes and namespace have in the place of `name`;
                          // empty: they stay, and a program has the copy or the folder
  std::span<const Patch> rows;
  std::string_view needs = {};  // a header that the replacements need; empty = none
  std::string_view space = {};  // the namespace, if it is not `name`; the copy's lies in it
};

/// optimized/, whose rows are in patches.cpp, bench/serving/, kernels/ and reference/, in
/// patches_<folder>.cpp.
[[nodiscard]] PatchedFolder patched_folder_of_optimized();
[[nodiscard]] PatchedFolder patched_folder_of_kernels();
[[nodiscard]] PatchedFolder patched_folder_of_reference();
[[nodiscard]] PatchedFolder patched_folder_of_serving();

}  // namespace kvproof::properties
