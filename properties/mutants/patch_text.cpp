// SPDX-License-Identifier: Apache-2.0
#include "properties/mutants/patch_text.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <stdexcept>
#include <vector>

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// @return the end of the match of the pattern at `at`; any white space matches any other
std::optional<std::size_t> match(std::string_view text, std::size_t at, std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (at >= text.size()) return std::nullopt;
    if (!is_space(pattern[i])) {
      if (text[at++] != pattern[i]) return std::nullopt;
      continue;
    }
    if (!is_space(text[at])) return std::nullopt;
    while (i + 1 < pattern.size() && is_space(pattern[i + 1])) ++i;
    while (at < text.size() && is_space(text[at])) ++at;
  }
  return at;
}

/// The text before the replaced part, that part, and the text behind it.
struct Pattern {
  std::string_view before, target, behind;
};

std::optional<Pattern> pattern_of(std::string_view found) {
  const std::size_t open = found.find('`');
  if (open == found.npos)
    return found.empty() ? std::nullopt : std::optional(Pattern{{}, found, {}});
  const std::size_t close = found.find('`', open + 1);
  if (close == found.npos || found.size() == 2) return std::nullopt;
  Pattern out{found.substr(0, open), found.substr(open + 1, close - open - 1),
              found.substr(close + 1)};
  // What is inserted stands right before what follows, whatever space there is.
  while (out.target.empty() && !out.behind.empty() && is_space(out.behind.front())) {
    out.behind.remove_prefix(1);
  }
  return out;
}

/// One row in one file: its target is [from, to).
struct Place {
  std::size_t from;
  std::size_t to;
  const Patch* row;
};

[[noreturn]] void refuse(const PatchedFolder& folder, const Patch& row, std::string_view why) {
  throw std::invalid_argument(say("patch ", row.id, " of ", folder.name, "/", row.file, ": ", why));
}

Place place_of(const PatchedFolder& folder, const Patch& row, std::string_view text) {
  const auto pattern = pattern_of(row.found);
  if (!pattern) refuse(folder, row, "nothing is to be found, expected `text`");
  std::size_t count = 0;
  Place out{0, 0, &row};
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto from = match(text, at, pattern->before);
    const auto to = from ? match(text, *from, pattern->target) : std::nullopt;
    if (!to || !match(text, *to, pattern->behind)) continue;
    ++count;
    out.from = *from;
    out.to = *to;
  }
  if (count != 1) refuse(folder, row, say("the text is found ", count, " times, expected once"));
  return out;
}

std::vector<Place> places_of(const PatchedFolder& folder, std::string_view file,
                             std::string_view text) {
  std::vector<Place> out;
  for (const Patch& row : folder.rows) {
    if (row.file == file) out.push_back(place_of(folder, row, text));
  }
  std::ranges::stable_sort(out, {},
                           [](const Place& place) { return std::pair(place.from, place.to); });
  for (std::size_t i = 1; i < out.size(); ++i) {
    const Place &one = out[i - 1], &next = out[i];
    const bool alike = one.from == next.from && one.to == next.to;
    if (!alike && next.from < one.to) refuse(folder, *next.row, "another row changes that text");
  }
  return out;
}

/// @param found the text of the places, which are alternatives
std::string schema(std::span<const Place> places, std::string_view found) {
  const bool states = found.ends_with(';') || found.ends_with('}');
  std::string out, end;
  for (const Place& place : places) {
    const std::string on = say("::kvproof::patched::patch_is_on(\"", place.row->id, "\")");
    if (found.empty()) {
      out += say("if (", on, ") { ", place.row->replacement, " } ");
    } else if (states) {
      out += say("if (", on, ") { ", place.row->replacement, " } else ");
    } else {
      out += say("(", on, " ? (", place.row->replacement, ") : ");
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

std::string patched_text(const PatchedFolder& folder, std::string_view file, std::string_view text,
                         std::span<const std::string> files) {
  const std::vector<Place> places = places_of(folder, file, text);
  std::string out = say("// Made from ", folder.name, "/", file, " and its source patches.\n");
  std::size_t done = 0;
  for (std::size_t i = 0, next = 0; i < places.size(); i = next) {
    const auto [from, to, row] = places[i];
    for (next = i; next < places.size() && places[next].from == from && places[next].to == to;)
      ++next;
    out.append(text.substr(done, from - done));
    out.append(schema(std::span(places).subspan(i, next - i), text.substr(from, to - from)));
    done = to;
  }
  out.append(text.substr(done));
  const std::size_t first_include = out.find("#include");
  if (first_include != out.npos && !places.empty()) {
    std::string includes = "#include \"properties/mutants/active_patch.h\"\n";
    if (!folder.needs.empty()) includes += say("#include \"", folder.needs, "\"\n");
    out.insert(first_include, includes);
  }
  return renamed(folder, std::move(out), files);
}

}  // namespace kvproof::properties
