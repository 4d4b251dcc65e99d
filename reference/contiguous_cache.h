// SPDX-License-Identifier: Apache-2.0
// What paging replaced: one buffer per request out of one arena, first fit, free runs coalesced.
//
// Model:   the arena is [0, capacity) tokens; each request owns one run that is at least as long as
//          its tokens; the gaps between runs are the free list. A request that outgrows its run
//          moves.
// Source:  the baselines of Kwon et al., SOSP'23, sec. 3.1 and 6.1 (arXiv:2309.06180): Orca (Max),
//          Orca (Pow2), Orca (Oracle); grow-and-copy is the std::vector of the family.
// Leaves out: sharing, eviction, compaction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kvproof::reference {

/// How many tokens a request reserves before it has produced them.
enum class Reservation {
  max_length,     // the longest that the model may produce
  power_of_two,   // the next power of two of its tokens now; it doubles and moves when it must grow
  oracle,         // exactly the final length, as if it were known
  grow_and_copy,  // exactly its tokens now; it moves when the run behind it is taken
};

[[nodiscard]] std::string_view to_string(Reservation policy);

/// A run of tokens of the arena.
struct Run {
  std::uint64_t offset = 0;  // [tokens]
  std::uint64_t length = 0;  // [tokens]
};

/// Memory by cause at one moment. All in tokens.
struct ContiguousUsage {
  std::uint64_t capacity = 0;
  std::uint64_t reserved = 0;        // sum of run lengths
  std::uint64_t used = 0;            // tokens that exist
  std::uint64_t internal_waste = 0;  // reserved - used
  std::uint64_t free = 0;            // capacity - reserved
  std::uint64_t largest_free_run = 0;
  std::uint64_t moved = 0;  // tokens copied by moves, since construction
  /// 1 - largest free run / total free; 0 when nothing is free.
  [[nodiscard]] double external_fragmentation() const;
};

class ContiguousCache {
 public:
  /// @param capacity [tokens] of the arena. @param max_length [tokens] that a request may reach.
  ContiguousCache(std::uint64_t capacity, std::uint64_t max_length, Reservation policy);

  /// Reserves a run for a request with `tokens` tokens now and `final_tokens` at its end (only the
  /// oracle reads it). @return false, with nothing changed, when no free run is long enough.
  /// @pre `name` is unknown and 0 < tokens <= final_tokens <= max_length
  [[nodiscard]] bool insert(const std::string& name, std::uint64_t tokens,
                            std::uint64_t final_tokens);

  /// Lengthens a request to `tokens`: in place if the run behind it is free, else it moves.
  /// @return false, with nothing changed, if neither works. @pre known, not shorter than it is now
  [[nodiscard]] bool extend(const std::string& name, std::uint64_t tokens);

  /// Releases the run of a request. @pre known
  void erase(const std::string& name);

  /// Where the request's tokens lie now; nullopt when unknown.
  [[nodiscard]] std::optional<Run> find(const std::string& name) const;

  [[nodiscard]] ContiguousUsage usage() const;

  /// Called with (from, to) whenever a run moves, so that the owner of the bytes can copy them.
  struct Move {
    Run from;
    Run to;
  };
  [[nodiscard]] const std::optional<Move>& last_move() const { return last_move_; }

 private:
  struct Owned {
    Run run;
    std::uint64_t used = 0;
  };

  [[nodiscard]] std::uint64_t wanted(std::uint64_t tokens, std::uint64_t final_tokens) const;
  [[nodiscard]] std::optional<Run> take(std::uint64_t length);
  bool take_behind(const Run& run, std::uint64_t extra);
  void give(Run run);

  std::uint64_t capacity_;
  std::uint64_t max_length_;
  Reservation policy_;
  std::map<std::uint64_t, std::uint64_t> free_runs_;  // offset -> length, never adjacent
  std::map<std::string, Owned> requests_;
  std::uint64_t moved_ = 0;
  std::optional<Move> last_move_;
};

}  // namespace kvproof::reference
