// SPDX-License-Identifier: Apache-2.0
// Shared by all loaders of logs: the lines, the filters, the numbering and the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "bench/requests/open_log.h"
#include "bench/requests/request.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {

class LineSource : public RequestSource {
 public:
  [[nodiscard]] const SourceInfo& info() const final { return info_; }
  [[nodiscard]] double fraction() const final { return lines_->fraction_read(); }
  [[nodiscard]] LeftOut left_out() const final { return left_out_; }
  [[nodiscard]] bool next(Request& request) final;

 protected:
  /// @param first_line a line that was read already and is the first to be handed out; empty if
  ///        none was
  LineSource(std::unique_ptr<LineReader> lines, std::string_view first_line,
             const LogOptions& options);

  /// Produces the next request of the file, with arrival_seconds counted from any instant that
  /// stays the same; false at the end, with `request` as it was.
  [[nodiscard]] virtual bool read(Request& request) = 0;

  /// Called with a request that passed the filters and has its index.
  virtual void on_numbered(Request& /*request*/) {}

  static void clear(Request& request);  // of everything but its lengths and its index
  [[nodiscard]] bool next_line(std::string_view& line);
  [[nodiscard]] const LineReader& lines() const { return *lines_; }
  [[nodiscard]] const LogOptions& options() const { return options_; }
  /// Counts the request as left out if a filter says so.
  [[nodiscard]] bool leaves_out(const Request& request);

  SourceInfo info_;

 private:
  std::unique_ptr<LineReader> lines_;
  std::string_view first_line_;
  LogOptions options_;
  LeftOut left_out_;
  std::uint64_t next_index_ = 0;
  double first_seconds_ = 0;
};

}  // namespace kvproof::bench
