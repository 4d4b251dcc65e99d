// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/patch.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <stdexcept>

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using Column = std::pair<std::string_view, std::string Patch::*>;
constexpr std::pair<std::string_view, std::string PatchedFolder::*> kOfFolder[] = {
    {"folder", &PatchedFolder::name},
    {"copy", &PatchedFolder::copy},
    {"needs", &PatchedFolder::needs},
    {"namespace", &PatchedFolder::space}};

template <class Rows>
auto named(const Rows& rows, std::string_view name) {
  const auto at = std::ranges::find(rows, name, [](const auto& row) { return row.first; });
  return at == std::end(rows) ? nullptr : &*at;
}

/// The text up to the next separator, which is taken away with it.
std::string_view take(std::string_view& text, std::string_view separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(std::min(end + separator.size(), text.size()));
  return out;
}

[[noreturn]] void refuse(std::string_view place, std::string_view why) {
  throw std::invalid_argument(say(place, ": ", why));
}

constexpr std::pair<std::string_view, std::string_view> kLists[] = {
#include <patch_lists.h>
};

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// @return the end of the match of the pattern at `at`; any white space matches any other, but if
/// it is exact
std::optional<std::size_t> match(std::string_view text, std::size_t at, std::string_view pattern,
                                 bool exact) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (at >= text.size()) return std::nullopt;
    if (exact || !is_space(pattern[i])) {
      if (text[at++] != pattern[i]) return std::nullopt;
      continue;
    }
    if (!is_space(text[at])) return std::nullopt;
    while (i + 1 < pattern.size() && is_space(pattern[i + 1])) ++i;
    while (at < text.size() && is_space(text[at])) ++at;
  }
  return at;
}

/// A text that marks a change: what is before it, what is removed, added, and behind it.
struct Pattern {
  std::string_view before, target, added, behind;
};

std::optional<Pattern> pattern_of(std::string_view text) {
  // Takes what stands in marks at the front.
  const auto marked = [&text](std::string_view open, std::string_view close) {
    std::string_view out;
    const std::size_t end = text.find(close, 2);
    if (text.starts_with(open) && end != text.npos) {
      out = text.substr(2, end - 2);
      text.remove_prefix(end + 2);
    }
    return out;
  };
  Pattern out;
  const std::size_t from = std::min({text.find("[-"), text.find("{+"), text.size()});
  out.before = text.substr(0, from);
  text.remove_prefix(from);
  out.target = marked("[-", "-]");
  const std::size_t next = std::min(text.find_first_not_of(" \n"), text.size());
  if (!out.target.empty() && text.substr(next).starts_with("{+")) text.remove_prefix(next);
  out.added = marked("{+", "+}");
  out.behind = text;
  const bool changes = !out.target.empty() || !out.added.empty();
  const bool is_found = !out.before.empty() || !out.target.empty() || !out.behind.empty();
  return changes && is_found ? std::optional(out) : std::nullopt;
}

/// One row in one file: its target is [from, to).
struct Place {
  std::size_t from;
  std::size_t to;
  std::string_view added;
  const Patch* row;
};

[[noreturn]] void refuse(const Patch& row, std::string_view why) {
  refuse(say(row.place, ": ", row.id, row.id.empty() ? "" : " of ", row.file), why);
}

Place place_of(const Patch& row, std::string_view text, bool exact) {
  auto pattern = pattern_of(row.text);
  if (!pattern) refuse(row, "nothing is changed, expected [-what is removed-] or {+is added+}");
  // What is inserted stands right before what follows, whatever space there is.
  std::string_view& behind = pattern->behind;
  while (!exact && pattern->target.empty() && !behind.empty() && is_space(behind.front())) {
    behind.remove_prefix(1);
  }
  std::size_t count = 0;
  Place out{0, 0, pattern->added, &row};
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto from = match(text, at, pattern->before, exact);
    const auto to = from ? match(text, *from, pattern->target, exact) : std::nullopt;
    if (!to || !match(text, *to, behind, exact)) continue;
    ++count;
    out.from = *from;
    out.to = *to;
  }
  if (count != 1) refuse(row, say("the text is found ", count, " times, expected once"));
  return out;
}

std::vector<Place> places_of(const PatchedFolder& folder, std::string_view file,
                             std::string_view text) {
  std::vector<Place> out;
  for (const Patch& row : folder.rows) {
    if (row.file == file) out.push_back(place_of(row, text, false));
  }
  std::ranges::stable_sort(out, {},
                           [](const Place& place) { return std::pair(place.from, place.to); });
  for (std::size_t i = 1; i < out.size(); ++i) {
    const Place &one = out[i - 1], &next = out[i];
    const bool alike = one.from == next.from && one.to == next.to;
    if (!alike && next.from < one.to) refuse(*next.row, "another row changes that text");
  }
  return out;
}

