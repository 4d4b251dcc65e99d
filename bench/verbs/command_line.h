// SPDX-License-Identifier: Apache-2.0
// Shared by the command lines of all programs: exit codes, parsing, and the handling of errors.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

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

/// What a program can be told. Its body is the one place that knows the library behind it.
class CommandLine {
 public:
  /// An option that was just added, to say more of it.
  class Option {
   public:
    explicit Option(CLI::Option* option) : option_(option) {}
    template <std::integral T>
    Option& between(T least, T most) {
      return between_integers(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
    }
    Option& between(double least, double most);
    Option& one_of(const std::vector<std::string>& values);
    Option& needs(const Option& other);
    Option& excludes(const Option& other);
    Option& heading(const std::string& text);      // under which the help lists it
    Option& placeholder(const std::string& text);  // for its value in the help
    Option& one_value_each();                      // of an option that may be repeated
    Option& hidden();

   private:
    Option& between_integers(std::int64_t least, std::int64_t most);

    CLI::Option* option_;
  };

  explicit CommandLine(const std::string& description);
  ~CommandLine();

  /// @param name "--option", or "files" for what comes without one
  /// @param value text, a number, an optional of these, or a vector of texts: the default, then
  ///        what was given. It must outlive parse().
  template <class T>
  Option option(const std::string& name, T& value, const std::string& help);
  Option option(const std::string& name, const std::function<void(double)>& take,
                const std::string& help);
  Option flag(const std::string& name, bool& value, const std::string& help);
  void footer(const std::string& text);

  /// @return whether to go on; false after printing the help. Throws UsageError.
  [[nodiscard]] bool parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

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
