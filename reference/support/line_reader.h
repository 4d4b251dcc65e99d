// SPDX-License-Identifier: Apache-2.0
// The one way to read lines of a plain, gzip or zstd file: streaming, in bounded memory.
//
// The compression is recognised by the first bytes, never by the name, so a pipe works as well.
// Gzip files may have several members, zstd files several frames. Refuses, as an InputError that
// names the line reached: a file cut short, a failed checksum, a line or a zstd window over its
// limit, anything that is not a readable file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/support/input_error.h"

namespace kvproof {

struct LineReaderLimits {
  std::size_t max_line_bytes = std::size_t{64} << 20;  // without the line ending
  int max_window_log = 27;  // a zstd frame may ask for at most 2^27 bytes = 128 MiB of history
  double idle_seconds = 0;  // a file that is being written ends when it has not grown for so long
};

/// A stream of decoded bytes; one implementation for each compression, in line_reader.cpp.
class ByteDecoder;

class LineReader {
 public:
  /// Opens the file and reads its first bytes. Throws InputError (line 0) if it cannot be read.
  explicit LineReader(std::string path, LineReaderLimits limits = {});
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  /// Moves to the next line; false at the end of the file. The view holds the line without its
  /// "\n" or "\r\n", the first one without its byte order mark, and stays valid until the next
  /// call. A last line without a line ending counts; NUL bytes are data.
  [[nodiscard]] bool next(std::string_view& line);

  /// @return whether the line has its ending; only the last one may lack it
  [[nodiscard]] bool line_ended() const { return line_ended_; }
  [[nodiscard]] std::uint64_t line_number() const { return line_number_; }  // from 1; 0 at first
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Share of the stored (compressed) bytes taken in so far, 0 to 1, for a progress bar. 0 where
  /// the size is not known, as for a pipe.
  [[nodiscard]] double fraction_read() const;

  /// Throws the InputError of the current line.
  [[noreturn]] void fail(std::string field, std::string expected) const;

 private:
  bool fill();  // appends decoded bytes to the buffer; false at the end

  std::string path_;
  LineReaderLimits limits_;
  std::unique_ptr<ByteDecoder> decoder_;
  std::vector<char> buffer_;  // decoded bytes; [begin_, end_) are not handed out yet
  std::size_t begin_ = 0;     // [bytes]
  std::size_t end_ = 0;       // [bytes]
  std::uint64_t line_number_ = 0;
  bool line_ended_ = false;
  bool ended_ = false;
};

}  // namespace kvproof
