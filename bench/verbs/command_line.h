// SPDX-License-Identifier: Apache-2.0
// Shared by the command lines of all programs: exit codes, parsing, and the handling of errors.
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

/// The user asked for something that cannot be done.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Program {
  std::string_view name;  // each error message begins with it
  /// Says where a size was too large; without it the message is that of the library.
  std::string_view no_memory = {};
  std::string_view failed = {};  // the beginning of messages about errors that no input has caused
};

/// @return whether to go on; false after printing the help. Throws UsageError.
[[nodiscard]] bool parse(CLI::App& app, int argc, char** argv);

/// Runs the body of main(). An error becomes one line on stderr.
/// @return the exit code of body; kUsage for unusable input or output; kViolated for other errors
[[nodiscard]] int run_program(const Program& program, const std::function<int()>& body);

/// "one, two": the names of the rows of a list, for the error that there is no such row.
template <class Rows>
[[nodiscard]] std::string names_of(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace kvproof::bench
