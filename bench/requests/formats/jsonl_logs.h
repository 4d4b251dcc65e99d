// SPDX-License-Identifier: Apache-2.0
// Logs with one JSON object for each request: Mooncake and the tools that write its form,
// rtp-llm, Qwen-Bailian, LLMServingSim.
#pragma once

#include <memory>
#include <string_view>

#include "bench/requests/open_log.h"
#include "bench/requests/request.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {

/// @param first_line the line that `lines` stands on; its fields tell the format
[[nodiscard]] std::unique_ptr<RequestSource> open_jsonl_log(std::unique_ptr<LineReader> lines,
                                                            std::string_view first_line,
                                                            const LogOptions& options);

}  // namespace kvproof::bench
