// SPDX-License-Identifier: Apache-2.0
#include "bench/instruments/callgrind.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace kvproof::bench {

std::string valgrind_version() {
  const ChildEnd end = run_child({.argv = {"valgrind", "--version"}, .limit_seconds = 30});
  return end.ok() ? end.out.substr(0, end.out.find('\n')) : "";
}

std::optional<CallgrindCounts> parse_callgrind(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> events;
  std::map<std::string, std::uint64_t> totals;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "events:") events.assign(std::istream_iterator<std::string>(words), {});
    if (first != "totals:" && first != "summary:") continue;
    for (const std::string& event : events) {  // trailing zeros are left out
      std::uint64_t count = 0;
      if (words >> count) totals[event] = count;
    }
  }
  if (totals["Ir"] == 0) return std::nullopt;  // no function of that name was called
  return CallgrindCounts{totals["Ir"], totals["D1mr"] + totals["D1mw"],
                         totals["DLmr"] + totals["DLmw"]};
}

ChildEnd run_callgrind(ChildCommand command, const std::string& collected, bool simulate_caches,
                       const std::filesystem::path& folder,
                       std::optional<CallgrindCounts>& counts) {
  const Temporary file(folder / ("kvproof-callgrind." + std::to_string(getpid())));
  std::vector<std::string> argv = {"valgrind", "--tool=callgrind", "--toggle-collect=" + collected,
                                   "--callgrind-out-file=" + file.path().string(), "--vgdb=no"};
  if (simulate_caches) {
    argv.emplace_back("--cache-sim=yes");
    argv.insert(argv.end(), std::begin(kCacheGeometry), std::end(kCacheGeometry));
  }
  command.argv.insert(command.argv.begin(), argv.begin(), argv.end());
  command.fixed_layout = true;
  counts.reset();
  ChildEnd end = run_child(command);
  if (end.ok()) {
    std::ifstream stream(file.path(), std::ios::binary);
    counts = parse_callgrind({std::istreambuf_iterator<char>(stream), {}});
  }
  return end;
}

}  // namespace kvproof::bench
