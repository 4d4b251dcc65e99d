// SPDX-License-Identifier: Apache-2.0
// The checks that look inside files: sizes of lines, files and functions, and the list files.
#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "properties/project/tidy.h"
#include "properties/project/tidy_text.h"

namespace kvproof::properties::tidy {

namespace {

constexpr std::size_t kMaxColumns = 100;
constexpr std::size_t kMaxHeaderLines = 200;
constexpr std::size_t kMaxSourceLines = 400;
constexpr std::size_t kMaxFunctionLines = 60;

/// Code points of UTF-8: what an editor shows as columns.
std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::size_t indent_of(std::string_view line) {
  const std::size_t at = line.find_first_not_of(' ');
  return at == line.npos ? line.size() : at;
}

/// Whether a head, from its first word to its opening brace, opens something other than a function.
bool opens_no_function(const std::string& head) {
  static const std::regex kOther(
      R"(^(template\s*<.*>\s*)?(namespace|class|struct|enum|union|extern)\b.*|)"
      R"(^(if|for|while|switch|else|do|try|catch|return|public|private)\b.*)");
  static const std::regex kTable(R"([=\]]\s*\{$|=\s*\[.*|[^)]\s*\{\s*\{.*)");
  return std::regex_match(head, kOther) || std::regex_search(head, kTable) ||
         head.find('(') == head.npos;
}

/// Functions laid out as clang-format does: a head at some indent, its end a '}' at the same one.
/// Only heads at indent 0 (free functions, members) and 2 (members in a class) are looked at.
void check_functions(const File& file, const std::vector<std::string_view>& lines,
                     Complaints& complaints) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t indent = indent_of(lines[i]);
    const std::string_view text = lines[i].substr(indent);
    if ((indent != 0 && indent != 2) || text.empty() || text[0] == '#' || text[0] == '}' ||
        text.starts_with("//")) {
      continue;
    }
    std::size_t end = i;
    std::string head;
    for (; end < lines.size() && end < i + 12; ++end) {  // the head may run over several lines
      head += std::string(lines[end].substr(std::min(indent, lines[end].size()))) + " ";
      if (lines[end].empty() || lines[end].ends_with(';') || lines[end].ends_with('{')) break;
    }
    if (end >= lines.size() || !lines[end].ends_with('{')) continue;
    head.pop_back();
    if (opens_no_function(head)) continue;
    const std::size_t open = end;
    for (++end; end < lines.size(); ++end) {
      if (indent_of(lines[end]) == indent && lines[end].substr(indent).starts_with('}')) break;
    }
    if (end - i + 1 > kMaxFunctionLines) {
      complaints.push_back(place(file, i + 1) + "a function of " + std::to_string(end - i + 1) +
                           " lines; " + std::to_string(kMaxFunctionLines) + " are allowed");
    }
    i = open;  // bodies are not searched for further heads at indent 2: those are statements
    if (indent == 0) i = std::min(end, lines.size() - 1);
  }
}

struct RowArray {
  std::string row_type;
  std::size_t opening = 0;  // position after its '{'
};

std::optional<RowArray> row_array(const std::string& text) {
  static const std::regex kArray(R"(constexpr (\w+) k\w+\[\] = \{)");
  std::smatch match;
  if (!std::regex_search(text, match, kArray)) return std::nullopt;
  return RowArray{match[1], static_cast<std::size_t>(match.position() + match.length())};
}

/// Whether a text names all rows close together, as a second list, a chain of ifs or a switch does;
/// a test that treats them one by one does not. @return the line where that begins, or 0.
std::size_t enumeration(std::string_view text, const std::vector<std::string>& names) {
  const auto lines = lines_of(text);
  const std::size_t window = 3 * names.size();
  std::map<std::string, std::size_t> seen;  // name -> the last line that holds it, from 1
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const std::string& name : names) {
      if (lines[i].find('"' + name + '"') != lines[i].npos) seen[name] = i + 1;
    }
    if (names.size() < 2 || seen.size() < names.size()) continue;
    const std::size_t first = std::min_element(seen.begin(), seen.end(), [](auto& a, auto& b) {
                                return a.second < b.second;
                              })->second;
    if (i + 1 - first < window) return first;
  }
  return 0;
}

