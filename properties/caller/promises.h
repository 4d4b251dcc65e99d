// SPDX-License-Identifier: Apache-2.0
// What a subject promises and shows, which decides what may be demanded of it.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "properties/caller/abilities.h"
#include "properties/caller/traits.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

inline constexpr std::size_t kNumOperations = std::variant_size_v<OperationVariant>;

/// Kinds of operations, by their place in the alphabet (kOperationNames).
using OperationSet = std::bitset<kNumOperations>;

/// The place of a kind in the alphabet. @pre it is one
[[nodiscard]] std::size_t operation_index(std::string_view name);
[[nodiscard]] OperationSet operation_set(std::initializer_list<std::string_view> names);
[[nodiscard]] OperationSet all_operations();

/// Parts of a state and of an answer. Parts that a subject does not show are not judged.
enum Part : std::uint32_t {
  kIds = 1U << 0U,         // tables, hits and grants name blocks
  kQueue = 1U << 1U,       // the free queue, head to tail
  kLinks = 1U << 2U,       // what each block's links say
  kReferences = 1U << 3U,  // reference counts
  kCached = 1U << 4U,      // which blocks carry a key
  kKeys = 1U << 5U,        // which one
  kIndex = 1U << 6U,       // the prefix index: keys and their blocks
  kHashes = 1U << 7U,      // of requests, one per complete unit
  kProgress = 1U << 8U,    // positions considered for caching
  kEvents = 1U << 9U,      // what entered and left the index
  kUsage = 1U << 10U,
  kHost = 1U << 11U,      // the host tier
  kCounters = 1U << 12U,  // of hits
  kContents = 1U << 13U,  // what requests read from real tensors; our own subjects have none
};
using Parts = std::uint32_t;
inline constexpr Parts kAllParts = (1U << 13U) - 1;

[[nodiscard]] Parts parts_of(const RecordedState& state);

/// "queue, references"
[[nodiscard]] std::string names_of(Parts parts);

enum class Level { safety, hits, policy, profile };  // each with those before it

/// What a subject has room for; nullopt = as much as it is asked for.
struct Capacities {
  std::optional<std::uint64_t> requests;       // that live at one time
  std::optional<std::uint64_t> table_entries;  // of all tables together
};

struct Promises {
  Level level = Level::profile;
  std::string profile;  // it equals this one block for block; empty = none, or all for our own
  OperationSet operations = all_operations();
  bool block_ids = true;
  bool events = false;      // it says that it announces events
  bool contents = false;    // it says that it reads back what requests have in its tensors
  std::uint32_t sinks = 0;  // [tokens] so many leading ones are kept, whatever a layer skips
  Capacities capacity = {};
  Traits traits = {};                                     // what it does otherwise
  Abilities abilities = {};                               // what may be asked of it
  std::array<std::string, kNumOperations> declines = {};  // why it may decline each; empty = no
  bool whole = false;             // it performs whatever the model performs, and shows all counters
  bool valid_calls_only = false;  // it is never asked what a caller must not ask
  std::string error;              // why it cannot be used at all; empty if it can
  std::string unsupported;        // why it cannot be built from this header; empty if it can
};

/// What stands where an answer {"unsupported":true} gives no reason.
inline constexpr std::string_view kNoReason = "no reason given";

/// Whether an answer says that the subject does not perform such calls at all. Nothing can be
/// demanded of it then; the audit counts them.
[[nodiscard]] bool declines(const Promises& promises, const Operation& operation,
                            const Result& answer);

/// Reads the answer to a header. @throws TextError, also for {"error":"why it cannot be used"}
[[nodiscard]] Promises parse_promises(std::string_view line);

/// The answer to a header as text, for one of our own subjects.
[[nodiscard]] std::string promises_json(const Promises& promises);

}  // namespace kvproof::properties
