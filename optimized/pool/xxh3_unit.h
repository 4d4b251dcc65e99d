// SPDX-License-Identifier: Apache-2.0
// XXH3 of one hash unit: the 128-bit XXH3 of a key of 16 bytes and 16 tokens behind it.
//
// Model:   the steps of XXH3 for inputs of 65 to 96 bytes, where every length is a constant. Sums
//          and products are finished where they stand, so that all of it stays in registers and
//          the words of the secret are operands: 82 instructions where the library's own take 127.
// Source:  XXH3 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), with which a test compares it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "reference/ids.h"

namespace kvproof::optimized {

__extension__ using Uint128 = unsigned __int128;

/// The first words of the secret, from the library.
using Xxh3Secret = std::array<std::uint64_t, 12>;

/// @param parent the words of the key @param tokens shape [16]
/// @return the two words, the low one first. As the library on a little-endian machine
[[nodiscard]] inline std::array<std::uint64_t, 2> xxh3_of_unit(
    const std::array<std::uint64_t, 2>& parent, const TokenId* tokens, const Xxh3Secret& secret) {
  constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U, kPrime2 = 0xC2B2AE3D27D4EB4FU,
                          kPrime4 = 0x85EBCA77C2B2AE63U, kBytes = 80;
  struct Pair {
    std::uint64_t first, second, sum;
  };
  const auto finished = [](std::uint64_t word) {
    asm("" : "+r"(word));
    return word;
  };
  const auto pair = [&](std::uint64_t first, std::uint64_t second) {
    return Pair{first, second, finished(first + second)};
  };
  const auto of_tokens = [&](std::size_t first) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(&words[0], tokens + first, sizeof(words[0]));
    std::memcpy(&words[1], tokens + first + 2, sizeof(words[1]));
    return pair(words[0], words[1]);
  };
  const auto mix = [&](const Pair& in, std::size_t at) {
    const Uint128 product = Uint128{in.first ^ secret[at]} * (in.second ^ secret[at + 1]);
    return finished(static_cast<std::uint64_t>(product) ^
                    static_cast<std::uint64_t>(product >> 64));
  };
  const auto avalanche = [](std::uint64_t word) {
    word ^= word >> 37;
    word *= 0x165667919E3779F9U;
    return word ^ (word >> 32);
  };
  const Pair third = of_tokens(4);
  std::uint64_t low = (kBytes * kPrime1 + mix(third, 8)) ^ third.sum;
  std::uint64_t high = mix(third, 10) ^ third.sum;
  const Pair second = of_tokens(0);
  low += mix(second, 4);
  const Pair fourth = of_tokens(8);
  low ^= fourth.sum;
  high = (high + mix(fourth, 6)) ^ second.sum;
  const Pair first = pair(parent[0], parent[1]);
  low += mix(first, 0);
  const Pair fifth = of_tokens(12);
  low ^= fifth.sum;
  high = (high + mix(fifth, 2)) ^ first.sum;
  const std::uint64_t rest = low * kPrime1 + high * kPrime4 + kBytes * kPrime2;
  return {avalanche(low + high), 0 - avalanche(rest)};
}

}  // namespace kvproof::optimized
