// SPDX-License-Identifier: Apache-2.0
// The textbook allocator in Python, as a child process that is asked line by line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/ids.h"
#include "reference/support/child_process.h"

namespace kvproof::bench {

/// The words of one line, by their names.
using TextbookAnswer = std::map<std::string, std::string>;

/// Tokens as they lie in memory, in hexadecimal.
[[nodiscard]] inline std::string hex_of(std::span<const TokenId> tokens) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * tokens.size_bytes());
  for (const std::byte byte : std::as_bytes(tokens)) {
    out += kDigits[static_cast<unsigned>(byte) / 16];
    out += kDigits[static_cast<unsigned>(byte) % 16];
  }
  return out;
}

[[nodiscard]] inline std::uint64_t number(const TextbookAnswer& answer, const std::string& name) {
  const auto at = answer.find(name);
  if (at == answer.end()) throw std::logic_error("textbook: no " + name + " in the answer");
  return std::strtoull(at->second.c_str(), nullptr, 10);
}

class TextbookProcess {
 public:
  /// @param script worker.py. @throws ChildTrouble where there is no python3
  explicit TextbookProcess(const std::filesystem::path& script)
      : TextbookProcess(std::vector<std::string>{"python3", script.string()}) {}
  explicit TextbookProcess(std::vector<std::string> argv) : process_({.argv = std::move(argv)}) {}

  /// @throws ChildTrouble with what it said when it ended instead
  TextbookAnswer ask(const std::string& command) {
    constexpr double kLimitSeconds = 120;
    constexpr std::size_t kMostBytes = 1U << 20U;
    std::string_view rest = process_.ask(command, kLimitSeconds, kMostBytes);
    TextbookAnswer out;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      const std::size_t equals = word.find('=');
      if (equals == word.npos) throw std::logic_error("textbook: expected key=value");
      out[std::string(word.substr(0, equals))] = word.substr(equals + 1);
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
    return out;
  }

 private:
  ChildProcess process_;
};

}  // namespace kvproof::bench
