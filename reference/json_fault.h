// SPDX-License-Identifier: Apache-2.0
// What is wrong with a line of JSON, in words for whoever wrote it: the byte and the cause.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvproof {

/// What the parser would not see or would call by another name; nullopt if there is no such fault.
[[nodiscard]] inline std::optional<std::string> fault_of_text(std::string_view line) {
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return "a JSON object, found an empty line";
  }
  // The parser takes a NUL byte for the end of its input, which would hide what follows.
  const std::size_t nul = line.find('\0');
  if (nul == std::string_view::npos) return std::nullopt;
  return "valid JSON, found at byte " + std::to_string(nul + 1) + ": a NUL byte";
}

/// The parser says "[id] parse error at line 1, column 9: cause" or "[id] cause"; only the cause
/// helps a reader. @param byte counted from 1; 0 = not known
[[nodiscard]] inline std::string fault_of(const nlohmann::json::exception& error,
                                          std::size_t byte = 0) {
  if (const auto* at = dynamic_cast<const nlohmann::json::parse_error*>(&error)) byte = at->byte;
  std::string_view text = error.what();
  for (const std::string_view before_cause : {"] ", "column", ": "}) {
    const std::size_t at = text.find(before_cause);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + before_cause.size());
  }
  constexpr std::size_t kLongest = 120;
  std::string cause(text.substr(0, kLongest));
  if (text.size() > kLongest) cause += "...";
  return "valid JSON, found " + (byte > 0 ? "at byte " + std::to_string(byte) + ": " : "") + cause;
}

/// "an array", "a number": for what was found in place of something else.
[[nodiscard]] inline std::string kind_of(const nlohmann::json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return value.is_null() ? "null" : std::string("a ") + value.type_name();
}

}  // namespace kvproof
