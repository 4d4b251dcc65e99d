// SPDX-License-Identifier: Apache-2.0
#include "bench/requests/formats/time_stamp.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace kvproof::bench {
namespace {

/// Takes exactly `digits` decimal digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take_one_of(std::string_view& text, std::string_view choices) {
  if (text.empty() || choices.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// @return days since 1970-01-01 of the YYYY-MM-DD taken off the front of `text`
std::optional<std::int64_t> take_date(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (!year || !take_one_of(text, "-")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take_one_of(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

/// @return [ticks] of the fraction taken off the front; 0 if there is none
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (!take_one_of(text, ".")) return 0;
  std::int64_t ticks = 0;
  std::size_t digits = 0;
  for (; digits < 7 && !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits) {
    ticks = ticks * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 7; ++digits) ticks *= 10;
  return ticks;
}

}  // namespace

std::optional<std::int64_t> parse_date_time(std::string_view text) {
  const auto days = take_date(text);
  if (!days || !take_one_of(text, " T")) return std::nullopt;
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23 || !take_one_of(text, ":")) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59 || !take_one_of(text, ":")) return std::nullopt;
  const auto seconds = take_digits(text, 2);
  if (!seconds || *seconds > 59) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction || !(text.empty() || text == "Z" || text == "+00:00")) return std::nullopt;
  const std::int64_t total_seconds =
      *days * 86'400 + *hours * 3'600 + *minutes * std::int64_t{60} + *seconds;
  return total_seconds * kTicksPerSecond + *fraction;
}

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seconds);
  constexpr double kMax = 1e11;  // in ticks it fits 64 bits
  if (code != std::errc() || stop != end || !(seconds >= 0 && seconds <= kMax)) return std::nullopt;
  return std::llround(seconds * static_cast<double>(kTicksPerSecond));
}

}  // namespace kvproof::bench
