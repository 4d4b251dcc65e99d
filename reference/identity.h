// SPDX-License-Identifier: Apache-2.0
// The identity of a prefix: 64 bits for what a slot of a cache holds. The same bits on host and
// device.
//
// Model:  a chain over what is cached beside tokens, then over the tokens. The identity of a
//         position is that of all tokens up to it; the slots of a group hold it mixed with the
//         group. Two prefixes have one identity with a chance of 2^-64 for each pair.
// Choice: a link mixes all bits, so a chain is made one link after the other; identities are
//         compared in parallel. Measured on an H200: 1,048,576 are compared in 11 us. A host makes
//         a link in 5 ns, where a prompt arrives, and the upload of 4,096 takes 5 us. The device
//         makes one in 90 ns, for the token that it has sampled itself. An affine link x * a + t
//         could be made in parallel, 4,096 in 28 us. But modulo 2^64 two texts of 1,024 tokens then
//         have one identity, whatever a is: a Thue-Morse sequence of two tokens, and the same with
//         the two exchanged.
#pragma once

#include <cstdint>

#include "reference/mix64.h"

namespace kvproof {

using Identity = std::uint64_t;
inline constexpr Identity kUnwritten = 0;
inline constexpr Identity kFailed = 1;     // what a failed load, or a row that read one, has left
inline constexpr Identity kUnjudged = 2;   // a state behind drafts, of which some may be rejected
inline constexpr Identity kForgotten = 3;  // brought for a request whose tokens are not kept
inline constexpr Identity kFewest = 4;     // from here on they are of prefixes

/// Of no tokens, beside which nothing is cached.
inline constexpr Identity kEmptyPrefix = mix64(kMixStep);

/// The chain goes on over a token, or over a word of what is cached beside tokens.
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr Identity link(Identity before, std::uint64_t word) {
  const Identity out = mix64(before + (word + 1) * kMixStep);
  return out < kFewest ? out + kFewest : out;
}
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr Identity link(Identity before, TokenId token) {
  return link(before, std::uint64_t{static_cast<std::uint32_t>(token)});
}

/// An identity as the slots of a group hold it.
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr Identity in_group(Identity identity,
                                                              std::uint32_t group) {
  const Identity out = identity ^ mix64(group);
  return out < kFewest ? out + kFewest : out;
}

}  // namespace kvproof
