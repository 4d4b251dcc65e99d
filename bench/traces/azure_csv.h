// SPDX-License-Identifier: Apache-2.0
// Azure LLM inference traces of 2023: a CSV of arrival times and lengths, without contents.
//
// Columns: TIMESTAMP as YYYY-MM-DD, a space or T, HH:MM:SS, up to 7 fractional digits, and
// optionally Z or +00:00; ContextTokens and GeneratedTokens, integers >= 0.
#pragma once

#include <memory>
#include <string_view>

#include "bench/request.h"
#include "bench/trace_loaders.h"
#include "properties/traces/line_reader.h"

namespace kvproof::bench {

inline constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";

[[nodiscard]] bool looks_like_azure_csv(std::string_view first_line);

/// @param header the line that `lines` stands on
[[nodiscard]] std::unique_ptr<RequestSource> open_azure_csv(
    std::unique_ptr<properties::LineReader> lines, std::string_view header, TraceLimits limits);

}  // namespace kvproof::bench
