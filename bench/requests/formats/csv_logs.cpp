// SPDX-License-Identifier: Apache-2.0
// The formats are rows of one table: the names of their columns and how they spell a time. Other
// columns are ignored; there are no quotes.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/requests/formats/line_source.h"
#include "bench/requests/formats/log_readers.h"

namespace kvproof::bench {
namespace {

constexpr std::int64_t kTicksPerSecond = 10'000'000;  // a tick is 100 ns, the 7th digit

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

/// @return [ticks since 1970-01-01] of YYYY-MM-DD, a space or T, HH:MM:SS, up to 7 fractional
///         digits, then optionally Z or +00:00; the years 0 to 9999 fit 64 bits
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

/// @return [ticks] of a number of seconds from 0 to 10^11, rounded
std::optional<std::int64_t> parse_seconds(std::string_view text) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seconds);
  constexpr double kMax = 1e11;  // in ticks it fits 64 bits
  if (code != std::errc() || stop != end || !(seconds >= 0 && seconds <= kMax)) return std::nullopt;
  return std::llround(seconds * static_cast<double>(kTicksPerSecond));
}

struct CsvFormat {
  std::string_view name;
  std::string_view time, input, output;  // columns
  bool has_to_be_timed;
  std::optional<std::int64_t> (*parse_time)(std::string_view);
  std::string_view time_kind;
};

constexpr std::string_view kDateTime = "YYYY-MM-DD HH:MM:SS with up to 7 fractional digits";
constexpr std::string_view kSeconds = "a number of seconds from 0 to 10^11";
constexpr std::array<CsvFormat, 3> kCsvFormats = {{
    {"azure_csv", "TIMESTAMP", "ContextTokens", "GeneratedTokens", true, parse_date_time,
     kDateTime},
    {"burstgpt_csv", "Timestamp", "Request tokens", "Response tokens", true, parse_seconds,
     kSeconds},
    {"vidur_csv", "arrived_at", "num_prefill_tokens", "num_decode_tokens", false, parse_seconds,
     kSeconds},
}};

void split(std::string_view line, std::vector<std::string_view>& columns) {
  columns.clear();
  for (std::size_t start = 0; start <= line.size();) {
    const std::size_t stop = std::min(line.find(',', start), line.size());
    columns.push_back(line.substr(start, stop - start));
    start = stop + 1;
  }
}

class CsvSource final : public LineSource {
 public:
  CsvSource(std::unique_ptr<LineReader> reader, const std::vector<std::string_view>& header,
            const CsvFormat& format, const LogOptions& options)
      : LineSource(std::move(reader), {}, options),
        format_(format),
        num_columns_(header.size()),
        time_(find(header, format.time, format.has_to_be_timed)),
        input_(find(header, format.input, true)),
        output_(find(header, format.output, true)) {
    info_.format = format.name;
    info_.timed = time_ < num_columns_;
  }

 protected:
  bool read(Request& request) override {
    std::string_view line;
    if (!next_line(line)) return false;
    split(line, columns_);
    if (columns_.size() != num_columns_) {
      lines().fail(
          "", std::to_string(num_columns_) + " columns, found " + std::to_string(columns_.size()));
    }
    clear(request);
    if (info_.timed) request.arrival_seconds = seconds(columns_[time_]);
    request.input_tokens = tokens(format_.input, columns_[input_]);
    request.output_tokens = tokens(format_.output, columns_[output_]);
    return true;
  }

 private:
  /// @return its position; past the end if it is not there and does not have to be
  [[nodiscard]] std::size_t find(const std::vector<std::string_view>& header,
                                 std::string_view column, bool required) const {
    const auto at = std::find(header.begin(), header.end(), column);
    if (at == header.end() && required) {
      lines().fail("header", "a column " + std::string(column) + " beside the others of " +
                                 std::string(format_.name) + ", found none");
    }
    return static_cast<std::size_t>(at - header.begin());
  }

  double seconds(std::string_view text) {
    const auto ticks = format_.parse_time(text);
    if (!ticks) {
      lines().fail(std::string(format_.time),
                   std::string(format_.time_kind) + ", found " + in_quotes(text));
    }
    if (!first_ticks_) first_ticks_ = previous_ticks_ = *ticks;
    if (*ticks < previous_ticks_) {
      lines().fail(std::string(format_.time),
                   "a time not before the previous line's, found " + in_quotes(text));
    }
    previous_ticks_ = *ticks;
    return static_cast<double>(*ticks - *first_ticks_) / static_cast<double>(kTicksPerSecond);
  }

  [[nodiscard]] std::int64_t tokens(std::string_view column, std::string_view text) const {
    std::int64_t value = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = code == std::errc() && end == text.data() + text.size();
    if (whole && value >= 0 && value <= options().max_tokens) return value;
    lines().fail(std::string(column), "an integer from 0 to " +
                                          std::to_string(options().max_tokens) + ", found " +
                                          in_quotes(text));
  }

  const CsvFormat& format_;
  std::size_t num_columns_;
  std::size_t time_, input_, output_;  // positions
  std::vector<std::string_view> columns_;
  std::optional<std::int64_t> first_ticks_;
  std::int64_t previous_ticks_ = 0;
};

}  // namespace

std::unique_ptr<RequestSource> open_csv_log(std::unique_ptr<LineReader> lines,
                                            std::string_view header, const LogOptions& options) {
  std::vector<std::string_view> columns;
  split(header.substr(0, 10'000), columns);
  std::string known;
  for (const CsvFormat& format : kCsvFormats) {
    if (std::find(columns.begin(), columns.end(), format.input) != columns.end()) {
      return std::make_unique<CsvSource>(std::move(lines), columns, format, options);
    }
    known += known.empty() ? "" : ", ";
    known += std::string(format.time) + ',' + std::string(format.input) + ',' +
             std::string(format.output);
  }
  lines->fail("", "a JSON object or a header such as " + known + "; found " + in_quotes(header));
}

}  // namespace kvproof::bench
