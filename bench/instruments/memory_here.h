// SPDX-License-Identifier: Apache-2.0
// How much memory this process can still get, asked before a pool is built that would take it all.
#pragma once

#include <cstdint>
#include <optional>

namespace kvproof::bench {

/// The least of what the system calls available, what the control group leaves, and what a resource
/// limit leaves [bytes]; nullopt where none of them is known.
[[nodiscard]] std::optional<std::uint64_t> available_bytes();

/// @param blocks of all tiers @param bytes_per_block of records and index; not the cached tokens,
///        which nothing here stores
/// @throws std::invalid_argument with both figures when the pool would not fit
void require_memory(std::uint64_t blocks, std::uint64_t bytes_per_block);

inline constexpr std::uint64_t kPoolBytesPerBlock = 64;      // the most of our managers
inline constexpr std::uint64_t kAuditedBytesPerBlock = 640;  // with the model and the snapshots

}  // namespace kvproof::bench
