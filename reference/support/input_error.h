// SPDX-License-Identifier: Apache-2.0
// The one exception for input that cannot be used: which file, which line, which field, what was
// expected there. Its what() is one printable line; a command prints it and exits with code 2.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kvproof {

/// Bytes from a file made fit for one line of a message: what is not printable ASCII becomes '?',
/// and what is longer than `max_bytes` ends in "...".
[[nodiscard]] inline std::string printable(std::string_view bytes, std::size_t max_bytes = 60) {
  const bool cut = bytes.size() > max_bytes;
  std::string text(bytes.substr(0, max_bytes));
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  return cut ? text + "..." : text;
}

/// The same between quotes, for ", found 'abc'".
[[nodiscard]] inline std::string in_quotes(std::string_view bytes) {
  std::string text(1, '\'');
  return text.append(printable(bytes)).append(1, '\'');
}

/// "FILE: line 17: field hash_ids: expected an array of non-negative integers". A line of 0 means
/// the file as a whole, and an empty field means the line as a whole; what() leaves them out.
class InputError : public std::runtime_error {
 public:
  /// @param expected completes the sentence "expected ..."; it may go on with ", found ...".
  InputError(std::string file, std::uint64_t line, std::string field, std::string expected)
      : std::runtime_error(describe(file, line, field, expected)),
        file_(std::move(file)),
        line_(line),
        field_(std::move(field)),
        expected_(std::move(expected)) {}

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::uint64_t line() const { return line_; }  // from 1; 0 = the whole file
  [[nodiscard]] const std::string& field() const { return field_; }
  [[nodiscard]] const std::string& expected() const { return expected_; }

 private:
  static constexpr std::size_t kMaxPathBytes = 4096;  // PATH_MAX: a path is never cut short
  static constexpr std::size_t kMaxTextBytes = 400;

  static std::string describe(const std::string& file, std::uint64_t line, const std::string& field,
                              const std::string& expected) {
    std::string text;
    for (const char c : file.substr(0, kMaxPathBytes)) {
      const auto byte = static_cast<unsigned char>(c);
      text += byte < 0x20 || byte == 0x7f ? '?' : c;  // names beyond ASCII stay readable
    }
    if (line != 0) text += ": line " + std::to_string(line);
    if (!field.empty()) text += ": field " + printable(field);
    return text + ": expected " + printable(expected, kMaxTextBytes);
  }

  std::string file_;
  std::uint64_t line_;
  std::string field_;
  std::string expected_;
};

}  // namespace kvproof
