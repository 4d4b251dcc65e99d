// SPDX-License-Identifier: Apache-2.0
// The formats are rows of one table: the names of their fields, the unit of their time, and the
// meaning of their ids.
#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bench/requests/formats/id_layout.h"
#include "bench/requests/formats/json_line.h"
#include "bench/requests/formats/line_source.h"
#include "bench/requests/formats/log_readers.h"
#include "reference/mix64.h"

namespace kvproof::bench {
namespace {

enum class Ids {
  chained,  // an id stands for a block and everything before it, as allocators hash
  content,  // an id stands for the tokens of its block alone
  tokens,   // not ids but the tokens themselves
};

struct JsonlFormat {
  std::string_view name;
  std::string_view mark;  // a field that no format further down has
  std::string_view time, input, output, ids;
  std::string_view time_unit;
  double units_per_second;
  std::uint64_t max_time;
  JsonKind ids_kind;
  Ids ids_are;
  std::int64_t block_size;  // [tokens per id] as published; 0 = it differs from file to file
  bool tail_is_known;       // full blocks only; else partial or not, whichever fits
};

// Up to 2^53 units are exact in a double; nanoseconds since 1970 are known to 256 ns.
constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
constexpr std::uint64_t kAnyId = ~std::uint64_t{0};
constexpr std::array<JsonlFormat, 4> kJsonlFormats = {{
    {"rtp_llm_jsonl", "bh", "ts", "il", "ol", "bh", "a number of milliseconds >= 0", 1e3, kExact,
     JsonKind::decimal_strings, Ids::chained, 1024, true},
    {"llm_serving_sim_jsonl", "input_toks", "arrival_time_ns", "input_toks", "output_toks",
     "input_tok_ids", "a number of nanoseconds >= 0", 1e9, std::uint64_t{1} << 63,
     JsonKind::integers, Ids::tokens, 16, true},
    {"qwen_bailian_jsonl", "chat_id", "timestamp", "input_length", "output_length", "hash_ids",
     "a number of seconds >= 0", 1, kExact, JsonKind::integers, Ids::content, 16, false},
    {"mooncake_jsonl", "input_length", "timestamp", "input_length", "output_length", "hash_ids",
     "a number of milliseconds >= 0", 1e3, kExact, JsonKind::integers, Ids::chained, 0, false},
}};

enum LineField : std::size_t { kLineTime, kLineInput, kLineOutput, kLineIds, kNumLineFields };

/// Makes one id from the id of the block before and the id of this block. It takes no memory, and
/// equal ids are as rare as with any 64-bit hash: 3 in 10^6 that any two of 10^7 blocks collide.
std::uint64_t chain(std::uint64_t parent, std::uint64_t value) {
  return mix64(mix64(parent + kMixStep) + value);
}

class JsonlSource final : public LineSource {
 public:
  JsonlSource(std::unique_ptr<LineReader> lines, std::string_view first_line,
              const JsonlFormat& format, const LogOptions& options)
      : LineSource(std::move(lines), first_line, options),
        format_(format),
        fields_(fields_of(format, options)),
        reader_(fields_),
        layouts_(layouts_of(format, options)) {
    info_.format = format.name;
    look_ahead();
    info_.timed = present_[kLineTime];
    info_.ids_block_size = present_[kLineIds] ? layouts_.best().block_size : 0;
    info_.partial_tail = present_[kLineIds] && layouts_.best().partial_tail;
  }

 protected:
  bool read(Request& request) override {
    if (ahead_.empty()) return read_line(request);
    std::swap(request, ahead_.front());
    ahead_.pop_front();
    return true;
  }

 private:
  static std::vector<JsonField> fields_of(const JsonlFormat& format, const LogOptions& options) {
    const auto max_tokens = static_cast<std::uint64_t>(options.max_tokens);
    const std::string_view tokens = "an integer number of tokens";
    std::string_view ids = "an array of non-negative integers below 2^64";
    if (format.ids_kind == JsonKind::decimal_strings) {
      ids = "an array of strings that spell integers below 2^64";
    }
    return {{format.time, JsonKind::real, format.time_unit, format.max_time, false},
            {format.input, JsonKind::integer, tokens, max_tokens},
            {format.output, JsonKind::integer, tokens, max_tokens, false},
            {format.ids, format.ids_kind, ids, kAnyId, false}};
  }

  static IdLayouts layouts_of(const JsonlFormat& format, const LogOptions& options) {
    const std::int64_t size =
        options.ids_block_size > 0 ? options.ids_block_size : format.block_size;
    if (size == 0) return IdLayouts::any();
    if (format.tail_is_known) return IdLayouts({{size, false}});
    return IdLayouts({{size, true}, {size, false}});
  }

  /// Reads the first requests, until only one layout of their ids fits.
  void look_ahead() {
    constexpr std::size_t kMaxRequests = 64;
    constexpr std::size_t kMaxIds = std::size_t{1} << 20;
    std::size_t ids = 0;
    do {
      Request request;
      if (!read_line(request)) return;
      ids += request.block_ids.size();
      ahead_.push_back(std::move(request));
    } while (present_[kLineIds] && !layouts_.is_certain() && ahead_.size() < kMaxRequests &&
             ids < kMaxIds);
    layouts_ = IdLayouts({layouts_.best()});
  }

