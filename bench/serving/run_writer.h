// SPDX-License-Identifier: Apache-2.0
// Writes what the simulated engine does as a run that `kvproof live` judges
// (properties/shadow/README.md): what its scheduler gives to a worker, and a worker that
// computes it.
//
// Model:   the worker runs a step when it is over, so that its reads and writes come as late as
//          they can. A step that is granted while one runs supposes that all drafts are accepted;
//          the worker begins its rows where they really end, which it knows when that one is over.
//          The answers are tokens that nobody else has, and a rejected draft is another one.
// Leaves out: what the allocator does, but for the tables; swaps.
#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reference/ids.h"

namespace kvproof::bench {

/// The token of an answer at that position. No other request has the same tokens: only a prompt
/// that spells its ids reuses an answer.
[[nodiscard]] constexpr TokenId answer_token(std::uint64_t request, std::uint32_t position) {
  return static_cast<TokenId>(~request * 0x9e3779b1U + position);
}

struct RunHeader {
  std::uint32_t block_size = 0;  // [tokens]
  std::uint32_t blocks = 0;      // with the null block
  std::uint32_t depth = 1;       // steps that the worker has at once
  std::uint32_t patience = 0;    // [steps]
  std::uint64_t seed = 0;
};

class RunWriter {
 public:
  /// Writes nothing.
  RunWriter() = default;
  /// @param out outlives this
  RunWriter(std::ostream& out, const RunHeader& header);

  struct Row {
    std::uint64_t request = 0;
    std::uint32_t start = 0;   // position of the first token
    std::uint32_t tokens = 0;  // without drafts
    std::uint32_t drafts = 0;
    bool answers = false;
  };

  // What the engine says, in its order.
  void arrive(std::uint64_t request, std::span<const TokenId> prompt);
  void hit(std::uint64_t request, std::uint32_t tokens);
  void grant(const Row& row, std::span<const BlockId> table);
  void dispatch();  // the rows that were granted
  void leave(std::string_view way, std::uint64_t request);
  void quiet();
  void raised(std::string_view what);  // and nothing else: a step that was ending is lost
  void end(std::uint64_t free_tokens);

  // The oldest step is over: between these two, what it sampled, and what the engine takes of it.
  void begin_retire();
  void sample(std::uint64_t request, std::uint32_t accepted_drafts);
  void take(std::uint64_t request, std::span<const TokenId> tokens);
  void end_retire();

 private:
  struct Granted {
    Row row;
    bool again = false;          // the worker has the first entries of the table
    std::vector<BlockId> table;  // the entries that it has not
    std::uint32_t accepted = 0;
    bool sampled = false;
    std::size_t known = 0;  // tokens of the request when the step runs
    bool gone = false;      // then

    [[nodiscard]] std::uint32_t end() const { return row.start + row.tokens; }  // of no draft
  };
  struct Step {
    std::uint64_t number = 0;
    std::vector<Granted> rows;
  };
  struct Asked {
    std::vector<TokenId> tokens;  // that the engine knows
    std::vector<BlockId> told;    // the table as the worker has it
    std::uint32_t rows = 0;       // in flight
    bool gone = false;
  };

  void write(const std::string& line);
  void write_dispatch(const Step& step);
  [[nodiscard]] std::vector<TokenId> inputs_of(const Granted& granted) const;
  void settle_drafts();
  void write_retired(const Step& step);

  std::ostream* out_ = nullptr;
  RunHeader header_;
  std::uint64_t num_granted_ = 0;  // steps
  std::vector<Granted> rows_;      // of the step that is being granted
  std::deque<Step> steps_;         // in flight
  std::string held_;               // lines behind a dispatch whose rows are not certain yet
  std::string taken_;              // lines behind the step that retires
  bool retiring_ = false;
  std::unordered_map<std::uint64_t, Asked> asked_;
};

}  // namespace kvproof::bench
