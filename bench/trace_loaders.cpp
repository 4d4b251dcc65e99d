// SPDX-License-Identifier: Apache-2.0
// Recognises the format of a trace by its first line and hands it to the loader of that format.
#include "bench/trace_loaders.h"

#include <string_view>

#include "bench/traces/azure_csv.h"
#include "bench/traces/mooncake_jsonl.h"
#include "properties/traces/line_reader.h"

namespace kvproof::bench {

std::unique_ptr<RequestSource> open_trace(const std::string& path, TraceLimits limits) {
  auto lines = std::make_unique<properties::LineReader>(path);
  std::string_view first;
  if (!lines->next(first)) {
    throw properties::InputError(path, 0, "", "at least one request, found an empty file");
  }
  if (looks_like_azure_csv(first)) return open_azure_csv(std::move(lines), first, limits);
  if (looks_like_mooncake_jsonl(first)) return open_mooncake_jsonl(std::move(lines), first, limits);
  lines->fail("", "a JSON object (Mooncake) or the header " + std::string(kAzureHeader) +
                      " (Azure), found " + properties::in_quotes(first));
}

}  // namespace kvproof::bench