  bool read_line(Request& request) {
    std::string_view line;
    if (!next_line(line)) return false;
    const JsonObject& object = reader_.read(line, lines(), max_elements());
    check_presence(object);
    clear(request);
    if (present_[kLineTime]) request.arrival_seconds = seconds(object.real(kLineTime));
    request.input_tokens = object.integer(kLineInput);
    request.output_tokens = present_[kLineOutput] ? object.integer(kLineOutput) : 0;
    if (present_[kLineIds]) take_ids(object.list(kLineIds), request);
    return true;
  }

  [[nodiscard]] std::size_t max_elements() const {
    const std::int64_t size =
        format_.ids_are == Ids::tokens || !layouts_.is_certain() ? 1 : layouts_.best().block_size;
    return static_cast<std::size_t>(ceil_div(options().max_tokens, size));
  }

  /// The first line shows which of the fields a file has; all other lines must have the same.
  void check_presence(const JsonObject& object) {
    if (lines().line_number() == 1) {
      for (std::size_t i = 0; i < kNumLineFields; ++i) present_[i] = object.has(i);
    }
    for (std::size_t i = 0; i < kNumLineFields; ++i) {
      if (object.has(i) == present_[i]) continue;
      lines().fail(std::string(fields_[i].name),
                   present_[i] ? std::string(fields_[i].what) + ", found no such field"
                               : "no such field, as on the first line, found one");
    }
  }

  double seconds(double time) {
    if (lines().line_number() == 1) first_time_ = previous_time_ = time;
    if (time < previous_time_) {
      lines().fail(std::string(format_.time), "a time not before the previous line's " +
                                                  shortest(previous_time_) + ", found " +
                                                  shortest(time));
    }
    previous_time_ = time;
    return (time - first_time_) / format_.units_per_second;
  }

  void take_ids(const std::vector<std::uint64_t>& list, Request& request) {
    const auto count = static_cast<std::int64_t>(list.size());
    if (format_.ids_are == Ids::tokens) {
      if (count != request.input_tokens) {
        lines().fail(std::string(format_.ids),
                     std::to_string(request.input_tokens) + " tokens, as many as " +
                         std::string(format_.input) + ", found " + std::to_string(count));
      }
      chain_tokens(list, request);
      return;
    }
    if (!layouts_.narrow(request.input_tokens, count)) {
      lines().fail(std::string(format_.ids),
                   layouts_.best().wanted(request.input_tokens, format_.input) + "; found " +
                       std::to_string(count));
    }
    request.block_ids = list;
    if (format_.ids_are == Ids::chained) return;
    request.own_ids = list;
    std::uint64_t parent = 0;
    for (std::uint64_t& id : request.block_ids) parent = id = chain(parent, id);
  }

  void chain_tokens(const std::vector<std::uint64_t>& tokens, Request& request) {
    const auto size = static_cast<std::size_t>(layouts_.best().block_size);
    request.block_ids.clear();
    std::uint64_t id = 0;
    for (std::size_t i = 0; i + size <= tokens.size(); i += size) {
      std::uint64_t own = 0;
      for (std::size_t j = 0; j < size; ++j) id = chain(id, tokens[i + j]);
      for (std::size_t j = 0; j < size; ++j) own = chain(own, tokens[i + j]);
      request.block_ids.push_back(id);
      request.own_ids.push_back(own);
    }
  }

  const JsonlFormat& format_;
  std::vector<JsonField> fields_;
  JsonLineReader reader_;
  IdLayouts layouts_;
  std::array<bool, kNumLineFields> present_{};
  std::deque<Request> ahead_;
  double first_time_ = 0;
  double previous_time_ = 0;
};

}  // namespace

std::unique_ptr<RequestSource> open_jsonl_log(std::unique_ptr<LineReader> lines,
                                              std::string_view first_line,
                                              const LogOptions& options) {
  const std::vector<std::string> names = json_field_names(first_line);
  const auto has = [&names](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("sub_requests")) {
    lines->fail("sub_requests", "requests with times of their own; a chain has none");
  }
  const JsonlFormat* format = nullptr;
  for (const JsonlFormat& row : kJsonlFormats) {
    if (format == nullptr && has(row.mark)) format = &row;
  }
  const JsonlFormat& mooncake = kJsonlFormats.back();
  if (format == nullptr && !names.empty() && !has(mooncake.time) && !has(mooncake.ids)) {
    lines->fail(
        "",
        "a request of one of the formats of bench/requests/formats/README.md, found the field " +
            in_quotes(names.front()) +
            R"(; the least is {"timestamp": ms, "input_length": n, "output_length": n, )"
            R"("hash_ids": [...]})");
  }
  if (format == nullptr) format = &mooncake;  // its loader names the field that is missing
  return std::make_unique<JsonlSource>(std::move(lines), first_line, *format, options);
}

}  // namespace kvproof::bench
