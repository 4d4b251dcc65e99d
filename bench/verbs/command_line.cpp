// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include "bench/requests/open_log.h"
#include "bench/results/result_file.h"
#include "properties/engines/kit/unusable_subject.h"
#include "reference/support/command_words.h"
#include "reference/support/input_error.h"
#include "reference/support/interrupt.h"
#include "reference/support/line_reader.h"
#include "reference/support/say.h"

namespace kvproof::bench {

using Option = CommandLine::Option;

struct Option::Rules {
  struct Condition {
    std::function<bool()> holds;
    std::string other;
  };

  CLI::Option* option;
  std::string name;  // in messages
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  double least_real = std::numeric_limits<double>::lowest();
  double most_real = std::numeric_limits<double>::max();
  std::vector<std::string> choices = {};
  std::vector<Option> with = {};
  std::vector<Option> without = {};
  std::vector<Condition> conditions = {};

  void check() const;
};

namespace {

using Rules = Option::Rules;

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

[[noreturn]] void refuse(const Rules& rules, const std::string& text, const std::string& expected) {
  throw UsageError(rules.name + "=" + printable(text) + ": expected " + expected);
}

template <std::integral T>
void read(const Rules& rules, const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  std::uint64_t value = 0;
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  const bool whole = code == std::errc() && stop == end;
  const bool octal = whole && text.size() > 1 && text.front() == '0';  // to some readers
  const auto most = std::min<std::uint64_t>(rules.most, std::numeric_limits<T>::max());
  if (!whole || octal || value < rules.least || value > most) {
    refuse(rules, text,
           "a whole number from " + std::to_string(rules.least) + " to " + std::to_string(most) +
               (octal ? ", without leading zeros" : ""));
  }
  out = static_cast<T>(value);
}

void read(const Rules& rules, const std::string& text, double& out) {
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, out);
  const bool number = code == std::errc() && stop == end && std::isfinite(out);
  if (!number || out < rules.least_real || out > rules.most_real) {
    refuse(rules, text,
           "a number from " + shown(rules.least_real) + " to " + shown(rules.most_real));
  }
}

void read(const Rules& rules, const std::string& text, std::string& out) {
  const bool known =
      rules.choices.empty() || std::ranges::find(rules.choices, text) != rules.choices.end();
  if (!known) refuse(rules, text, "one of " + joined(rules.choices, ", "));
  out = text;
}

template <class T>
void read(const Rules& rules, const std::string& text, std::optional<T>& out) {
  T value{};
  read(rules, text, value);
  out = value;
}

template <class T>
constexpr const char* kPlaceholder = std::integral<T>         ? "N"
                                     : std::floating_point<T> ? "X"
                                                              : "TEXT";
template <class T>
constexpr const char* kPlaceholder<std::optional<T>> = kPlaceholder<T>;

}  // namespace

void Rules::check() const {
  if (option->count() == 0) return;
  for (const Option& other : without) {
    if (other.given()) throw UsageError(name + " does not go with " + other.rules_->name);
  }
  std::vector<std::string> others;
  for (const Option& other : with) others.push_back(other.rules_->name);
  if (!with.empty() && std::ranges::none_of(with, &Option::given)) {
    throw UsageError(name + " goes with " + joined(others, " or "));
  }
  for (const Condition& condition : conditions) {
    if (!condition.holds()) throw UsageError(name + " goes with " + condition.other);
  }
}

Option& Option::between_integers(std::uint64_t least, std::uint64_t most) {
  rules_->least = least;
  rules_->most = most;
  return between(static_cast<double>(least), static_cast<double>(most));
}

Option& Option::between(double least, double most) {
  rules_->least_real = least;
  rules_->most_real = most;
  return *this;
}

Option& Option::one_of(std::vector<std::string> values) {
  rules_->choices = std::move(values);
  return placeholder(joined(rules_->choices, "|"));
}

Option& Option::goes_with(std::vector<Option> others) {
  rules_->with = std::move(others);
  return *this;
}

Option& Option::not_with(std::vector<Option> others) {
  rules_->without.insert(rules_->without.end(), others.begin(), others.end());
  return *this;
}

Option& Option::only_if(std::function<bool()> holds, std::string other) {
  rules_->conditions.push_back({std::move(holds), std::move(other)});
  return *this;
}