/// @param found the text of the places, which are alternatives
std::string schema(std::span<const Place> places, std::string_view found) {
  const bool states = found.ends_with(';') || found.ends_with('}');
  std::string out, end;
  for (const Place& place : places) {
    const std::string on = say("::kvproof::patched::patch_is_on(\"", place.row->id, "\")");
    std::string added(place.added);
    std::ranges::replace(added, '\n', ' ');  // compilers warn of lines whose blanks mislead
    if (found.empty()) {
      out += say("if (", on, ") { ", added, " } ");
    } else if (states) {
      out += say("if (", on, ") { ", added, " } else ");
    } else {
      out += say("(", on, " ? (", added, ") : ");
      end += ")";
    }
  }
  if (found.empty()) return out;
  return states ? say(out, "{ ", found, " }") : say(out, "(", found, ")", end);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string renamed(const PatchedFolder& folder, std::string text,
                    std::span<const std::string> files) {
  if (folder.copy.empty()) return text;
  for (const std::string& file : files) {
    replace_all(text, say("#include \"", folder.name, "/", file, "\""),
                say("#include \"", folder.copy, "/", file, "\""));
  }
  const std::string was =
      say("namespace kvproof::", folder.space.empty() ? folder.name : folder.space);
  replace_all(
      text, was,
      folder.space.empty() ? say("namespace kvproof::", folder.copy) : say(was, "::", folder.copy));
  return text;
}

}  // namespace

PatchedFolder read_patches(std::string_view name, std::string_view text) {
  PatchedFolder out;
  Patch above;  // what is set for the rows below
  std::map<std::pair<std::string_view, std::string_view>, std::string_view> names;
  std::vector<const Column*> columns;
  std::size_t next = 0;   // column of a head
  std::size_t blank = 0;  // lines before this one
  const auto set = [&](Patch& row, const Column& column, std::string_view value) {
    const auto at = names.find({column.first, value});
    row.*column.second = at == names.end() ? value : at->second;
  };
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    std::string_view line = take(text, "\n"), value = line;
    std::string_view key = line.find(": ") == line.npos ? "" : take(value, ": ");
    const std::string_view what = take(key, " ");
    const Column* const column = named(kPatchColumns, what);
    if (line.empty()) {
      ++blank;
      continue;
    }
    if (line.starts_with("  ") && !out.rows.empty()) {
      std::string& whole = out.rows.back().text;
      if (!whole.empty()) whole.append(blank + 1, '\n');
      whole += line.substr(2);
    } else if (what == "columns") {
      for (columns.clear(); !value.empty();) {
        const std::string_view one = take(value, " ");
        columns.push_back(named(kPatchColumns, one));
        if (columns.back() == nullptr) refuse(say(name, ":", number), say(one, " is no column"));
      }
    } else if (column != nullptr && key.empty()) {
      set(above, *column, value);
    } else if (column != nullptr) {
      names[{what, key}] = value;
    } else if (const auto* const of_all = named(kOfFolder, what); of_all != nullptr) {
      out.*of_all->second = value;
    } else if (line.front() != '#') {
      if (line.starts_with("| ") && !out.rows.empty()) {
        line.remove_prefix(2);
      } else {
        out.rows.emplace_back(above).place = say(name, ":", number);
        next = 0;
      }
      for (; next < columns.size() && !line.empty(); ++next) {
        const bool is_last = next + 1 == columns.size();
        set(out.rows.back(), *columns[next], is_last ? line : take(line, " | "));
      }
    }
    blank = 0;
  }
  for (const Patch& row : out.rows) {
    if (row.file.empty() || row.text.empty()) refuse(row.place, "expected a file and a text");
  }
  return out;
}

const std::vector<PatchedFolder>& patched_folders() {
  static const std::vector<PatchedFolder> out = [] {
    std::vector<PatchedFolder> folders;
    for (const auto& [name, text] : kLists) folders.push_back(read_patches(name, text));
    return folders;
  }();
  return out;
}

const PatchedFolder& patched_folder(std::string_view name) {
  const auto at = std::ranges::find(patched_folders(), name, &PatchedFolder::name);
  if (at != patched_folders().end()) return *at;
  throw std::invalid_argument(say(name, ": no folder with source patches"));
}

std::string patched_text(const PatchedFolder& folder, std::string_view file, std::string_view text,
                         std::span<const std::string> files) {
  const std::vector<Place> places = places_of(folder, file, text);
  std::string out = say("// Made from ", folder.name, "/", file, " and its source patches.\n");
  std::size_t done = 0;
  for (std::size_t i = 0, next = 0; i < places.size(); i = next) {
    const auto [from, to, added, row] = places[i];
    for (next = i; next < places.size() && places[next].from == from && places[next].to == to;)
      ++next;
    out.append(text.substr(done, from - done));
    out.append(schema(std::span(places).subspan(i, next - i), text.substr(from, to - from)));
    done = to;
  }
  out.append(text.substr(done));
  const std::size_t first_include = out.find("#include");
  if (first_include != out.npos && !places.empty()) {
    std::string includes = "#include \"properties/selftest/active_patch.h\"\n";
    if (!folder.needs.empty()) includes += say("#include \"", folder.needs, "\"\n");
    out.insert(first_include, includes);
  }
  return renamed(folder, std::move(out), files);
}

std::string changed_text(const Patch& row, std::string text) {
  const Place place = place_of(row, text, true);
  return text.replace(place.from, place.to - place.from, place.added);
}

}  // namespace kvproof::properties
