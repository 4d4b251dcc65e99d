// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <new>

#include "bench/results/result_file.h"
#include "properties/foreign/foreign_subject.h"
#include "properties/traces/input_error.h"

namespace kvproof::bench {

bool parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
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
