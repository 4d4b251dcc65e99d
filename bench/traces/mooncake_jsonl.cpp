// SPDX-License-Identifier: Apache-2.0
// Reads a line of a Mooncake trace in one pass of nlohmann's SAX parser, straight into a Request.
#include "bench/traces/mooncake_jsonl.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "reference/ids.h"

namespace kvproof::bench {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;  // unknown fields may nest, but not without bound

enum Field : std::size_t { kTimestamp, kInputLength, kOutputLength, kHashIds, kNumFields };
constexpr std::array<std::string_view, kNumFields> kFieldNames = {"timestamp", "input_length",
                                                                  "output_length", "hash_ids"};
constexpr std::array<std::string_view, kNumFields> kFieldKinds = {
    "a whole number of milliseconds >= 0", "an integer number of tokens",
    "an integer number of tokens", "an array of non-negative integers below 2^64"};

/// Collects one line. Every callback returns false once `expected` is set, which ends the parse.
class LineHandler final : public nlohmann::json_sax<Json> {
 public:
  LineHandler(std::int64_t max_tokens, std::vector<std::uint64_t>& block_ids)
      : max_tokens_(max_tokens), block_ids_(block_ids) {
    block_ids_.clear();
  }

  [[nodiscard]] std::int64_t value(Field field) const { return values_[field]; }
  [[nodiscard]] bool seen(Field field) const { return seen_[field]; }
  [[nodiscard]] std::string field() const {
    return field_ == kNumFields ? std::string() : std::string(kFieldNames[field_]);
  }
  [[nodiscard]] const std::string& expected() const { return expected_; }

  bool null() override { return other("null"); }
  bool boolean(bool /*value*/) override { return other("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return value < 0 ? other(std::to_string(value)) : number(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return number(value); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return other(text); }
  bool string(string_t& value) override { return other(properties::in_quotes(value)); }
  bool binary(binary_t& /*value*/) override { return other("binary data"); }

  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == 0) return enter();
    return other("an object") && enter();
  }
  bool start_array(std::size_t /*elements*/) override {
    const bool is_hash_ids = depth_ == 1 && field_ == kHashIds;
    return (is_hash_ids || other("an array")) && enter();
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    field_ = kNumFields;
    for (std::size_t i = 0; i < kNumFields; ++i) {
      if (name == kFieldNames[i]) field_ = static_cast<Field>(i);
    }
    if (field_ == kNumFields) return true;
    if (seen_[field_]) return fail("this field once, found it twice");
    seen_[field_] = true;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    // Of "[id] parse error at line 1, column 9: cause" or "[id] cause", the cause alone helps.
    std::string_view text = error.what();
    for (const std::string_view before_cause : {"] ", "column", ": "}) {
      const std::size_t at = text.find(before_cause);
      if (at == std::string_view::npos) break;
      text.remove_prefix(at + before_cause.size());
    }
    return fail("valid JSON, found at byte " + std::to_string(position) + ": " +
                properties::printable(text, 120));
  }

 private:
  bool fail(std::string expected) {
    expected_ = std::move(expected);
    return false;
  }

  bool enter() {
    if (depth_ == kMaxDepth) {
      return fail("at most " + std::to_string(kMaxDepth) + " levels of nesting");
    }
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    if (depth_ <= 1) field_ = kNumFields;
    return true;
  }

  /// A value that none of our fields may have; elsewhere it is welcome and ignored.
  bool other(const std::string& found) {
    if (depth_ == 0) return fail("a JSON object, found " + found);
    if (field_ == kNumFields) return true;
    return fail(std::string(kFieldKinds[field_]) + ", found " + properties::printable(found, 80));
  }

  bool number(std::uint64_t value) {
    if (depth_ == 0 || field_ == kNumFields) return other(std::to_string(value));
    if (field_ == kHashIds) {
      if (depth_ != 2) return other(std::to_string(value));
      if (block_ids_.size() >= static_cast<std::size_t>(max_ids())) {
        return fail("at most " + std::to_string(max_ids()) + " ids, found more");
      }
      block_ids_.push_back(value);
      return true;
    }
    const bool is_time = field_ == kTimestamp;
    const std::uint64_t max =
        is_time ? std::uint64_t{kMaxTimestampMs} : static_cast<std::uint64_t>(max_tokens_);
    if (value > max) {
      return fail("an integer from 0 to " + std::to_string(max) + ", found " +
                  std::to_string(value));
    }
    values_[field_] = static_cast<std::int64_t>(value);
    field_ = kNumFields;
    return true;
  }

