// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <new>
#include <optional>

#include "bench/results/result_file.h"
#include "properties/foreign/unusable_subject.h"
#include "properties/traces/input_error.h"

namespace kvproof::bench {

using Option = CommandLine::Option;

Option& Option::between_integers(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::between(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::heading(const std::string& text) {
  option_->group(text);
  return *this;
}

Option& Option::placeholder(const std::string& text) {
  option_->type_name(text);
  return *this;
}

Option& Option::one_value_each() {
  option_->take_all()->type_size(1)->allow_extra_args(false);
  return *this;
}

Option& Option::hidden() { return heading(""); }

CommandLine::CommandLine(const std::string& description)
    : app_(std::make_unique<CLI::App>(description)) {}

CommandLine::~CommandLine() = default;

template <class T>
Option CommandLine::option(const std::string& name, T& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
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
  return Option(app_->add_option_function<double>(name, take, help));
}

Option CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

void CommandLine::footer(const std::string& text) { app_->footer(text); }

bool CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  return true;
}

int run_program(const Program& program, const std::function<int()>& body) {
  const auto say = [&program](std::string_view message, int code) {
    std::cerr << program.name << ": " << message << '\n';
    return code;
  };
  try {
    return body();
  } catch (const UsageError& error) {
    return say(error.what(), kUsage);
  } catch (const std::invalid_argument& error) {
    return say(error.what(), kUsage);
  } catch (const properties::InputError& error) {
    return say(error.what(), kUsage);
  } catch (const properties::UnusableSubject& error) {
    return say(error.what(), kUsage);
  } catch (const OutputError& error) {
    return say(error.what(), kUsage);
  } catch (const std::bad_alloc& error) {
    if (!program.no_memory.empty()) return say(program.no_memory, kUsage);
    return say(std::string(program.failed) + error.what(), kViolated);
  } catch (const std::exception& error) {
    return say(std::string(program.failed) + error.what(), kViolated);
  }
}

}  // namespace kvproof::bench
