// SPDX-License-Identifier: Apache-2.0
// Sessions of kv-cache-tester: one JSON object for each session, with all its requests and those of
// its sub-agents; as published (hash_ids) or with its ids as runs of successive numbers.
//
// Model: ids are a session's own, so each session gets a range of its own. A session is held in
//        memory, as runs, while it is under way. How many are is LogOptions::sessions_at_once;
//        when one has asked its last request, the next of the file begins at that time.
#pragma once

#include <memory>
#include <string_view>

#include "bench/requests/open_log.h"
#include "bench/requests/request.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {

[[nodiscard]] bool looks_like_sessions(std::string_view first_line);

/// @param first_line the line that `lines` stands on
[[nodiscard]] std::unique_ptr<RequestSource> open_sessions(std::unique_ptr<LineReader> lines,
                                                           std::string_view first_line,
                                                           const LogOptions& options);

}  // namespace kvproof::bench
