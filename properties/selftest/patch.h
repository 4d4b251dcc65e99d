// SPDX-License-Identifier: Apache-2.0
// A seeded bug, or the mend of one, as a change of text, and the list of those of one folder. Each
// list is a file of data, NAME.patches, which this header's reader alone reads.
//
// Format:  a line `column: value` sets a column of all rows below it, `column NAME: value` gives a
//          value a short name, `columns: NAME...` says what a head holds, and # begins a comment. A
//          row is a head, whose columns are separated by " | ", also at the beginning of a line,
//          and the lines below it that begin with two blanks, which its text has without them. The
//          text marks a change as `git diff --word-diff` does: [-this is removed-] and {+this is
//          added+}, with any white space between the two.
// Model:   the build makes a copy of a folder in which every row of its list is behind a switch;
//          active_patch.h puts one of them in force. The folder itself stays as it is.
//          [-this-]{+that+} becomes (patch_is_on("id") ? that : this), or an if/else over
//          statements; {+that+} alone becomes if (patch_is_on("id")) { that }. Rows that remove the
//          same text are alternatives. Includes of copied files and the namespace are renamed.
//          Of a package of others, a copy is made for some rows, without switches.
// Refuses: a line of no such form, a row without a file or a text, a row whose text does not occur
//          exactly once, and rows that overlap otherwise.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvproof::properties {

struct Patch {
  std::string id;        // rows of one id are one patch, in several places
  std::string file;      // below the folder
  std::string text;      // occurs once. Goes: an expression, or statements if it ends in ; or }
  std::string sentence;  // what is wrong with it
  std::string law;       // must be among the laws broken first
  std::string configuration;  // the patch is live in this one
  std::string profile;
  std::string group;  // who uses it
  std::string place;  // the line of the list, as FILE:LINE
};

inline constexpr std::pair<std::string_view, std::string Patch::*> kPatchColumns[] = {
    {"id", &Patch::id},           {"file", &Patch::file},
    {"text", &Patch::text},       {"sentence", &Patch::sentence},
    {"law", &Patch::law},         {"configuration", &Patch::configuration},
    {"profile", &Patch::profile}, {"group", &Patch::group},
    {"place", &Patch::place}};

/// The patches of one folder.
struct PatchedFolder {
  std::string name;
  std::string copy;   // what the copy's includes and namespace have in the place of `name`;
                      // empty: they stay, and a program has the copy or the folder
  std::string needs;  // a header that the replacements need; empty = none
  std::string space;  // the namespace, if it is not `name`; the copy's lies in it
  std::vector<Patch> rows = {};
};

/// @param name of the list, in what is said of it. @param text the list
/// @throws std::invalid_argument with one line that names the line of the list
[[nodiscard]] PatchedFolder read_patches(std::string_view name, std::string_view text);

/// The lists of optimized/, kernels/, reference/ and bench/serving/, which are compiled in.
[[nodiscard]] const std::vector<PatchedFolder>& patched_folders();
/// @throws std::invalid_argument
[[nodiscard]] const PatchedFolder& patched_folder(std::string_view name);

/// @param file its name below the folder. @param files all that are copied.
/// @return the text of its copy. @throws std::invalid_argument with one line that names the row
[[nodiscard]] std::string patched_text(const PatchedFolder& folder, std::string_view file,
                                       std::string_view text, std::span<const std::string> files);

/// @return the text with the change of a row, whose white space counts here
/// @throws std::invalid_argument with one line that names the row
[[nodiscard]] std::string changed_text(const Patch& row, std::string text);

}  // namespace kvproof::properties
