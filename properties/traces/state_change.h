// SPDX-License-Identifier: Apache-2.0
// The fields of a recorded state as differences from what the lines before suggest (packed.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvproof::properties {

/// The columns of a packed folder, in the order in which a line has them. The fields of a state
/// begin at `free`.
enum class Column {
  operation,
  tokens,
  out,
  events,
  free,
  keys,
  usage,
  crc,
  queue,
  ref,
  cached,
  tables,
  progress,
  lens
};
inline constexpr std::array kColumnNames = {"operation", "tokens", "out",      "events", "free",
                                            "keys",      "usage",  "crc",      "queue",  "ref",
                                            "cached",    "tables", "progress", "lens"};
inline constexpr std::size_t kNumColumns = kColumnNames.size();

/// One line of every column.
struct PackedLine {
  std::array<std::string, kNumColumns> text;  // empty: the line lacks this field
  std::string& operator[](Column column) { return text[static_cast<std::size_t>(column)]; }
  const std::string& operator[](Column column) const {
    return text[static_cast<std::size_t>(column)];
  }
};

/// Turns recorded lines into packed ones and back; one object for each direction, in the order of
/// the lines.
class StateChanges {
 public:
  /// @throws TextError for a line that is no line of a trace
  [[nodiscard]] PackedLine pack(std::string_view line);
  /// @throws TextError for a difference that does not fit
  [[nodiscard]] std::string unpack(const PackedLine& packed);

 private:
  using Json = nlohmann::ordered_json;
  using Ids = std::vector<std::uint32_t>;
  using Pair = std::array<std::uint32_t, 2>;
  using Pairs = std::vector<Pair>;
  using Tables = std::vector<Ids>;

  /// What is known of a line before its state is.
  struct Step {
    std::string op;
    std::string req;  // empty: none
    bool use_lookup = false;
    Json out;
    Json events;
  };

  void begin(const Json& header);  // forgets the trace before
  [[nodiscard]] static Step step_of(const Json& line);
  void learn(const Step& step);  // remembers what a lookup found
  void pack_requests(const Step& step, const Json& state, Column column, PackedLine& packed);
  void pack_state(const Step& step, const Json& state, PackedLine& packed);
  [[nodiscard]] std::string unpack_requests(const Step& step, const PackedLine& packed,
                                            Column column);
  [[nodiscard]] std::string unpack_state(const Step& step, const PackedLine& packed);

  [[nodiscard]] Tables expected_tables(const Step& step, const std::string& req) const;
  [[nodiscard]] Pairs expected_ref() const;
  [[nodiscard]] Ids expected_queue() const;
  [[nodiscard]] Pairs expected_cached(const Step& step) const;
  [[nodiscard]] std::string expected_usage() const;
  void for_each_list(const Step& step, const auto& each, const auto& has);
  void set_tables(const std::string& req, Tables tables);
  void drop_tables(const Step& step);

  // What the lines of this trace have said so far.
  std::uint32_t num_blocks_ = 0;
  std::size_t num_groups_ = 0;
  std::map<std::string, Tables> tables_;         // the blocks that each request holds
  std::map<std::string, Tables> hits_;           // what the last lookup of each request found
  std::map<std::string, std::string> progress_;  // by request, as text
  std::map<std::string, std::string> lens_;      // by request, as text
  std::map<Column, std::string> words_;          // the last `free` and `keys`, as text
  std::map<std::uint32_t, std::int64_t> moved_;  // how many table entries a block gained since ref_
  std::array<std::uint32_t, 3> crc_{};           // the last checksums
  Ids queue_;                                    // the last free queue, head first
  Pairs ref_;                                    // the last reference counts
  Pairs cached_;                                 // the last blocks of the index, with their groups
  std::vector<Json> cached_events_;              // the events since cached_ was last recorded
};

}  // namespace kvproof::properties