  [[nodiscard]] std::int64_t max_ids() const { return ceil_div(max_tokens_, kMooncakeBlockTokens); }

  // Up to here milliseconds are exact in a double: 285,000 years.
  static constexpr std::int64_t kMaxTimestampMs = std::int64_t{1} << 53;

  std::int64_t max_tokens_;
  std::vector<std::uint64_t>& block_ids_;
  std::array<std::int64_t, kNumFields> values_{};
  std::array<bool, kNumFields> seen_{};
  Field field_ = kNumFields;  // the one of ours whose value is being read
  int depth_ = 0;
  std::string expected_;
};

class MooncakeSource final : public RequestSource {
 public:
  MooncakeSource(std::unique_ptr<properties::LineReader> lines, std::string_view first_line,
                 TraceLimits limits)
      : lines_(std::move(lines)), line_(first_line), limits_(limits) {
    info_ = {lines_->path(), "mooncake_jsonl", kMooncakeBlockTokens, true};
  }

  [[nodiscard]] const TraceInfo& info() const override { return info_; }
  [[nodiscard]] double fraction() const override { return lines_->fraction_read(); }

  bool next(Request& request) override {
    if (next_index_ != 0 && !lines_->next(line_)) return false;
    LineHandler handler(limits_.max_tokens, request.block_ids);
    parse(handler);
    const std::int64_t timestamp_ms = handler.value(kTimestamp);
    if (next_index_ == 0) first_ms_ = previous_ms_ = timestamp_ms;
    if (timestamp_ms < previous_ms_) {
      lines_->fail("timestamp", "a time not before the previous line's " +
                                    std::to_string(previous_ms_) + " ms, found " +
                                    std::to_string(timestamp_ms));
    }
    previous_ms_ = timestamp_ms;
    request.index = next_index_++;
    request.arrival_seconds = static_cast<double>(timestamp_ms - first_ms_) / 1000.0;
    request.input_tokens = handler.value(kInputLength);
    request.output_tokens = handler.value(kOutputLength);
    check_ids(request);
    return true;
  }

 private:
  void parse(LineHandler& handler) const {
    if (line_.empty()) lines_->fail("", "a JSON object, found an empty line");
    // The parser takes a NUL byte for the end of its input, which would hide what follows.
    if (line_.find('\0') != std::string_view::npos) {
      lines_->fail("", "JSON text, found a NUL byte");
    }
    const char* begin = line_.data();
    if (!Json::sax_parse(begin, begin + line_.size(), &handler)) {
      lines_->fail(handler.field(), handler.expected());
    }
    for (std::size_t i = 0; i < kNumFields; ++i) {
      if (!handler.seen(static_cast<Field>(i))) {
        lines_->fail(std::string(kFieldNames[i]),
                     std::string(kFieldKinds[i]) + ", found no such field");
      }
    }
  }

  void check_ids(const Request& request) const {
    const std::int64_t wanted = ceil_div(request.input_tokens, kMooncakeBlockTokens);
    if (static_cast<std::int64_t>(request.block_ids.size()) == wanted) return;
    lines_->fail("hash_ids",
                 std::to_string(wanted) + " ids for the " + std::to_string(request.input_tokens) +
                     " tokens of input_length, found " + std::to_string(request.block_ids.size()));
  }

  std::unique_ptr<properties::LineReader> lines_;
  std::string_view line_;
  TraceLimits limits_;
  TraceInfo info_;
  std::uint64_t next_index_ = 0;
  std::int64_t first_ms_ = 0;
  std::int64_t previous_ms_ = 0;
};

}  // namespace

bool looks_like_mooncake_jsonl(std::string_view first_line) {
  const std::size_t start = first_line.find_first_not_of(" \t");
  return start != std::string_view::npos && first_line[start] == '{';
}

std::unique_ptr<RequestSource> open_mooncake_jsonl(std::unique_ptr<properties::LineReader> lines,
                                                   std::string_view first_line,
                                                   TraceLimits limits) {
  return std::make_unique<MooncakeSource>(std::move(lines), first_line, limits);
}

}  // namespace kvproof::bench
