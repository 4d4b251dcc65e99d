// SPDX-License-Identifier: Apache-2.0
// Mooncake request traces: one JSON object a line, one block id for every 512 input tokens.
//
// Fields, all integers >= 0: timestamp [ms], input_length [tokens], output_length [tokens] and
// hash_ids, shape [ceil(input_length / 512)]. Other fields are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "bench/request.h"
#include "bench/trace_loaders.h"
#include "properties/traces/line_reader.h"

namespace kvproof::bench {

inline constexpr std::int64_t kMooncakeBlockTokens = 512;  // [tokens per id], as published

[[nodiscard]] bool looks_like_mooncake_jsonl(std::string_view first_line);

/// @param first_line the line that `lines` stands on
[[nodiscard]] std::unique_ptr<RequestSource> open_mooncake_jsonl(
    std::unique_ptr<properties::LineReader> lines, std::string_view first_line, TraceLimits limits);

}  // namespace kvproof::bench
