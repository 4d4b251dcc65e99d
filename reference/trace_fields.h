// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a line of a trace with care, for the readers of operations and states.
//
// Refuses: a value out of its range, of another kind or too deeply nested, with a TextError that
//          names the field. Memory is reserved for what a line holds, never for what it claims.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ids.h"
#include "reference/json_fault.h"
#include "reference/trace_json.h"

namespace kvproof::fields {

using nlohmann::json;
using Tables = std::vector<std::vector<BlockId>>;

inline constexpr int kDeepest = 16;  // brackets within brackets; the format needs 6

/// Parses a line as an object. Its depth is bounded before anything is built from it.
inline json parse_object(std::string_view line) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) throw TextError("", "at most 16 brackets within each other");
  }
  if (const auto fault = fault_of_text(line)) throw TextError("", *fault);
  try {
    json out = json::parse(line);
    if (!out.is_object()) throw TextError("", "a JSON object, found " + kind_of(out));
    return out;
  } catch (const json::exception& error) {
    throw TextError("", fault_of(error));
  }
}

inline const json& member(const json& object, const char* field) {
  const auto at = object.find(field);
  if (at == object.end()) throw TextError(field, "a value, found none");
  return *at;
}

template <std::integral Integer>
Integer integer(const json& value, const std::string& field) {
  constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<Integer>::min());
  constexpr auto kHigh = static_cast<std::int64_t>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::numeric_limits<Integer>::max()),
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
  const bool small = value.is_number_unsigned()
                         ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kHigh)
                         : value.is_number_integer() && value.get<std::int64_t>() <= kHigh;
  if (!small || value.get<std::int64_t>() < kLow) {
    throw TextError(field,
                    "an integer from " + std::to_string(kLow) + " to " + std::to_string(kHigh));
  }
  return static_cast<Integer>(value.get<std::int64_t>());
}

/// An id is read as its integer.
template <class Id>
Id integer(const json& value, const std::string& field) {
  return Id(integer<std::uint32_t>(value, field));
}

inline std::uint32_t count(const json& object, const char* field) {
  return integer<std::uint32_t>(member(object, field), field);
}

/// Reads a header. Values that make a manager allocate are bounded before anything is built.
inline std::uint32_t size(const json& object, const char* field, std::uint32_t limit) {
  const std::uint32_t out = count(object, field);
  if (out > limit) throw TextError(field, "at most " + std::to_string(limit));
  return out;
}

inline std::uint32_t count_or_zero(const json& object, const char* field) {
  return object.contains(field) ? count(object, field) : 0;
}

inline bool flag(const json& object, const char* field) {
  const auto at = object.find(field);
  if (at == object.end()) return false;
  if (!at->is_boolean()) throw TextError(field, "true or false");
  return at->get<bool>();
}

inline std::string text(const json& object, const char* field) {
  const json& value = member(object, field);
  if (!value.is_string()) throw TextError(field, "a string");
  return value.get<std::string>();
}

inline std::string text_or_empty(const json& object, const char* field) {
  const auto at = object.find(field);
  return at == object.end() || at->is_null() ? std::string() : text(object, field);
}

inline double number(const json& object, const char* field) {
  const json& value = member(object, field);
  if (!value.is_number()) throw TextError(field, "a number");
  return value.get<double>();
}

inline const json& array(const json& value, const std::string& field) {
  if (!value.is_array()) throw TextError(field, "an array");
  return value;
}

inline const json& object(const json& value, const std::string& field) {
  if (!value.is_object()) throw TextError(field, "an object");
  return value;
}

template <class Integer>
std::vector<Integer> integers(const json& value, const std::string& field) {
  std::vector<Integer> out;
  for (const json& item : array(value, field)) out.push_back(integer<Integer>(item, field));
  return out;
}

inline Tables tables(const json& value, const std::string& field) {
  Tables out;
  for (const json& group : array(value, field)) out.push_back(integers<BlockId>(group, field));
  return out;
}

inline RecordedPool::Pairs pairs(const json& value, const std::string& field) {
  RecordedPool::Pairs out;
  for (const json& item : array(value, field)) {
    if (!item.is_array() || item.size() != 2) throw TextError(field, "pairs of integers");
    out.push_back({integer<std::uint32_t>(item[0], field), integer<std::uint32_t>(item[1], field)});
  }
  return out;
}

/// @return the index of a word in a list. @throws TextError listing the words
template <std::size_t N>
std::size_t word(const json& object, const char* field, const std::string_view (&words)[N]) {
  const std::string found = text(object, field);
  const auto* at = std::find(std::begin(words), std::end(words), found);
  if (at != std::end(words)) return static_cast<std::size_t>(at - std::begin(words));
  std::string expected;
  for (const std::string_view w : words) expected.append(expected.empty() ? "" : ", ").append(w);
  throw TextError(field, "one of " + expected + ", found " + found);
}

}  // namespace kvproof::fields
