// SPDX-License-Identifier: Apache-2.0
// The readers of request logs, one for each family of formats.
#pragma once

#include <memory>
#include <string_view>

#include "bench/requests/open_log.h"
#include "bench/requests/request.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {

/// Logs of lengths in CSV, without contents: Azure 2023 and 2024, BurstGPT, vidur.
/// @param header the line that `lines` stands on; its columns tell the format
[[nodiscard]] std::unique_ptr<RequestSource> open_csv_log(std::unique_ptr<LineReader> lines,
                                                          std::string_view header,
                                                          const LogOptions& options);

/// Logs with one JSON object for each request: Mooncake and the tools that write its form,
/// rtp-llm, Qwen-Bailian, LLMServingSim.
/// @param first_line the line that `lines` stands on; its fields tell the format
[[nodiscard]] std::unique_ptr<RequestSource> open_jsonl_log(std::unique_ptr<LineReader> lines,
                                                            std::string_view first_line,
                                                            const LogOptions& options);

/// Sessions of kv-cache-tester: one JSON object for each session.
[[nodiscard]] bool looks_like_sessions(std::string_view first_line);

/// @param first_line the line that `lines` stands on
[[nodiscard]] std::unique_ptr<RequestSource> open_sessions(std::unique_ptr<LineReader> lines,
                                                           std::string_view first_line,
                                                           const LogOptions& options);

}  // namespace kvproof::bench
