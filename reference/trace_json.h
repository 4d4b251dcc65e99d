// SPDX-License-Identifier: Apache-2.0
// The text form of the alphabet: JSON Lines, one header, one operation a line, one end line.
//
// A recorded trace also carries the answers of the recorded allocator (out, events) and its state
// after each operation; replaying compares them. Unknown keys are ignored; a wrong value is a
// TextError that names the field and what was expected.
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
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof {

/// One line of a trace could not be read. A field that is empty means the line as a whole.
class TextError : public std::runtime_error {
 public:
  TextError(std::string field, std::string expected)
      : std::runtime_error((field.empty() ? "" : "field " + field + ": ") + "expected " + expected),
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
  std::string name;        // of a scenario; empty otherwise
  std::string subject;     // the allocator that a failure was found in; empty otherwise
  std::string detail;      // how much of the state is written; empty: as in `full`
  bool has_events = true;  // a line without events had none
  std::vector<std::string> newer_policies;  // behaviour tags newer than the profile's version
  CacheConfig config;
  std::string unsupported;  // why `config` does not say everything; empty if it does
};

/// The key that a block carries.
struct KeyOfBlock {
  BlockId block = 0;
  std::uint64_t key = 0;
  std::uint32_t prefix_tokens = 0;
};

/// A pool of blocks as a recording describes it. Absent parts are not compared.
struct RecordedPool {
  using Pairs = std::vector<std::array<std::uint32_t, 2>>;

  std::optional<std::uint32_t> num_free;
  std::optional<std::uint32_t> num_keys;
  std::optional<double> usage;
  std::optional<std::vector<BlockId>> queue;           // head to tail
  std::optional<std::vector<BlockId>> queue_backward;  // only if it is not `queue` reversed
  std::optional<std::vector<BlockId>> linked;    // blocks whose links say that they are queued
  std::optional<Pairs> ref;                      // [id, count], count > 0, ascending
  std::optional<Pairs> cached;                   // [id, group], ascending
  std::optional<std::vector<KeyOfBlock>> key;    // [id, key, tokens that it covers]
  std::optional<std::vector<KeyOfBlock>> tail;   // [id, key]: second keys
  std::optional<std::vector<IndexEntry>> index;  // [group, key, [ids]]
};

/// The state after an operation as a recording describes it.
struct RecordedState : RecordedPool {
  template <class Value>
  using PerRequest = std::map<std::string, Value>;
  using Tables = PerRequest<std::vector<std::vector<BlockId>>>;

  Tables tables;
  PerRequest<std::vector<std::optional<std::uint32_t>>> progress;
  PerRequest<std::vector<std::uint32_t>> lengths;
  PerRequest<std::uint32_t> tokens;
  PerRequest<std::uint32_t> computed;
  PerRequest<std::vector<std::uint64_t>> hashes;  // one per complete hash unit
  Tables host_tables;
  PerRequest<std::vector<ReadBack>> contents;
  std::optional<std::vector<BlockId>> raw;
  std::optional<std::vector<BlockId>> copying;
  std::optional<std::vector<LeaseState>> leases;
  std::optional<RecordedPool> host;
  std::optional<HitCounters> counters;              // [lookups, lookup_tokens, hit_tokens]
  std::optional<std::array<std::uint32_t, 3>> crc;  // CRC-32 of queue, ref, cached as LE words
  std::vector<std::string> fields;                  // the names of the fields that it has
};

/// The fields of a line that are checksums of the state, in place of the state itself.
inline constexpr const char* kCheckNames[] = {"pool_check", "lens_check", "table_check",
                                              "tables_check"};

struct TraceLine {
  enum class Kind { header, operation, lost, end };
  Kind kind = Kind::operation;
  TraceHeader header;            // header
  Operation operation;           // operation
  std::optional<Result> result;  // recorded `out`, typed by the operation; absent = none recorded
  std::optional<std::vector<Event>> events;
  std::optional<RecordedState> state;
  std::map<std::string, std::string> checks;  // of kCheckNames
  bool lists_events = false;                  // it has the field `events`, even if empty
  std::string unsupported;           // the reason if the subject did not perform the operation
  std::string raised;                // what the call threw in the engine; empty = nothing
  std::string lost;                  // lost: why lines are missing from here on
  std::uint64_t num_operations = 0;  // end
};

/// Reads one line of a trace. @throws TextError
[[nodiscard]] TraceLine parse_trace_line(std::string_view line);

/// Reads the answer of a foreign allocator to an operation: the results as in a recording, or
/// {"unsupported":true,"reason":...}. @throws TextError
[[nodiscard]] TraceLine parse_answer(const Operation& operation, std::string_view line);

/// One line each, without the newline.
[[nodiscard]] std::string to_json(const TraceHeader& header);
[[nodiscard]] std::string to_json(const Operation& operation);
[[nodiscard]] std::string to_json(const Outcome& outcome);
/// A recording: the same line with the answer and the whole state afterwards.
[[nodiscard]] std::string to_json(const Operation& operation, const Outcome& outcome,
                                  const Snapshot& state);
/// The answer of a foreign allocator: the outcome and every part of the state.
[[nodiscard]] std::string to_json(const Outcome& outcome, const Snapshot& state);
[[nodiscard]] std::string end_line(std::uint64_t num_operations);

}  // namespace kvproof
