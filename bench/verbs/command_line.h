// SPDX-License-Identifier: Apache-2.0
// Shared by the command lines of all programs: exit codes, parsing, and the handling of errors.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/results/ci_files.h"

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
  std::string_view name;  // as a user types it: "kvproof replay"; error messages begin with it
  /// Says where a size was too large; without it the message is that of the library.
  std::string_view no_memory = {};
  std::string_view failed = {};  // the beginning of messages about errors that no input has caused
};

/// What a program can be told. Its body is the one place that knows the library behind it.
///
/// Every option either has an effect or is an error: numbers are decimal and within their range, a
/// value is not empty, an option is given once unless it takes a list, and one that means nothing
/// here says with what it goes.
class CommandLine {
 public:
  /// An option that was just added, to say more of it.
  class Option {
   public:
    template <std::integral T>
    Option& between(T least, T most) {
      return between_integers(static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most));
    }
    Option& between(double least, double most);
    Option& one_of(std::vector<std::string> values);
    /// It is an error unless one of these is given too.
    Option& goes_with(std::vector<Option> others);
    /// It is an error if one of these is given too.
    Option& not_with(std::vector<Option> others);
    /// It is an error unless `holds`, which is asked after all values are read; `other` completes
    /// "it goes with ...".
    Option& only_if(std::function<bool()> holds, std::string other);
    Option& called(std::string text);              // in messages, for what comes without a name
    Option& heading(const std::string& text);      // under which the help lists it
    Option& placeholder(const std::string& text);  // for its value in the help
    Option& hidden();
    [[nodiscard]] bool given() const;

    struct Rules;  // what the option may be told, and in what company

   private:
    friend class CommandLine;
    explicit Option(Rules* rules) : rules_(rules) {}
    Option& between_integers(std::uint64_t least, std::uint64_t most);

    Rules* rules_;  // of the command line
  };

  CommandLine(const Program& program, const std::string& description);
  ~CommandLine();

  /// @param name "--option", or "files" for what comes without one
  /// @param value text, a number, an optional of these, or a vector of texts: the default, then
  ///        what was given. It must outlive parse().
  template <class T>
  Option option(const std::string& name, T& value, const std::string& help);
  Option option(const std::string& name, const std::function<void(double)>& take,
                const std::string& help);
  Option flag(const std::string& name, bool& value, const std::string& help);
  /// @param value of an option that may be given without one: empty then
  Option flag_or_option(const std::string& name, std::optional<std::string>& value,
                        const std::string& help);
  void footer(const std::string& text);  // above the exit codes, with which the help ends

  /// @return whether to go on; false after printing the help. Throws UsageError.
  [[nodiscard]] bool parse(int argc, char** argv);

 private:
  Option add(CLI::Option* option, const std::string& name);
  Option add_value(const std::string& name, const std::string& help, const std::string& placeholder,
                   std::function<void(const Option::Rules&, const std::string&)> take);
  void check_words(int argc, char** argv) const;

  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Option::Rules>> rules_;
};

/// What a verb's rows say, for the files that it can write of them.
enum class Says { numbers, verdicts, both };

/// Adds --junit and --sarif for verdicts, and --bmf for numbers; the second --json, too.
std::vector<CommandLine::Option> add_ci_options(CommandLine& line, OutputPaths& paths, Says says);
std::vector<CommandLine::Option> add_output_options(CommandLine& line, OutputPaths& paths,
                                                    Says says);

/// Runs the body of main(). An error becomes one line on stderr, and so does standard output that
/// could not be written. An interrupt leaves neither processes nor files behind.
/// @return the exit code of body; kUsage for unusable input or output; kViolated for other errors
[[nodiscard]] int run_program(const Program& program, const std::function<int()>& body);

/// The names of the rows of a list, for an option that takes one of them.
template <class Rows>
[[nodiscard]] std::vector<std::string> row_names(const Rows& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows) out.emplace_back(row.name);
  return out;
}

/// "one, two": the names of the rows of a list, for the error that there is no such row.
template <class Rows>
[[nodiscard]] std::string names_of(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace kvproof::bench
