// SPDX-License-Identifier: Apache-2.0
// Times as logs of CSV spell them: dates, and seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvproof::bench {

inline constexpr std::int64_t kTicksPerSecond = 10'000'000;  // a tick is 100 ns, the 7th digit

/// @return [ticks since 1970-01-01] of YYYY-MM-DD, a space or T, HH:MM:SS, up to 7 fractional
///         digits, then optionally Z or +00:00; the years 0 to 9999 fit 64 bits
[[nodiscard]] std::optional<std::int64_t> parse_date_time(std::string_view text);

/// @return [ticks] of a number of seconds from 0 to 10^11, rounded
[[nodiscard]] std::optional<std::int64_t> parse_seconds(std::string_view text);

}  // namespace kvproof::bench
