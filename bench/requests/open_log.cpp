// SPDX-License-Identifier: Apache-2.0
// Recognises the format of a log by its first line and hands it to the loader of that format.
#include "bench/requests/open_log.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/requests/formats/json_line.h"
#include "bench/requests/formats/log_readers.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {
namespace {

bool begins_an_object(std::string_view line) {
  const std::size_t start = line.find_first_not_of(" \t");
  return start != std::string_view::npos && line[start] == '{';
}

/// Whether this is the header of an operation trace.
bool names_operations(std::string_view line) {
  if (!begins_an_object(line)) return false;
  const std::vector<std::string> names = json_field_names(line);
  return std::ranges::find(names, "kvproof_trace") != names.end();
}

}  // namespace

std::unique_ptr<RequestSource> open_log(const std::string& path, LogOptions options) {
  auto lines = std::make_unique<LineReader>(path);
  std::string_view first;
  if (!lines->next(first)) {
    throw InputError(path, 0, "", "at least one request, found an empty file");
  }
  if (names_operations(first)) {
    throw InputError(path, 1, "",
                     "a request log, found an operation trace, which goes without "
                     "--trace: kvproof replay " +
                         path);
  }
  if (!begins_an_object(first)) return open_csv_log(std::move(lines), first, options);
  if (looks_like_sessions(first)) return open_sessions(std::move(lines), first, options);
  return open_jsonl_log(std::move(lines), first, options);
}

ReopenableSource log_source(const std::string& path, const LogOptions& options) {
  return {std::filesystem::path(path).filename().string(),
          [path, options] { return open_log(path, options); }};
}

}  // namespace kvproof::bench
