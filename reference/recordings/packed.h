// SPDX-License-Identifier: Apache-2.0
// Recordings of real engines as a folder of columns, a twentieth of their size as text.
//
// A packed folder holds one file for each of the fields whose values are long (tokens, out, state),
// and `operation` for the lines themselves, in which a zero stands in place of such a value. The
// values of a column follow one another in the order of the lines that have one; a value that
// equals the one before in its column is the single character `=`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/support/line_reader.h"

namespace kvproof::properties {

/// Reads the traces of a packed folder as lines of text.
///
/// Refuses, as an InputError: a column that is missing or has not one value for each zero.
class PackedReader {
 public:
  /// @throws InputError
  explicit PackedReader(const std::string& folder);
  ~PackedReader();

  /// The next line as it was recorded; false at the end. @throws InputError
  [[nodiscard]] bool next(std::string& line);

  [[nodiscard]] std::uint64_t line_number() const;  // from 1; 0 at first
  [[nodiscard]] double fraction_read() const;       // 0 to 1
  [[noreturn]] void fail(std::string field, std::string expected) const;

 private:
  struct Columns;
  std::unique_ptr<Columns> columns_;
};

/// The lines of a trace file, or of a packed folder.
class TraceLines {
 public:
  /// @throws InputError
  explicit TraceLines(const std::string& path, const LineReaderLimits& limits = {});

  /// The view is valid until the next call. @throws InputError
  [[nodiscard]] bool next(std::string_view& line);
  [[nodiscard]] std::uint64_t line_number() const;
  [[nodiscard]] double fraction_read() const;
  [[noreturn]] void fail(std::string field, std::string expected) const;

 private:
  std::optional<LineReader> plain_;
  std::unique_ptr<PackedReader> packed_;
  std::string line_;  // of packed_
};

/// Packs the traces of files into a new folder, which appears when it is complete.
/// Refuses, as an InputError: a line that would not come back byte for byte, a folder that exists.
void pack_traces(const std::vector<std::string>& files, const std::string& folder);

/// Writes each trace of files and packed folders into a new folder as a file
/// PROFILE/FAMILY-SEED.jsonl, or PROFILE/NAME.jsonl for one that has a name and no seed; "-2" and
/// so on behind a name that is taken. @return how many
/// Refuses, as an InputError: what cannot be read, a folder that exists.
std::uint64_t unpack_traces(const std::vector<std::string>& files, const std::string& folder);

}  // namespace kvproof::properties
