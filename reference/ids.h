// SPDX-License-Identifier: Apache-2.0
// The integers that every part of a paged KV cache passes around, and the two reserved values.
//
// Model:   blocks, groups, requests and leases are numbered, and a number of one kind is not a
//          number of another. An id converts to its integer, so that it can index an array; of the
//          integers, only a constant converts to an id.
// Source:  the field's names (vLLM v1, FlashInfer); reference/README.md gives each a line.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvproof {

template <class Other, class Kind>
concept other_than = !std::same_as<Other, Kind>;

/// The number of a thing. @tparam Kind tells kinds of things apart; it is declared, never defined
template <class Kind>
class Id {
 public:
  Id() = default;
  /// Turns an integer into a number of this kind.
  template <std::unsigned_integral Integer>
  explicit constexpr Id(Integer value) : value_(static_cast<std::uint32_t>(value)) {}
  /// A constant converts by itself: `GroupId group = 0`.
  template <std::same_as<int> Constant>
  consteval Id(Constant value) : value_(static_cast<std::uint32_t>(value)) {}  // NOLINT: implicit

  constexpr operator std::uint32_t() const { return value_; }  // NOLINT: implicit
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

  // Numbers of two kinds cannot be compared.
  template <other_than<Kind> Other>
  void operator==(Id<Other>) const = delete;
  template <other_than<Kind> Other>
  void operator<=>(Id<Other>) const = delete;

 private:
  std::uint32_t value_ = 0;
};

using BlockId = Id<struct BlockKind>;  // index of a fixed-size block of the pool, 0 .. num_blocks-1
using GroupId = Id<struct GroupKind>;  // index of a layer group (layers that share one block table)
using RequestId = Id<struct RequestKind>;  // handle of a request, from arrive() to finish()
using LeaseId = Id<struct LeaseKind>;      // handle of a lease, from pin() to unpin()
using TokenId = std::int32_t;              // one token of a vocabulary
using SlotId = std::int64_t;  // block_id * block_size + offset: where one token's K and V live

inline constexpr BlockId kNullBlock = 0;  // fills gaps in tables; never queued, hashed, evicted
inline constexpr SlotId kPadSlotId = -1;  // a padded token: kernels write nothing for it

/// Ceiling division of non-negative integers. @pre b > 0
template <class Integer>
[[nodiscard]] constexpr Integer ceil_div(Integer a, Integer b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace kvproof

template <class Kind>
struct std::hash<kvproof::Id<Kind>> {
  std::size_t operator()(kvproof::Id<Kind> id) const noexcept {
    return std::hash<std::uint32_t>()(id);
  }
};
