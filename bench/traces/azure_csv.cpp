// SPDX-License-Identifier: Apache-2.0
// Reads an Azure trace strictly: what is not exactly a time and two counts is an error.
#include "bench/traces/azure_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace kvproof::bench {
namespace {

constexpr std::array<std::string_view, 3> kColumns = {"TIMESTAMP", "ContextTokens",
                                                      "GeneratedTokens"};
constexpr std::int64_t kTicksPerSecond = 10'000'000;  // a tick is 100 ns, the 7th digit
constexpr std::string_view kTimeKind = "YYYY-MM-DD HH:MM:SS with up to 7 fractional digits";

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

/// @return [ticks since 1970-01-01] of a whole time stamp; the years 0 to 9999 fit 64 bits
std::optional<std::int64_t> parse_time(std::string_view text) {
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

class AzureSource final : public RequestSource {
 public:
  AzureSource(std::unique_ptr<properties::LineReader> lines, TraceLimits limits)
      : lines_(std::move(lines)), limits_(limits) {
    info_ = {lines_->path(), "azure_csv", 0, false};
  }

  [[nodiscard]] const TraceInfo& info() const override { return info_; }
  [[nodiscard]] double fraction() const override { return lines_->fraction_read(); }

  bool next(Request& request) override {
    std::string_view line;
    if (!lines_->next(line)) {
      if (next_index_ != 0) return false;
      lines_->fail("", "at least one request after the header, found the end of the file");
    }
    const std::array<std::string_view, 3> columns = split(line);
    const std::int64_t ticks = time(columns[0]);
    request.index = next_index_++;
    request.arrival_seconds =
        static_cast<double>(ticks - first_ticks_) / static_cast<double>(kTicksPerSecond);
    request.input_tokens = tokens(kColumns[1], columns[1]);
    request.output_tokens = tokens(kColumns[2], columns[2]);
    request.block_ids.clear();
    return true;
  }

 private:
  [[nodiscard]] std::array<std::string_view, 3> split(std::string_view line) const {
    std::array<std::string_view, 3> columns;
    std::size_t num_columns = 0;
    for (std::size_t start = 0; start <= line.size(); ++num_columns) {
      const std::size_t stop = std::min(line.find(',', start), line.size());
      if (num_columns < columns.size()) columns[num_columns] = line.substr(start, stop - start);
      start = stop + 1;
    }
    if (num_columns != columns.size()) {
      lines_->fail("", "3 columns, found " + std::to_string(num_columns));
    }
    return columns;
  }

  std::int64_t time(std::string_view text) {
    const auto ticks = parse_time(text);
    if (!ticks) {
      lines_->fail(std::string(kColumns[0]),
                   std::string(kTimeKind) + ", found " + properties::in_quotes(text));
    }
    if (next_index_ == 0) first_ticks_ = previous_ticks_ = *ticks;
    if (*ticks < previous_ticks_) {
      lines_->fail(std::string(kColumns[0]),
                   "a time not before the previous line's, found " + properties::in_quotes(text));
    }
    previous_ticks_ = *ticks;
    return *ticks;
  }

  [[nodiscard]] std::int64_t tokens(std::string_view column, std::string_view text) const {
    std::int64_t value = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = code == std::errc() && end == text.data() + text.size();
    if (whole && value >= 0 && value <= limits_.max_tokens) return value;
    lines_->fail(std::string(column), "an integer from 0 to " + std::to_string(limits_.max_tokens) +
                                          ", found " + properties::in_quotes(text));
  }

  std::unique_ptr<properties::LineReader> lines_;
  TraceLimits limits_;
  TraceInfo info_;
  std::uint64_t next_index_ = 0;
  std::int64_t first_ticks_ = 0;
  std::int64_t previous_ticks_ = 0;
};

}  // namespace

bool looks_like_azure_csv(std::string_view first_line) {
  return first_line.starts_with("TIMESTAMP");
}

std::unique_ptr<RequestSource> open_azure_csv(std::unique_ptr<properties::LineReader> lines,
                                              std::string_view header, TraceLimits limits) {
  if (header != kAzureHeader) {
    lines->fail("header", std::string(kAzureHeader) + ", found " + properties::in_quotes(header));
  }
  return std::make_unique<AzureSource>(std::move(lines), limits);
}

}  // namespace kvproof::bench
