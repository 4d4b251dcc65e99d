// SPDX-License-Identifier: Apache-2.0
// Brings a subject into any state whose path is known, and tries every operation there.
//
// Model:   a path is one choice per step: the position of the operation in operations_in(). States
//          on the way are kept (history and snapshot), so a path that shares its beginning with the
//          one before costs only its end. A subject is not a value: after each operation that
//          changed something its memory, and with it the naive model's, is put back as it was
//          (arena.h), or where that cannot be, it is made anew and performs the path again.
// Checked: on every edge the laws, over the subject's own states, and the naive model's answer and
//          state against the subject's. The content oracle is left out: a law or the model also
//          sees what it sees, and its store would have to be part of the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "properties/audit/model_oracle.h"
#include "properties/audit/runner.h"
#include "properties/laws/history.h"
#include "properties/sources/exhaustive/arena.h"
#include "properties/sources/exhaustive/canonical.h"
#include "properties/sources/exhaustive/space.h"
#include "reference/operations.h"

namespace kvproof::properties::exhaustive {

using Choices = std::vector<std::uint8_t>;

/// Counts of events on edges. A space in which an event never happened says nothing about it.
struct EdgeCounts {
  std::uint64_t edges = 0;
  std::uint64_t hits = 0;       // grants that started from a looked-up prefix
  std::uint64_t evictions = 0;  // keys lost because their block was handed out again
  std::uint64_t refusals = 0;
  std::uint64_t revivals = 0;  // free blocks that a looked-up prefix holds again
  std::uint64_t recycled = 0;  // grants and recycles that turned an entry into null
  EdgeCounts& operator+=(const EdgeCounts& other);
  bool operator==(const EdgeCounts&) const = default;
};

/// One operation tried in the state that the walker stands in.
struct Edge {
  std::uint8_t choice = 0;
  const Operation& operation;
  bool same = false;              // no observable change
  Fingerprint fingerprint;        // of the state behind it; not set if an oracle objects
  const Broken* wrong = nullptr;  // what an oracle objects; nullptr = none does
};

class Walker {
 public:
  /// @param oracles laws and model; content is not consulted
  /// @param own_memory subjects take all of theirs from operator new
  Walker(const Space& space, MakeSubject make, Oracles oracles, bool own_memory = true);

  /// Goes to the state at the end of a path. Throws std::logic_error if the path does not exist.
  void go(std::span<const std::uint8_t> choices);

  /// Tries every operation of this state in order.
  void expand(const std::function<void(const Edge&)>& visit);

  /// The operations that led here.
  [[nodiscard]] std::vector<Operation> trace() const;
  /// The operations that the subject performed before the current edge: more than the trace if some
  /// of them changed nothing.
  [[nodiscard]] std::vector<Operation> performed() const;
  [[nodiscard]] Fingerprint fingerprint();
  [[nodiscard]] const Snapshot& state() const { return here().state; }
  [[nodiscard]] std::size_t num_operations() const { return here().operations.size(); }
  [[nodiscard]] const EdgeCounts& counts() const { return counts_; }

 private:
  /// A state on the path, and the operations that may be performed there.
  struct Level {
    explicit Level(const CacheConfig& config) : history(config) {}
    Snapshot state;
    History history;
    Known known;
    reference::Memory memory;  // since vllm-0.33
    std::vector<Operation> operations;
    std::uint8_t choice = 0;           // the choice that was made here
    Arena::Image image;                // the memory of a subject and a model that stand here
    std::optional<ModelOracle> model;  // that stands here, where there is no arena
  };

  [[nodiscard]] Level& here() { return levels_[depth_]; }
  [[nodiscard]] const Level& here() const { return levels_[depth_]; }
  void descend(std::uint8_t choice);
  void bring_subject();
  void make_subject();
  void perform(const Operation& operation);
  void keep_both(Level& at) const;
  void object(std::string_view id, std::string_view name, Sentence what);
  void ask_model(const Operation& operation, Level& to);
  void step(const Level& from, const Operation& operation, Level& to);
  void judge(const Level& from, const Operation& operation, const Level& to);
  void count(const Level& from, const Operation& operation, const Level& to);
  [[nodiscard]] static bool alike(const Level& a, const Level& b);

  const Space& space_;
  CacheConfig config_;
  MakeSubject make_;
  Oracles oracles_;
  Canonical canonical_;
  std::vector<Level> levels_;  // the path; levels beyond depth_ are kept for their memory
  std::size_t depth_ = 0;
  Level next_;                    // the state behind the current edge
  std::unique_ptr<Arena> arena_;  // with all memory of subject and model; nullptr = none
  std::unique_ptr<Subject> subject_;
  std::unique_ptr<ModelOracle> model_;       // has performed what the subject has; nullptr = none
  bool left_ = false;                        // the subject does not stand here any more
  std::vector<const Operation*> performed_;  // the operations that it performed
  Outcome outcome_;                          // of its last operation
  std::optional<Broken> wrong_;              // by its last operation
  EdgeCounts counts_;
};

}  // namespace kvproof::properties::exhaustive
