// SPDX-License-Identifier: Apache-2.0
// Logs of lengths in CSV, without contents: Azure 2023 and 2024, BurstGPT, vidur.
#pragma once

#include <memory>
#include <string_view>

#include "bench/requests/open_log.h"
#include "bench/requests/request.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {

/// @param header the line that `lines` stands on; its columns tell the format
[[nodiscard]] std::unique_ptr<RequestSource> open_csv_log(std::unique_ptr<LineReader> lines,
                                                          std::string_view header,
                                                          const LogOptions& options);

}  // namespace kvproof::bench
