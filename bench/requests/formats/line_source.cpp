// SPDX-License-Identifier: Apache-2.0
#include "bench/requests/formats/line_source.h"

#include <string>
#include <utility>

namespace kvproof::bench {

LineSource::LineSource(std::unique_ptr<LineReader> lines, std::string_view first_line,
                       const LogOptions& options)
    : lines_(std::move(lines)), first_line_(first_line), options_(options) {
  info_.name = lines_->path();
}

bool LineSource::next_line(std::string_view& line) {
  if (first_line_.empty()) return lines_->next(line);
  line = std::exchange(first_line_, {});
  return true;
}

void LineSource::clear(Request& request) {
  request.arrival_seconds = 0;
  request.block_ids.clear();
  request.own_ids.clear();
  request.session = 0;
  request.agent = 0;
  request.after.clear();
}

bool LineSource::leaves_out(const Request& request) {
  std::uint64_t* reason = nullptr;
  if (options_.max_context > 0 &&
      request.input_tokens + request.output_tokens > options_.max_context) {
    reason = &left_out_.over_context;
  }
  if (options_.skip_zero_output && request.output_tokens == 0) reason = &left_out_.zero_output;
  if (options_.skip_zero_input && request.input_tokens == 0) reason = &left_out_.zero_input;
  if (reason == nullptr) return false;
  ++*reason;
  return true;
}

bool LineSource::next(Request& request) {
  for (;;) {
    if (!read(request)) break;
    if (leaves_out(request)) continue;
    if (next_index_ == 0) first_seconds_ = request.arrival_seconds;
    request.arrival_seconds -= first_seconds_;
    request.index = next_index_++;
    on_numbered(request);
    return true;
  }
  if (next_index_ != 0) return false;
  if (left_out_.total() == 0) {
    lines_->fail("", "at least one request, found the end of the file");
  }
  lines_->fail("", "a request that the filters keep, found " + std::to_string(left_out_.total()) +
                       " that they leave out");
}

}  // namespace kvproof::bench
