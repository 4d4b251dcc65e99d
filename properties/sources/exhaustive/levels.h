// SPDX-License-Identifier: Apache-2.0
// The states that a breadth-first search has met, level by level, in memory up to a limit and on
// disk beyond it.
//
// Model:   without a limit a table holds the fingerprints of all states. With one it only knows
//          what was met lately: what it lets through is sorted and kept in runs, which are merged
//          at the end of a level. What stands in no run of the levels before is new and becomes a
//          run of its own. States are numbered in the same way with a limit and without: by the
//          number of the state before them, then by the operation between.
// Checked: each merge counts what it reads, so a run that is lost ends the search.
// Source:  delayed duplicate detection: Stern and Dill, Using magnetic disk instead of main memory
//          in the Murphi verifier, CAV'98.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "properties/sources/exhaustive/fingerprint_set.h"
#include "properties/sources/exhaustive/tape.h"
#include "reference/support/say.h"

namespace kvproof::properties::exhaustive {

template <class Key>
class Levels {
 public:
  /// A state that an operation leads to.
  struct Found {
    Key key;
    std::uint64_t step = 0;  // step_of()
    auto operator<=>(const Found&) const = default;
  };
  [[nodiscard]] static constexpr std::uint64_t step_of(std::uint64_t from, std::uint8_t choice) {
    return from << 8 | choice;
  }

  /// @param limit_bytes of memory, 0 = none. It is kept if it is 16 MiB or more, and so many times
  ///        32 KiB are more than the runs of a level.
  explicit Levels(std::uint64_t limit_bytes)
      : most_table_bytes_(limit_bytes > 0 ? limit_bytes / 8 : kNoLimit),
        most_on_tape_(limit_bytes > 0 ? limit_bytes / 32 / sizeof(Found) + 1 : kNoLimit) {}

  /// Whether a state was met before; it may say no to one that is on disk. Any number of threads
  /// may ask while none enters.
  [[nodiscard]] bool contains(const Key& key) const { return table_.contains(key); }

  /// Comes in the order of states and their operations.
  void enter(const Found& found) {
    if (table_.full() && 2 * table_.bytes() > most_table_bytes_) {
      write_found();
      table_.clear();
    }
    if (table_.insert(found.key)) found_.push_back(found);
  }

  /// What was entered and is new becomes the next level.
  void end_level() {
    begins_.push_back(steps_.size());
    if (!limited()) {
      for (const Found& found : found_) steps_.push(found.step);
      count_bytes(0);
      found_.clear();
    } else {
      write_found();
      merge_found();
    }
    cursors_.emplace_back(steps_);
  }

  /// With a limit, of the levels that have ended.
  [[nodiscard]] std::uint64_t num_states() const {
    return steps_.size() + (limited() ? 0 : found_.size());
  }
  [[nodiscard]] std::uint64_t level_begin() const { return begins_.back(); }
  [[nodiscard]] std::size_t depth() const { return begins_.size() - 1; }

  /// The choices that lead to a state of the last level. @param out shape [depth]
  void path(std::uint64_t state, std::span<std::uint8_t> out) {
    for (std::size_t level = depth(); level > 0; --level) {
      const std::uint64_t step = cursors_[level].at(state);
      out[level - 1] = static_cast<std::uint8_t>(step);
      state = step >> 8;
    }
  }

  /// The most that was kept at one time.
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] std::uint64_t disk_bytes() const { return disk_bytes_; }

 protected:
  template <class T>
  struct Sorted {
    explicit Sorted(std::uint64_t most_in_memory) : tape(most_in_memory) {}
    /// @param items are sorted, become a run, and are gone
    void write(std::vector<T>& items) {
      std::ranges::sort(items);
      const std::uint64_t begin = tape.size();
      for (const T& item : items) tape.push(item);
      runs.push_back({begin, tape.size()});
      items.clear();
    }
    Tape<T> tape;
    std::vector<Run> runs;
  };
  [[nodiscard]] bool limited() const { return most_table_bytes_ != kNoLimit; }
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  void write_found() {
    num_found_ += found_.size();
    count_bytes(0);
    candidates_.write(found_);
  }

  void merge_found() {
    const std::uint64_t before = steps_.size();
    const std::uint64_t begin = visited_.tape.size();
    Merge<Key> old(visited_.tape, visited_.runs);
    Merge<Found> met(candidates_.tape, candidates_.runs);
    Sorted<std::uint64_t> steps(most_on_tape_);
    std::vector<std::uint64_t> some;  // steps that are not sorted yet
    Key last{};
    for (; !met.done(); met.pop()) {
      const Found& found = met.front();
      if (last == found.key) continue;  // the first way there stands first
      last = found.key;
      while (!old.done() && old.front() < found.key) old.pop();
      if (!old.done() && old.front() == found.key) continue;
      visited_.tape.push(found.key);
      some.push_back(found.step);
      if (some.size() == 4 * most_on_tape_) steps.write(some);
    }
    while (!old.done()) old.pop();
    require_all("visited states", old.popped(), before);
    require_all("states that were met", met.popped(), num_found_);
    const std::uint64_t num_new = visited_.tape.size() - begin;
    visited_.runs.push_back({begin, visited_.tape.size()});
    steps.write(some);
    Merge<std::uint64_t> in_order(steps.tape, steps.runs);
    for (; !in_order.done(); in_order.pop()) steps_.push(in_order.front());
    require_all("new states", steps_.size() - before, num_new);
    count_bytes(old.memory_bytes() + met.memory_bytes() + in_order.memory_bytes() +
                    8 * some.capacity() + steps.tape.memory_bytes(),
                steps.tape.disk_bytes());
    candidates_ = Sorted<Found>(most_on_tape_);
    num_found_ = 0;
  }

  static void require_all(const char* what, std::uint64_t read, std::uint64_t written) {
    if (read == written) return;
    throw std::logic_error(say("the search lost its way: ", read, " of ", written, " ", what,
                               " came back from the disk"));
  }

  void count_bytes(std::uint64_t more_memory, std::uint64_t more_disk = 0) {
    memory_bytes_ = std::max(
        memory_bytes_, more_memory + table_.bytes() + found_.capacity() * sizeof(Found) +
                           visited_.tape.memory_bytes() + candidates_.tape.memory_bytes() +
                           steps_.memory_bytes() + cursors_.size() * Cursor<std::uint64_t>::kBytes);
    disk_bytes_ = std::max(disk_bytes_, more_disk + visited_.tape.disk_bytes() +
                                            candidates_.tape.disk_bytes() + steps_.disk_bytes());
  }

  std::uint64_t most_table_bytes_;
  std::uint64_t most_on_tape_;  // [items] in memory
  FingerprintSet<Key> table_;
  std::vector<Found> found_;                    // in this level, and not written yet
  Sorted<Key> visited_{most_on_tape_};          // with a limit: a run of each level
  Sorted<Found> candidates_{most_on_tape_};     // with a limit: of this level
  std::uint64_t num_found_ = 0;                 // in this level, and written
  Tape<std::uint64_t> steps_{most_on_tape_};    // shape [states]: the step that led there
  std::vector<std::uint64_t> begins_;           // shape [levels]: their first states
  std::vector<Cursor<std::uint64_t>> cursors_;  // shape [levels]
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;
};

}  // namespace kvproof::properties::exhaustive
