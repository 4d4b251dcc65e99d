// SPDX-License-Identifier: Apache-2.0
// The set of visited states of a search, as fingerprints in one open table: of 16 bytes each, or
// of 8.
//
// Model:   a set; two states with one fingerprint count as one. The chance that this ever happened
//          is printed with every result.
// Leaves out: removal, and insertion by two threads at once. Any number of threads may ask while no
//          thread inserts.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvproof::properties::exhaustive {

struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const Fingerprint&) const = default;
};

/// @tparam Key Fingerprint, or std::uint64_t for its half
template <class Key>
[[nodiscard]] constexpr Key key_of(const Fingerprint& fingerprint) {
  if constexpr (std::is_same_v<Key, Fingerprint>) {
    return fingerprint;
  } else {
    return std::max<std::uint64_t>(fingerprint.low, 1);  // 0 is no key
  }
}

template <class Key>
class FingerprintSet {
 public:
  FingerprintSet() : slots_(kFirstCapacity) {}

  /// @pre not all zeros. One state in 2^128 has that fingerprint and would be visited again and
  /// again
  [[nodiscard]] bool contains(const Key& key) const { return slots_[position(slots_, key)] == key; }

  /// Doubles the table first if it is full. @return whether the key was not there yet
  bool insert(const Key& key) {
    if (full()) grow();
    Key& slot = slots_[position(slots_, key)];
    if (slot == key) return false;
    slot = key;
    ++size_;
    return true;
  }

  void clear() {
    std::ranges::fill(slots_, kEmpty);
    size_ = 0;
  }

  [[nodiscard]] bool full() const { return size_ >= slots_.size() / 5 * 4; }
  [[nodiscard]] std::size_t bytes() const { return slots_.capacity() * sizeof(Key); }

 private:
  static constexpr std::size_t kFirstCapacity = 1U << 10;  // a power of two
  static constexpr Key kEmpty{};

  // The slot where it stands or belongs: linear probing from its low bits.
  static std::size_t position(const std::vector<Key>& slots, const Key& wanted) {
    std::size_t at = low_bits(wanted) & (slots.size() - 1);
    while (slots[at] != wanted && slots[at] != kEmpty) at = (at + 1) & (slots.size() - 1);
    return at;
  }

  static std::uint64_t low_bits(const Key& key) {
    if constexpr (std::is_same_v<Key, Fingerprint>) {
      return key.low;
    } else {
      return key;
    }
  }

  void grow() {
    std::vector<Key> larger(slots_.size() * 2);
    for (const Key& key : slots_) {
      if (key != kEmpty) larger[position(larger, key)] = key;
    }
    slots_ = std::move(larger);
  }

  std::vector<Key> slots_;
  std::size_t size_ = 0;
};

/// Birthday bound: the chance that `n` different states have not all different fingerprints is at
/// most this, if fingerprints are as good as random.
[[nodiscard]] inline double collision_bound(double n, int fingerprint_bits) {
  return std::ldexp(n * (n - 1) / 2, -fingerprint_bits);
}

}  // namespace kvproof::properties::exhaustive
