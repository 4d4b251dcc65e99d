// SPDX-License-Identifier: Apache-2.0
// What the command lines of all programs share: exit codes, parsing, and what becomes of an error.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace kvproof::bench {

inline constexpr int kHolds = 0;
inline constexpr int kViolated = 1;  // or worse than what it was compared with
inline constexpr int kUsage = 2;  // or input that cannot be read, or output that cannot be written
inline constexpr int kCannotTell = 3;

/// Asked for what cannot be done.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Program {
  std::string_view name;  // opens each line that says what went wrong
  /// To say where a size was too large; without it, what the library says.
  std::string_view no_memory = {};
  std::string_view failed = {};  // opens what an error says that is nobody's input
};

/// @return whether to go on; where help was asked for, it is printed. Throws UsageError.
[[nodiscard]] bool parse(CLI::App& app, int argc, char** argv);

/// Runs what main() is for. An error becomes one line on stderr.
/// @return the exit code of body, kUsage for input or output that does not do, kViolated otherwise
[[nodiscard]] int run_program(const Program& program, const std::function<int()>& body);

/// "one, two": the names of the rows of a list, for the error that there is no such row.
template <class Rows>
[[nodiscard]] std::string names_of(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace kvproof::bench