Option& Option::called(std::string text) {
  rules_->name = std::move(text);
  return *this;
}

Option& Option::heading(const std::string& text) {
  rules_->option->group(text);
  return *this;
}

Option& Option::placeholder(const std::string& text) {
  rules_->option->type_name(text);
  return *this;
}

Option& Option::hidden() { return heading(""); }

bool Option::given() const { return rules_->option->count() > 0; }

CommandLine::CommandLine(const Program& program, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, std::string(program.name))) {
  app_->set_help_flag("-h,--help", "print this and exit")->disable_flag_override();
  footer("");
}

CommandLine::~CommandLine() = default;

Option CommandLine::add(CLI::Option* option, const std::string& name) {
  rules_.push_back(std::make_unique<Rules>(Rules{.option = option, .name = name}));
  return Option(rules_.back().get());
}

Option CommandLine::add_value(const std::string& name, const std::string& help,
                              const std::string& placeholder,
                              std::function<void(const Rules&, const std::string&)> take) {
  // The rules are known only after the option; they stay where they are.
  auto rules = std::make_unique<Rules>(Rules{.option = nullptr, .name = name});
  rules->option = app_->add_option_function<std::string>(
      name,
      [at = rules.get(), take = std::move(take)](const std::string& text) { take(*at, text); },
      help);
  rules->option->type_name(placeholder);
  rules_.push_back(std::move(rules));
  return Option(rules_.back().get());
}

template <class T>
Option CommandLine::option(const std::string& name, T& value, const std::string& help) {
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    CLI::Option* option = app_->add_option(name, value, help);
    if (name.starts_with('-')) option->type_size(1)->allow_extra_args(false);  // no list of values
    return add(option->type_name("TEXT"), name);
  } else {
    return add_value(
        name, help, kPlaceholder<T>,
        [&value](const Rules& rules, const std::string& text) { read(rules, text, value); });
  }
}
template Option CommandLine::option(const std::string&, std::string&, const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::string>&,
                                    const std::string&);
template Option CommandLine::option(const std::string&, std::uint32_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::int64_t&, const std::string&);
template Option CommandLine::option(const std::string&, double&, const std::string&);
template Option CommandLine::option(const std::string&, std::optional<std::uint32_t>&,
                                    const std::string&);
template Option CommandLine::option(const std::string&, std::optional<std::uint64_t>&,
                                    const std::string&);
template Option CommandLine::option(const std::string&, std::optional<std::int64_t>&,
                                    const std::string&);
template Option CommandLine::option(const std::string&, std::optional<double>&, const std::string&);

Option CommandLine::option(const std::string& name, const std::function<void(double)>& take,
                           const std::string& help) {
  return add_value(name, help, "X", [take](const Rules& rules, const std::string& text) {
    double value = 0;
    read(rules, text, value);
    take(value);
  });
}

Option CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  return add(app_->add_flag(name, value, help)->disable_flag_override(), name);
}

Option CommandLine::flag_or_option(const std::string& name, std::optional<std::string>& value,
                                   const std::string& help) {
  Option out = add_value(name, help, "[=NAMES]",
                         [&value](const Rules&, const std::string& text) { value = text; });
  out.rules_->option->expected(0, 1);
  return out;
}

void CommandLine::footer(const std::string& text) {
  app_->footer(
      text + (text.empty() ? "" : "\n\n") +
      "Exit codes: 0 holds, 1 a law is broken or a measurement got worse, 2 usage, unreadable "
      "input or unwritable output, 3 cannot tell, 130 stopped.");
}

/// The library takes the next word for a missing value, even if that is an option.
void CommandLine::check_words(int argc, char** argv) const {
  std::set<std::string> seen;
  for (int i = 1; i < argc && argv[i] != std::string_view("--"); ++i) {
    const std::string_view word = argv[i];
    const std::string name(word.substr(0, word.find('=')));
    const CLI::Option* option = name.starts_with("--") ? app_->get_option_no_throw(name) : nullptr;
    if (option == nullptr) continue;
    if (option->get_items_expected_max() <= 1 && !seen.insert(name).second) {
      throw UsageError(name + " is given twice");
    }
    if (option->get_items_expected_max() == 0) {
      if (word.size() != name.size()) throw UsageError(name + " takes no value");
      continue;
    }
    if (word.size() != name.size()) {
      if (word.size() == name.size() + 1) throw UsageError(name + "=: expected a value");
      continue;
    }
    if (option->get_items_expected_min() == 0) continue;
    ++i;
    if (i < argc && argv[i][0] != '\0' && !std::string_view(argv[i]).starts_with("--")) continue;
    throw UsageError(name + ": expected a value" +
                     (i < argc ? ", found " + in_quotes(argv[i]) : ""));
  }
}

