// SPDX-License-Identifier: Apache-2.0
// `sanitized_runs PROGRAM [SOURCE]`: runs a sanitized program on each argument that it lists, and
// requires that a run ends with 0, or that it is reported.
//
// Without an argument the program lists its runs, one per line: the argument, a tab, and the
// report, which is empty for a run that must be silent. After a further tab comes a text of the
// line in SOURCE that the report must name. ThreadSanitizer needs to know where memory lies, so the
// program is started without randomised addresses; where it cannot start, this exits with 77 and
// says so.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "reference/support/child_program.h"

namespace {

struct Ended {
  int exit_code = -1;
  std::string output;

  [[nodiscard]] bool says(const std::string& text) const {
    return output.find(text) != std::string::npos;
  }
};

Ended run(std::vector<std::string> argv) {
  argv.insert(argv.begin(), {"env", "TSAN_OPTIONS=halt_on_error=1:exitcode=66"});
  const kvproof::ChildEnd end =
      kvproof::run_child({.argv = std::move(argv), .limit_seconds = 3600, .fixed_layout = true});
  return {end.exit_code, end.out + end.error};
}

/// "<file>:<line>" of the first line with `text`.
std::string place_of(const std::string& source, const std::string& text) {
  std::ifstream in(source);
  std::string line;
  for (int n = 1; std::getline(in, line); ++n) {
    if (line.find(text) != std::string::npos) {
      return source.substr(source.rfind('/') + 1) + ":" + std::to_string(n);
    }
  }
  return "nowhere";
}

/// Whether the report's first frame is at `place`. GCC's sanitizer may know no line; binutils does.
bool is_at(const Ended& ended, const char* program, const std::string& place) {
  if (ended.says(place)) return true;
  const std::size_t frame = ended.output.find("#0 ");
  const std::size_t offset = ended.output.find("+0x", frame);
  const std::size_t end = ended.output.find(')', offset);
  if (frame == std::string::npos || offset == std::string::npos || end == std::string::npos) {
    return false;
  }
  const std::string address = ended.output.substr(offset + 1, end - offset - 1);
  const Ended line = run({"addr2line", "-e", program, address});
  return line.says(place + "\n") || line.says(place + " (");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: sanitized_runs PROGRAM [SOURCE]\n");
    return 2;
  }
  const std::string source = argc == 3 ? argv[2] : "";
  const Ended list = run({argv[1]});
  if (list.says("unexpected memory mapping")) {
    std::printf(
        "skipped: ThreadSanitizer cannot run where address-space randomisation cannot be "
        "switched off\n");
    return 77;
  }
  int result = list.exit_code == 0 && list.says("\t") ? 0 : 1;
  std::istringstream lines(list.output);
  for (std::string line, argument, report, text; std::getline(lines, line);) {
    std::istringstream fields(line);
    argument = report = text = "";
    std::getline(std::getline(std::getline(fields, argument, '\t'), report, '\t'), text);
    const auto start = std::chrono::steady_clock::now();
    const Ended ended = run({argv[1], argument});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    bool expected = report.empty() ? ended.exit_code == 0 : ended.says(report);
    if (!text.empty()) expected = expected && is_at(ended, argv[1], place_of(source, text));
    std::printf("%s: %s, %s (%.1f s)\n", argument.c_str(),
                report.empty() ? "no report" : report.c_str(),
                expected ? "as expected" : "NOT as expected", took.count());
    if (expected) continue;
    std::printf("%s\nagain: %s '%s'\n", ended.output.c_str(), argv[1], argument.c_str());
    result = 1;
  }
  return result;
}