void check_list(const Files& files, const File& list, const List& rule, Complaints& complaints) {
  const auto names = row_names(list.text);
  if (names.empty()) {
    complaints.push_back(place(list, 1) + "holds no array of named rows");
    return;
  }
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    complaints.push_back(place(list, 1) + "names a row twice");
  }
  const std::string row_type = row_array(list.text)->row_type;
  const std::regex second(R"(\b(std::(array|vector|initializer_list)<\s*(const )?)" + row_type +
                          R"(\b[^;]*>|)" + row_type + R"( \w+\[\w*\])\s*\w*\s*=?\s*\{)");
  for (const File& other : files) {
    if (other.path == list.path || !is_cxx(other.path)) continue;
    if (other.text.find(row_type) != other.text.npos && std::regex_search(other.text, second)) {
      complaints.push_back(place(other, 1) + "holds a second list of " + row_type + " beside " +
                           list.path);
    }
    const std::size_t line = enumeration(other.text, names);
    if (line != 0 && rule.may_name_all.find(other.path) == std::string_view::npos) {
      complaints.push_back(place(other, line) + "enumerates the rows of " + list.path +
                           ": it should walk the list");
    }
  }
}

}  // namespace

std::vector<std::string> row_names(const std::string& text) {
  std::vector<std::string> names;
  const auto array = row_array(text);
  if (!array) return names;
  int depth = 1;
  bool wants_name = false;
  for (std::size_t at = array->opening; at < text.size() && depth > 0; ++at) {
    const char c = text[at];
    if (c == '/' && text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"') {
      const std::size_t begin = at + 1;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
      }
      if (wants_name) names.push_back(text.substr(begin, at - begin));
      wants_name = false;
    } else if (c == '{') {
      wants_name = depth == 1;
      ++depth;
    } else if (c == '}') {
      --depth;
    }
  }
  return names;
}

Complaints check_sizes(const Files& files) {
  Complaints complaints;
  for (const File& file : files) {
    const auto lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (columns(lines[i]) > kMaxColumns) {
        complaints.push_back(place(file, i + 1) + std::to_string(columns(lines[i])) + " columns");
      }
    }
    if (!is_cxx(file.path)) continue;  // the launcher is one file so that it can be installed alone
    // A list is data: its length is that of what it lists.
    const bool list = std::ranges::find(kLists, file.path, &List::path) != std::end(kLists);
    const bool header = kind_of(file.path) == Kind::header && !list;
    const std::size_t most = header ? kMaxHeaderLines : kMaxSourceLines;
    if (lines.size() > most) {
      complaints.push_back(place(file, most + 1) + std::to_string(lines.size()) + " lines; " +
                           std::to_string(most) + " are allowed");
    }
    check_functions(file, lines, complaints);
  }
  return complaints;
}

Complaints check_lists(const Files& files) {
  Complaints complaints;
  for (const List& rule : kLists) {
    const auto at = std::find_if(files.begin(), files.end(),
                                 [&](const File& file) { return file.path == rule.path; });
    if (at == files.end()) {
      complaints.push_back(std::string(rule.path) + ": is missing");
    } else {
      check_list(files, *at, rule, complaints);
    }
  }
  for (const File& file : files) {
    const bool listed = std::any_of(std::begin(kLists), std::end(kLists),
                                    [&](const List& rule) { return rule.path == file.path; });
    const auto lines = lines_of(file.text);
    const bool says_so = lines.size() > 1 && lines[1].starts_with("// THE LIST");
    if (is_cxx(file.path) && says_so != listed) {
      complaints.push_back(place(file, 2) + (listed ? "does not say that it is THE LIST"
                                                    : "calls itself THE LIST, unknown to tidy"));
    }
  }
  return complaints;
}

}  // namespace kvproof::properties::tidy
