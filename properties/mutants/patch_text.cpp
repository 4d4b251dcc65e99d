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

Pattern pattern_of(std::string_view found) {
  const std::size_t open = found.find('`');
  if (open == found.npos) return {{}, found, {}};
  const std::size_t close = found.find('`', open + 1);
  if (close == found.npos) return {{}, {}, {}};
  return {found.substr(0, open), found.substr(open + 1, close - open - 1), found.substr(close + 1)};
}

/// One row in one file: its target is [from, to).
struct Place {
  std::size_t from;
  std::size_t to;
  std::size_t number;
  const Patch* row;
};

[[noreturn]] void refuse(const Patch& row, std::string_view why) {
  throw std::invalid_argument(say("patch ", row.id, " of optimized/", row.file, ": ", why));
}

Place place_of(const Patch& row, std::size_t number, std::string_view text) {
  const Pattern pattern = pattern_of(row.found);
  if (pattern.target.empty()) refuse(row, "nothing is to be found, expected `text`");
  std::size_t count = 0;
  Place out{0, 0, number, &row};
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto from = match(text, at, pattern.before);
    const auto to = from ? match(text, *from, pattern.target) : std::nullopt;
    if (!to || !match(text, *to, pattern.behind)) continue;
    ++count;
    out.from = *from;
    out.to = *to;
  }
  if (count != 1) refuse(row, say("the text is found ", count, " times, expected once"));
  return out;
}

std::string schema(const Place& place, std::string_view found) {
  const std::string on = say("::kvproof::patched::patch_is_on(", place.number, ")");
  const std::string_view replacement = place.row->replacement;
  if (found.ends_with(';') || found.ends_with('}')) {
    return say("if (", on, ") { ", replacement, " } else { ", found, " }");
  }
  return say("(", on, " ? (", replacement, ") : (", found, "))");
}

std::string renamed(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"#include \"optimized/", "#include \"patched/"},
      {"namespace kvproof::optimized", "namespace kvproof::patched"}};
  for (const auto& [from, to] : kNames) {
    for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

}  // namespace

std::string patched_text(std::string_view file, std::string_view text,
                         std::span<const Patch> patches) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < patches.size(); ++i) {
    if (patches[i].file == file) places.push_back(place_of(patches[i], i + 1, text));
  }
  std::ranges::sort(places, {}, &Place::from);
  std::string out = say("// Made from optimized/", file, " and properties/mutants/patches.cpp.\n");
  std::size_t done = 0;
  for (const Place& place : places) {
    if (place.from < done) refuse(*place.row, "another row changes that text");
    out.append(text.substr(done, place.from - done));
    out.append(schema(place, text.substr(place.from, place.to - place.from)));
    done = place.to;
  }
  out.append(text.substr(done));
  const std::size_t first_include = out.find("#include");
  if (first_include != out.npos && !places.empty()) {
    out.insert(first_include, "#include \"properties/mutants/active_patch.h\"\n");
  }
  return renamed(std::move(out));
}

}  // namespace kvproof::properties
