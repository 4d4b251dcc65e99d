// SPDX-License-Identifier: Apache-2.0
// Block hashes: the identity of a block is its parent's hash, its own tokens, and its extra keys.
//
// Model:   key_k = H(key_{k-1} || tokens of unit k || typed, length-prefixed extra keys of unit k).
//          The token count of a unit is fixed, so the concatenation is injective. With lookahead
//          the tokens and the extra keys are those of unit k and of so many tokens behind it.
// Source:  vLLM v1 kv_cache_utils.hash_block_tokens; XXH3 (github.com/Cyan4973/xxHash); FIPS 180-4.
// Leaves out: partial units. The serialisation is ours: keys are not exchanged with other engines.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "optimized/pool/xxh3_unit.h"
#include "reference/ids.h"
#include "reference/request.h"

namespace kvproof::optimized {

/// A digest of `Words` 64-bit words. Keys are equal iff all words are.
template <std::size_t Words>
struct HashKey {
  std::array<std::uint64_t, Words> words{};

  // Not defaulted: the library compares arrays with a call, and this is the inner loop of every
  // lookup.
  friend bool operator==(const HashKey& a, const HashKey& b) {
    std::uint64_t differ = 0;
    for (std::size_t i = 0; i < Words; ++i) differ |= a.words[i] ^ b.words[i];
    return differ == 0;
  }
};

using Key128 = HashKey<2>;
using Key256 = HashKey<4>;

/// The key of the same content in another layer group: one-to-one for each group, and as far from
/// the keys of other groups as from those of other contents.
[[nodiscard]] constexpr std::uint64_t mask_of(GroupId group) { return group * 0x9e3779b97f4a7c15U; }
template <std::size_t Words>
[[nodiscard]] constexpr HashKey<Words> in_group(HashKey<Words> key, GroupId group) {
  key.words[0] ^= mask_of(group);
  return key;
}

/// The number by which a state shows a key.
template <std::size_t Words>
[[nodiscard]] constexpr std::uint64_t fingerprint(const HashKey<Words>& key) {
  std::uint64_t out = 0;
  for (const std::uint64_t word : key.words) out = out * 0x100000001b3U + word;
  return out;
}

/// Appends the extra keys of the unit [start, end) to `out`: one type byte, one length, the bytes.
/// Nothing is appended when there are none. `out` grows by at most extra_key_bytes(extra).
void append_extra_keys(const ExtraKeys& extra, std::uint32_t start, std::uint32_t end,
                       std::string& out);
[[nodiscard]] std::size_t extra_key_bytes(const ExtraKeys& extra);

/// XXH3, 128 bits: fast; not collision-resistant against an adversary.
struct Xxh3Digest {
  using Key = Key128;
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;
};

/// SHA-256 of OpenSSL.
struct Sha256Digest {
  using Key = Key256;
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;
};

/// XXH3 cut to four bits, so that different content often has one key. For tests of collisions.
struct WeakDigest {
  using Key = Key128;
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;
};

/// Hashes the units of a request, each on top of the one before. `Digest` is one of the three
/// above. The message buffer makes a hasher belong to one thread.
template <class Digest>
class ChainHasher {
 public:
  using Key = typename Digest::Key;

  /// @param unit_tokens [tokens] per hash unit. @param seed starts every chain: keys made with
  /// different seeds never meet. @param lookahead [tokens] behind a unit that its key covers
  ChainHasher(std::uint32_t unit_tokens, std::uint64_t seed, std::uint32_t lookahead = 0);

  /// Makes room for the extra keys of a request, so that hashing its units does not allocate.
  void reserve(const ExtraKeys& extra);

  /// Keys of the units first, first + 1, ... of a request.
  /// @param tokens of the whole request, shape [>= (first + count) * unit_tokens + lookahead]
  /// @param keys of the whole request, shape [>= first + count]; the first `first` are known
  /// @param extra nullptr = none
  void hash(const TokenId* tokens, const ExtraKeys* extra, std::uint32_t first, std::uint32_t count,
            Key* keys);

  /// The parent of a first unit.
  [[nodiscard]] const Key& root() const { return root_; }
  /// As hash() of one unit, without extra keys. @pre the key before the first is root()
  void hash_next(const TokenId* tokens, std::size_t unit, Key* keys) {
    if (is_usual_) return hash_next_usual(tokens, unit, keys);
    Key* const key = keys + unit;
    hash_plain(tokens + unit * unit_tokens_, 1, key[-1], key);
  }

  /// Whether a key covers 16 tokens. With that usual size every length is a constant, and the hash
  /// is unrolled.
  [[nodiscard]] bool is_usual() const { return is_usual_; }
  /// As hash_next(). @pre is_usual()
  void hash_next_usual(const TokenId* tokens, std::size_t unit, Key* keys) const {
    Key* const key = keys + unit;
    *key = hash_usual(tokens + unit * kUsualTokens, key[-1]);
  }

 private:
  static constexpr std::uint32_t kUsualTokens = 16;

  [[nodiscard]] Key hash_usual(const TokenId* tokens, const Key& parent) const {
    if constexpr (std::is_same_v<Digest, Xxh3Digest> &&
                  std::endian::native == std::endian::little) {
      return {xxh3_of_unit(parent.words, tokens, secret_)};
    } else {
      return digest_usual(tokens, parent);
    }
  }
  [[nodiscard]] Key digest_usual(const TokenId* tokens, const Key& parent) const;
  void hash_plain(const TokenId* tokens, std::uint32_t count, const Key& parent, Key* keys);

  Digest digest_;
  Xxh3Secret secret_;
  std::uint32_t unit_tokens_;
  std::uint32_t covered_tokens_;  // of a unit, and the lookahead behind it
  bool is_usual_;
  std::string message_;  // shape [key | covered tokens | extra keys]
  Key root_;
};

}  // namespace kvproof::optimized