bool CommandLine::parse(int argc, char** argv) {
  check_words(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  for (const auto& rules : rules_) rules->check();
  return true;
}

std::vector<Option> add_ci_options(CommandLine& line, OutputPaths& paths, Says says) {
  std::vector<Option> out;
  const auto add = [&](const char* name, std::string& path, const char* help) {
    out.push_back(line.option(name, path, help).placeholder("FILE"));
  };
  if (says != Says::numbers) {
    add("--junit", paths.junit, "also write the verdicts as JUnit's XML");
    add("--sarif", paths.sarif, "also write the findings as SARIF 2.1.0");
  }
  if (says != Says::verdicts) {
    add("--bmf", paths.bmf, "also write the numbers as Bencher's metrics");
  }
  return out;
}

std::vector<Option> add_output_options(CommandLine& line, OutputPaths& paths, Says says) {
  std::vector<Option> out = add_ci_options(line, paths, says);
  out.insert(
      out.begin(),
      line.option("--json", paths.json, "also write the results to this file").placeholder("FILE"));
  return out;
}

namespace {

/// @throws OutputError if something that was printed did not arrive
void require_output() {
  errno = 0;
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  throw OutputError("standard output: cannot be written" + reason);
}

/// Of a file whose first line its reader did not understand, because another verb reads such files:
/// "; this is a request log: kvproof replay --trace=FILE".
std::string other_kind(const Program& program, const InputError& error) {
  const std::string file = error.file();
  const std::string verb(program.name.substr(program.name.find(' ') + 1));
  const bool live = verb == "live";
  const bool reads = live || verb == "replay" || verb == "lens" || verb == "explain";
  std::error_code unreadable;  // what is a pipe cannot be read twice
  if (!reads || error.line() != 1 || !std::filesystem::is_regular_file(file, unreadable)) return {};
  const std::string word = shell_word(file);
  const std::string log = verb == "explain" ? "explain --trace=" : "replay --trace=";
  try {
    LineReader reader(file);
    std::string_view line;
    const bool has_line = reader.next(line);
    const auto has = [&](const char* member) { return has_line && line.find(member) != line.npos; };
    if (has("\"kvproof_trace\""))
      return live ? "; this is an operation trace: kvproof replay " + word : "";
    if (has("\"kvproof_run\""))
      return verb == "replay" ? "; this is a run of an engine: kvproof live " + word : "";
    static_cast<void>(open_log(file, {}));
    return "; this is a request log: kvproof " + log + word;
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

int run_program(const Program& program, const std::function<int()>& body) {
  const auto say = [&program](std::string_view message, int code) {
    std::cerr << program.name << ": " << message << '\n';
    return code;
  };
  clean_up_on_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of the write
  try {
    const int code = body();
    require_output();
    return code;
  } catch (const UsageError& error) {
    return say(error.what(), kUsage);
  } catch (const std::invalid_argument& error) {
    return say(error.what(), kUsage);
  } catch (const InputError& error) {
    return say(error.what() + other_kind(program, error), kUsage);
  } catch (const properties::UnusableSubject& error) {
    return say(error.what(), kUsage);
  } catch (const OutputError& error) {
    return say(error.what(), kUsage);
  } catch (const std::filesystem::filesystem_error& error) {
    return say(error.path1().string() + ": " + error.code().message(), kUsage);
  } catch (const std::bad_alloc& error) {
    if (!program.no_memory.empty()) return say(program.no_memory, kUsage);
    return say(std::string(program.failed) + error.what(), kViolated);
  } catch (const std::exception& error) {
    return say(std::string(program.failed) + error.what(), kViolated);
  }
}

}  // namespace kvproof::bench
