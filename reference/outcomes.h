// SPDX-License-Identifier: Apache-2.0
// The answers and the events of a cache manager, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reference/contract.h"
#include "reference/ids.h"

namespace kvproof {

/// Answer of lookup: the longest cached prefix. `blocks`: one id list per group.
struct Hit {
  std::uint32_t hit_tokens = 0;
  std::vector<std::vector<BlockId>> blocks;
  bool operator==(const Hit&) const = default;
};

/// The bytes of block `from` are to be copied into block `to` before the step runs.
struct Copy {
  BlockId from = 0;
  BlockId to = 0;
  bool operator==(const Copy&) const = default;
};

/// The answer of a granted allocate or take: the newly taken ids per group, without hit and
/// external blocks. The answer of a swap: the copies from one tier to the other; of a fork that has
/// copied blocks: these.
struct Granted {
  std::vector<std::vector<BlockId>> blocks;
  std::vector<Copy> copies = {};
  /// Set only if the allocation did its own lookup: the prefix that it used.
  std::optional<Hit> hit = {};
  bool operator==(const Granted&) const = default;
};

/// The answer of decode: what the allocations of the batch answered.
struct Decoded {
  std::vector<std::uint32_t> refused;  // indexes of the requests whose allocation was refused
  std::vector<std::vector<std::vector<BlockId>>> blocks;  // shape [reqs, groups], or [] if refused
  std::vector<Copy> copies = {};                          // those of all requests
  bool operator==(const Decoded&) const = default;
};

/// A shortage; retry later.
struct Refused {
  bool operator==(const Refused&) const = default;
};

/// A broken precondition.
struct Rejected {
  std::optional<Breach> breach;  // unset if what was said names none
  std::string detail;
  bool operator==(const Rejected&) const = default;
};

/// The subject performs no such call, or not now.
struct Declined {
  std::string reason;
  bool operator==(const Declined&) const = default;
};

/// The call was never sent to the subject.
struct NotAsked {
  std::string reason;
  bool operator==(const NotAsked&) const = default;
};

using SharedBlocks = std::vector<std::uint32_t>;  // answer of common_prefix: [blocks] per group
using Result = std::variant<std::monostate, Hit, Granted, Refused, Rejected, Declined, NotAsked,
                            bool, SharedBlocks, Decoded>;

/// Whether the call was answered by an error, and nothing was done.
[[nodiscard]] inline bool is_undone(const Result& result) {
  return std::holds_alternative<Rejected>(result) || std::holds_alternative<Declined>(result) ||
         std::holds_alternative<NotAsked>(result);
}

/// The error as a trace writes it: "capacity: full". Empty if there is none.
[[nodiscard]] std::string error_text(const Result& result);

/// The answer that a trace writes as this error.
[[nodiscard]] Result result_of_error(std::string_view text);

/// A key that entered the prefix index: the block and the number of leading tokens that the key
/// covers.
struct StoredBlock {
  BlockId block = 0;
  std::uint32_t prefix_tokens = 0;
  bool operator==(const StoredBlock&) const = default;
};

namespace event {

/// One registration call for tokens [from, to) of the operation's request.
struct Stored {
  GroupId group = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::vector<StoredBlock> blocks;
  bool operator==(const Stored&) const = default;
};
struct Removed {
  GroupId group = 0;
  BlockId block = 0;
  std::uint32_t prefix_tokens = 0;
  bool operator==(const Removed&) const = default;
};
struct Cleared {
  bool operator==(const Cleared&) const = default;
};

}  // namespace event

using Event = std::variant<event::Stored, event::Removed, event::Cleared>;

struct Outcome {
  Result result;
  std::vector<Event> events;  // in emission order
  bool operator==(const Outcome&) const = default;
};

}  // namespace kvproof
