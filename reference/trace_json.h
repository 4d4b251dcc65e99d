// SPDX-License-Identifier: Apache-2.0
// The text form of the alphabet: JSON Lines, one header, one operation a line, one end line.
//
// A recorded trace also carries what the recorded allocator answered (out, events) and the state it
// was left in; replaying compares them. Unknown keys are ignored; a wrong value is a TextError that
// names the field and what was expected.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof {

/// One line of a trace could not be read.
class TextError : public std::runtime_error {
 public:
  TextError(std::string field, std::string expected)
      : std::runtime_error("field " + field + ": expected " + expected),
        field_(std::move(field)),
        expected_(std::move(expected)) {}
  [[nodiscard]] const std::string& field() const { return field_; }
  [[nodiscard]] const std::string& expected() const { return expected_; }

 private:
  std::string field_;
  std::string expected_;
};

struct TraceHeader {
  std::string recorded_from;
  std::string family;
  std::uint64_t seed = 0;
  std::string name;     // of a scenario; empty otherwise
  std::string subject;  // the allocator that a failure was found in; empty otherwise
  std::vector<std::string> newer_policies;  // behaviour tags newer than the profile's version
  CacheConfig config;
  std::string unsupported;  // why `config` is not the whole of it; empty when it is
};

/// What a recording says of the state after an operation. Absent parts are not compared.
struct RecordedState {
  using Tables = std::map<std::string, std::vector<std::vector<BlockId>>>;
  using Progress = std::map<std::string, std::vector<std::optional<std::uint32_t>>>;
  using Lengths = std::map<std::string, std::vector<std::uint32_t>>;
  using Pairs = std::vector<std::array<std::uint32_t, 2>>;

  std::optional<std::uint32_t> num_free;
  std::optional<std::uint32_t> num_keys;
  std::optional<double> usage;
  std::optional<std::vector<BlockId>> queue;  // head to tail
  std::optional<Pairs> ref;                   // [id, count], count > 0, ascending
  std::optional<Pairs> cached;                // [id, group], ascending
  Tables tables;
  Progress progress;
  Lengths lengths;
  std::optional<std::array<std::uint32_t, 3>> crc;  // CRC-32 of queue, ref, cached as LE words
};

struct TraceLine {
  enum class Kind { header, operation, end };
  Kind kind = Kind::operation;
  TraceHeader header;            // header
  Operation operation;           // operation
  std::optional<Result> result;  // recorded `out`, typed by the operation; absent = none recorded
  std::optional<std::vector<Event>> events;
  std::optional<RecordedState> state;
  std::uint64_t num_operations = 0;  // end
};

/// Reads one line of a trace. @throws TextError
[[nodiscard]] TraceLine parse_trace_line(std::string_view line);

/// One line each, without the newline.
[[nodiscard]] std::string to_json(const TraceHeader& header);
[[nodiscard]] std::string to_json(const Operation& operation);
[[nodiscard]] std::string to_json(const Outcome& outcome);
/// The same with what was answered and the whole state afterwards: a recording.
[[nodiscard]] std::string to_json(const Operation& operation, const Outcome& outcome,
                                  const Snapshot& state);
[[nodiscard]] std::string end_line(std::uint64_t num_operations);

}  // namespace kvproof
