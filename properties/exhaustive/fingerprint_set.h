// SPDX-License-Identifier: Apache-2.0
// The set of visited states of a search, as 128-bit fingerprints: 16 bytes each in one open table.
//
// Model:   a set; two states with one fingerprint count as one. The chance that this ever happened
//          is printed with every result.
// Leaves out: removal, and insertion by two threads at once. Any number of threads may ask while no
//          thread inserts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvproof::properties::exhaustive {

struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Fingerprint&) const = default;
};

class FingerprintSet {
 public:
  FingerprintSet() : slots_(kFirstCapacity) {}

  /// @pre not all zeros. One state in 2^128 has that fingerprint and would be visited again and
  /// again
  [[nodiscard]] bool contains(const Fingerprint& fingerprint) const {
    return slots_[position(slots_, fingerprint)] == fingerprint;
  }

  /// @return whether it was not there yet.
  bool insert(const Fingerprint& fingerprint) {
    Fingerprint& slot = slots_[position(slots_, fingerprint)];
    if (slot == fingerprint) return false;
    slot = fingerprint;
    if (++size_ > slots_.size() / 5 * 4) grow();
    return true;
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return slots_.capacity() * sizeof(Fingerprint); }

 private:
  static constexpr std::size_t kFirstCapacity = 1U << 10;  // a power of two
  static constexpr Fingerprint kEmpty{};

  // The slot where it stands or belongs: linear probing from its low bits.
  static std::size_t position(const std::vector<Fingerprint>& slots, const Fingerprint& wanted) {
    std::size_t at = wanted.low & (slots.size() - 1);
    while (slots[at] != wanted && slots[at] != kEmpty) at = (at + 1) & (slots.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Fingerprint> larger(slots_.size() * 2);
    for (const Fingerprint& fingerprint : slots_) {
      if (fingerprint != kEmpty) larger[position(larger, fingerprint)] = fingerprint;
    }
    slots_ = std::move(larger);
  }

  std::vector<Fingerprint> slots_;
  std::size_t size_ = 0;
};

/// Birthday bound: the chance that `n` different states have not all different fingerprints is at
/// most this, if fingerprints are as good as random.
[[nodiscard]] constexpr double collision_bound(double n) {
  constexpr double kFingerprints = 340282366920938463463374607431768211456.0;  // 2^128
  return n * (n - 1) / 2 / kFingerprints;
}

}  // namespace kvproof::properties::exhaustive
