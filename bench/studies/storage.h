// SPDX-License-Identifier: Apache-2.0
// The ways to keep the KV of live requests, behind one interface, so that a study plays the same
// requests on all of them. Each is the real allocator: nothing is estimated.
//
// Refuses: being asked for more than it was sized for. A study shows what is needed, so a refusal
// is a mistake in its sizing and throws std::logic_error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "reference/ids.h"

namespace kvproof::bench {

/// What a storage is built for.
struct StorageSize {
  std::uint32_t max_length = 0;       // [tokens] that a request may reach
  std::uint32_t block_size = 16;      // [tokens]
  std::uint32_t max_requests = 0;     // live at one time
  std::uint64_t capacity_tokens = 0;  // of the arena, or of the pool, where it is rounded up
};

struct StorageUsage {
  std::uint64_t live_tokens = 0;      // of all requests; a shared one counts for each that has it
  std::uint64_t reserved_tokens = 0;  // token slots that nobody else can have
  std::uint64_t moved_tokens = 0;     // copied so far because a request had to move
  std::uint64_t table_entries = 0;    // blocks in block tables; 0 without tables
  std::uint64_t top_tokens = 0;       // the capacity that would have been enough so far
  std::optional<std::uint64_t> largest_free_run_tokens;  // absent where any free block will do
  double external_fragmentation = 0;  // 1 - largest free run / total free; 0 with equal blocks
};

class Storage {
 public:
  using Handle = std::uint64_t;
  virtual ~Storage() = default;

  /// Makes room for a prompt. @param final_tokens that the request will have at its end, which only
  /// an oracle looks at. @pre 0 < prompt.size() <= final_tokens <= max_length
  [[nodiscard]] virtual Handle start(std::span<const TokenId> prompt,
                                     std::uint32_t final_tokens) = 0;

  /// Makes room for one more token.
  virtual void grow(Handle request) = 0;

  /// The request leaves.
  virtual void end(Handle request) = 0;

  [[nodiscard]] virtual StorageUsage usage() const = 0;
};

struct StorageRow {
  std::string_view name;
  std::string_view sentence;
  bool contiguous;
  bool needs_ids;  // shares prefixes: says something only where requests say what they share
  std::unique_ptr<Storage> (*make)(const StorageSize& size);
};

[[nodiscard]] std::unique_ptr<Storage> make_contiguous_max_length(const StorageSize& size);
[[nodiscard]] std::unique_ptr<Storage> make_contiguous_power_of_two(const StorageSize& size);
[[nodiscard]] std::unique_ptr<Storage> make_contiguous_oracle(const StorageSize& size);
[[nodiscard]] std::unique_ptr<Storage> make_contiguous_grow_and_copy(const StorageSize& size);
[[nodiscard]] std::unique_ptr<Storage> make_paged(const StorageSize& size);
[[nodiscard]] std::unique_ptr<Storage> make_paged_shared(const StorageSize& size);

/// THE LIST of storages.
inline constexpr StorageRow kStorages[] = {
    {"contiguous_max_length", "every request reserves the longest length", true, false,
     &make_contiguous_max_length},
    {"contiguous_power_of_two", "the next power of two; doubles and moves when outgrown", true,
     false, &make_contiguous_power_of_two},
    {"contiguous_oracle", "exactly the final length, as if it were known", true, false,
     &make_contiguous_oracle},
    {"contiguous_grow_and_copy", "exactly what is there; moves whenever it cannot grow", true,
     false, &make_contiguous_grow_and_copy},
    {"paged", "whole blocks, nothing shared: the prefix cache is off", false, false, &make_paged},
    {"paged_shared", "whole blocks, equal prefixes shared: the prefix cache is on", false, true,
     &make_paged_shared},
};

/// The row of that name. @pre there is one
[[nodiscard]] const StorageRow& storage_row(std::string_view name);

}  // namespace kvproof::bench
