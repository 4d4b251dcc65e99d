// SPDX-License-Identifier: Apache-2.0
// The checks over whole files: reading the tree, layers, openings, dead files and words.
#include "properties/project/tidy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "properties/project/tidy_text.h"

namespace kvproof::properties::tidy {

namespace {

constexpr std::array<std::string_view, 6> kLayers = {"reference",  "optimized", "kernels",
                                                     "properties", "bench",     "reports"};

/// @return the index of the layer that a path lies in, or -1.
int layer_of(std::string_view path) {
  const std::string_view folder = path.substr(0, path.find('/'));
  if (folder.size() == path.size()) return -1;
  const auto at = std::find(kLayers.begin(), kLayers.end(), folder);
  return at == kLayers.end() ? -1 : static_cast<int>(at - kLayers.begin());
}

/// @return the path that a line includes, with its opening quote or bracket; empty if it does not.
std::string included(std::string_view line) {
  std::size_t at = line.find_first_not_of(' ');
  if (at == line.npos || line[at] != '#') return "";
  at = line.find_first_not_of(' ', at + 1);
  if (at == line.npos || !line.substr(at).starts_with("include")) return "";
  at = line.find_first_of("\"<", at);
  if (at == line.npos) return "";
  const std::size_t end = line.find_first_of("\">", at + 1);
  return end == line.npos ? "" : std::string(line.substr(at, end - at));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

bool is_build_file(std::string_view path) {
  return path.ends_with("CMakeLists.txt") || path.ends_with(".cmake");
}

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether `word` stands in `text` with nothing path-like or word-like touching it.
bool has_token(std::string_view text, std::string_view word, std::string_view also_part_of_words) {
  const auto part = [&](char c) { return is_identifier(c) || also_part_of_words.find(c) < 99; };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

/// Whether a build file in the unit's folder, or in one around it, names the unit by relative path.
bool is_registered(const Files& files, const std::string& unit) {
  for (std::string folder = folder_of(unit); !folder.empty(); folder = folder_of(folder)) {
    const std::string relative = unit.substr(folder.size() + 1);
    for (const File& file : files) {
      if (is_build_file(file.path) && folder_of(file.path) == folder &&
          has_token(file.text, relative, "./-")) {
        return true;
      }
    }
  }
  return false;
}

bool is_named_elsewhere(const Files& files, const File& script) {
  const std::string name = std::filesystem::path(script.path).filename().string();
  const std::string stem = std::filesystem::path(script.path).stem().string();
  for (const File& file : files) {
    if (file.path == script.path) continue;
    if (has_token(file.text, name, "-")) return true;
    if (file.path.ends_with(".py") && has_token(file.text, stem, "-")) return true;  // import
  }
  return false;
}

bool says_what_it_is(std::string_view line, const std::string& path) {
  if (is_cxx(path)) {
    const std::filesystem::path header = std::filesystem::path(path).replace_extension(".h");
    return line.starts_with("// ") || line == "#include \"" + header.generic_string() + "\"";
  }
  return line.starts_with("# ") || (path.ends_with(".py") && line.starts_with("\"\"\""));
}

bool skipped_folder(const std::filesystem::path& folder, bool top) {
  const std::string name = folder.filename().string();
  if (name == "build" || name == "results" || name == "install" || name == "__pycache__") {
    return true;
  }
  return name.starts_with(".") && !(top && (name == ".cmake" || name == ".ci"));
}

}  // namespace

Files read_tree(const std::string& root) {
  namespace fs = std::filesystem;
  Files files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    if (it->is_directory()) {
      if (skipped_folder(it->path(), it.depth() == 0)) it.disable_recursion_pending();
      continue;
    }
    const std::string path = fs::relative(it->path(), root).generic_string();
    if (!it->is_regular_file() || kind_of(path) == Kind::other) continue;
    std::ifstream in(it->path(), std::ios::binary);
    files.push_back({path, {std::istreambuf_iterator<char>(in), {}}});
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

Complaints check_layers(const Files& files) {
  Complaints complaints;
  for (const File& file : files) {
    const Kind kind = kind_of(file.path);
    if (kind != Kind::header && kind != Kind::source) continue;
    const int own = layer_of(file.path);
    if (own < 0) {
      complaints.push_back(place(file, 1) + "lies in none of the project's folders");
      continue;
    }
    const auto lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string include = included(lines[i]);
      if (include.empty()) continue;
      const int other = layer_of(std::string_view(include).substr(1));
      if (other > own) {
        complaints.push_back(place(file, i + 1) + "includes " + include.substr(1) +
                             ", which lies above it");
      } else if (other < 0 && include.front() == '"') {
        complaints.push_back(place(file, i + 1) + "quotes " + include.substr(1) +
                             ", which is not a path from the repository's root");
      }
    }
  }
  return complaints;
}

Complaints check_openings(const Files& files) {
  Complaints complaints;
  for (const File& file : files) {
    const auto lines = lines_of(file.text);
    const std::size_t first = !lines.empty() && lines[0].starts_with("#!") ? 1 : 0;
    const std::string_view mark = is_cxx(file.path) ? "// " : "# ";
    const std::string licence = std::string(mark) + "SPDX-License-Identifier: Apache-2.0";
    if (lines.size() <= first || lines[first] != licence) {
      complaints.push_back(place(file, first + 1) + "does not open with its licence line");
    } else if (!is_build_file(file.path) &&
               (lines.size() <= first + 1 || !says_what_it_is(lines[first + 1], file.path))) {
      complaints.push_back(place(file, first + 2) + "does not say what the file is");
    }
  }
  return complaints;
}

Complaints check_no_dead_files(const Files& files) {
  std::set<std::string> included_paths;
  for (const File& file : files) {
    for (const std::string_view line : lines_of(file.text)) {
      const std::string include = included(line);
      if (!include.empty()) included_paths.insert(include.substr(1));
    }
  }
  Complaints complaints;
  for (const File& file : files) {
    switch (kind_of(file.path)) {
      case Kind::source:
        if (!is_registered(files, file.path)) {
          complaints.push_back(place(file, 1) + "is built by no build file of its folder");
        }
        break;
      case Kind::header:
        if (!included_paths.contains(file.path)) {
          complaints.push_back(place(file, 1) + "is included by no file");
        }
        break;
      case Kind::script:
        if (file.path.find('/') != file.path.npos && !file.path.starts_with('.') &&
            !is_named_elsewhere(files, file)) {
          complaints.push_back(place(file, 1) + "is named by no other file");
        }
        break;
      case Kind::build:
      case Kind::other: break;
    }
  }
  return complaints;
}

Complaints check_words(const Files& files) {
  // Spelt in halves, so that this file passes its own check.
  static const std::array<std::string, 11> kWords = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X",
      "HA"
      "CK",
      "TB"
      "D",
      "WI"
      "P",
      "st"
      "ub",
      "for"
      " now",
      "not yet"
      " implemented",
      "not"
      " implemented",
      "un"
      "implemented"};
  Complaints complaints;
  for (const File& file : files) {
    const auto lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const std::string& word : kWords) {
        if (has_token(lines[i], word, "")) {
          complaints.push_back(place(file, i + 1) + "says '" + word + "'");
        }
      }
      if (lines[i].starts_with("#if "
                               "0")) {
        complaints.push_back(place(file, i + 1) + "switches code off");
      }
    }
  }
  return complaints;
}

}  // namespace kvproof::properties::tidy
