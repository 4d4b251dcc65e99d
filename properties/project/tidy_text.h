// SPDX-License-Identifier: Apache-2.0
// What the tidy checks share: kinds of files, lines, and how a place is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "properties/project/tidy.h"

namespace kvproof::properties::tidy {

enum class Kind { header, source, script, build, other };

[[nodiscard]] inline Kind kind_of(std::string_view path) {
  if (path.ends_with(".h") || path.ends_with(".cuh")) return Kind::header;
  if (path.ends_with(".cpp") || path.ends_with(".cu")) return Kind::source;
  if (path.ends_with("CMakeLists.txt") || path.ends_with(".cmake")) return Kind::build;
  if (path.ends_with(".py") || path.ends_with(".sh") || path == "kvproof" || path == ".ci/run") {
    return Kind::script;
  }
  return Kind::other;
}

[[nodiscard]] inline bool is_cxx(std::string_view path) {
  return kind_of(path) == Kind::header || kind_of(path) == Kind::source;
}

/// The lines of a text without their ends; a last line without an end counts too.
[[nodiscard]] inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

[[nodiscard]] inline std::string place(const File& file, std::size_t line) {
  return file.path + ":" + std::to_string(line) + ": ";
}

}  // namespace kvproof::properties::tidy
