// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the JSON reader gets lines of traces. A line that it accepts must be written and
// read again to the same text; a line that it refuses must raise a TextError of one line.
#include <algorithm>
#include <string_view>

#include "properties/sources/fuzz/fuzz_target.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

std::string written(const TraceLine& line) {
  switch (line.kind) {
    case TraceLine::Kind::header: return to_json(line.header);
    case TraceLine::Kind::operation: return to_json(line.operation);
    case TraceLine::Kind::lost:  // recorders alone write it
    case TraceLine::Kind::end: break;
  }
  return end_line(line.num_operations);
}

void read_line(std::string_view text) {
  TraceLine line;
  try {
    line = parse_trace_line(text);
  } catch (const TextError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) {
      fuzz_failed(say("a complaint of several lines: ", error.what()));
    }
    return;
  }
  const std::string once = written(line);
  const std::string twice = written(parse_trace_line(once));
  if (once != twice) fuzz_failed(say("written as ", once, ", read again as ", twice));
}

}  // namespace
}  // namespace kvproof::properties

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof::properties;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::uint64_t lines = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    read_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++lines;
  }
  fuzz_meter.add_input(lines);
  return 0;
}
