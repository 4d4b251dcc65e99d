// SPDX-License-Identifier: Apache-2.0
// Random memory, layouts and values for the checks of data movement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "kernels/implementation.h"
#include "kernels/typed.h"
#include "properties/kernels/armed_fault.h"
#include "properties/kernels/memory.h"
#include "reference/layout.h"

namespace kvproof::properties {

/// Random bytes that begin `offset` behind a multiple of 64. A seeded fault may write beyond them,
/// so then zeros lie around them and are compared, too. Otherwise nothing lies around them, and
/// under AddressSanitizer never: it sees an access that is one byte too far.
class Arena {
 public:
  Arena() = default;
  Arena(Random& random, std::int64_t bytes, std::int64_t offset = 0) {
#if defined(KVPROOF_KERNEL_FAULTS)
    const std::int64_t slack = kAddressesAreChecked ? 0 : (4 * bytes + (1 << 16)) / 64 * 64;
#else
    const std::int64_t slack = 0;
#endif
    begin_ = static_cast<std::size_t>(slack + offset);
    memory_ = Memory(begin_ + static_cast<std::size_t>(bytes + slack));
    std::fill(memory_.bytes().begin(), memory_.bytes().end(), std::byte{0});
    for (std::int64_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = random.next();
      std::memcpy(at(i), &word, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
    }
  }

  [[nodiscard]] std::byte* at(std::int64_t byte) const { return memory_.data() + begin_ + byte; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(at(0));
  }
  /// All bytes, including those around the content.
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  Memory memory_;
  std::size_t begin_ = 0;
};

/// The values of a vector; a kernel is told only a part of its length.
template <class T>
[[nodiscard]] Arena arena_of(Random& random, const std::vector<T>& values) {
  Arena out(random, static_cast<std::int64_t>(values.size() * sizeof(T)));
  if (!values.empty()) std::memcpy(out.at(0), values.data(), values.size() * sizeof(T));
  return out;
}

/// A K and a V cache somewhere in one or two arenas.
struct CacheShape {
  std::int32_t num_blocks = 0, block_size = 0, num_heads = 0;
  std::int32_t key_size = 0, value_size = 0;  // [elements] of a row
  std::int32_t element_bytes = 0;
};
struct DrawnCaches {
  Arena key_arena, value_arena;  // the second stays empty if the first holds both
  std::byte* key = nullptr;
  std::byte* value = nullptr;
  CacheLayout key_layout, value_layout;
};

/// NHD or HND; apart, by block, by layer or by row in one record; dense or padded; off alignment.
/// @param tidy most arrays and rows, of any size, begin at multiples of 16 bytes
[[nodiscard]] DrawnCaches draw_caches(Random& random, const CacheShape& shape, bool tidy);

/// The start of an array, in bytes beyond a multiple of 64.
[[nodiscard]] std::int64_t draw_offset(Random& random, std::int32_t element_bytes, bool tidy);

/// Head and block counts whose product with `row_bytes` stays small.
struct DrawnSizes {
  std::int32_t num_blocks, block_size, num_heads, head_size;
};
[[nodiscard]] DrawnSizes draw_sizes(Random& random, int size);

/// Values that exercise rounding, saturation and NaN. @param scale of the fp8 cache
void draw_values(Random& random, void* to, std::int64_t count, kernels::ElementType type,
                 float scale);

/// `count` different numbers of [0, below), in any order. @pre count <= below
[[nodiscard]] std::vector<std::int64_t> draw_distinct(Random& random, std::int64_t count,
                                                      std::int64_t below);

/// How the implementations of a run fared, by "operation implementation".
struct MovementTally {
  struct Row {
    int ran = 0;
    int refused = 0;
    std::string reason;  // of the last refusal
  };
  std::map<std::string, Row> rows;
};

/// How one launch ended.
struct Launched {
  bool refused = false;
  Finding finding;
};

/// Launches and waits, with the seeded fault switched on. Reference and general rows take every
/// case.
template <class Params>
Launched launch_row(const kernels::Implementation<Params>& row, const Params& params,
                    std::uint64_t seed, const std::string& who, MovementTally& tally) {
  Launched out;
  kernels::Refusal refusal;
  try {
    const ArmedFault armed;
    kernels::Context context;
    context.num_threads = 1 + static_cast<int>(seed % 3);
    refusal = row.launch(params, context);
  } catch (const std::exception& e) {
    out.finding = say(who, ": ", e.what());
    return out;
  }
  if (const std::string error = wait_for_device(); !error.empty()) {
    out.finding = say(who, ": ", error);
    return out;
  }
  out.refused = static_cast<bool>(refusal);
  MovementTally::Row& counts = tally.rows[who];
  ++(out.refused ? counts.refused : counts.ran);
  if (out.refused) counts.reason = refusal.reason;
  const bool takes_all = row.name.starts_with("reference/") || row.name.ends_with("/general");
  if (out.refused && takes_all) {
    out.finding = say(who, ": refused a valid case: ", refusal.reason);
  }
  return out;
}

}  // namespace kvproof::properties
