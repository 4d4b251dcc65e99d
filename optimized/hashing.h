// SPDX-License-Identifier: Apache-2.0
// Block hashes: the identity of a block is its parent's hash, its own tokens, and its extra keys.
//
// Model:   key_k = H(key_{k-1} || tokens of unit k || typed, length-prefixed extra keys of unit k).
//          The token count of a unit is fixed, so the concatenation is injective.
// Source:  vLLM v1 kv_cache_utils.hash_block_tokens; XXH3 (github.com/Cyan4973/xxHash); FIPS 180-4.
// Refuses: partial units. The serialisation is ours: keys are not exchanged with other engines.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "reference/ids.h"
#include "reference/operations.h"

namespace kvproof::optimized {

/// A digest of `Words` 64-bit words. Keys are equal iff all words are.
template <std::size_t Words>
struct HashKey {
  std::array<std::uint64_t, Words> words{};
  bool operator==(const HashKey&) const = default;
};

using Key128 = HashKey<2>;
using Key256 = HashKey<4>;

/// Appends the extra keys of the unit [start, end) to `out`: one type byte, one length, the bytes. Nothing
/// is appended when there are none. `out` grows by at most extra_key_bytes(extra).
void append_extra_keys(const ExtraKeys& extra, std::uint32_t start, std::uint32_t end, std::string& out);
[[nodiscard]] std::size_t extra_key_bytes(const ExtraKeys& extra);

/// A hash of one unit. `Digest` maps a message to a Key and may keep a context, so a hasher belongs to one
/// thread. Nothing is allocated after construction unless extra keys are longer than any seen by reserve().
template <class Digest>
class UnitHasher {
 public:
  using Key = typename Digest::Key;

  /// @param unit_tokens [tokens] per hash unit. @param seed starts every chain: keys made with different
  /// seeds never meet.
  UnitHasher(std::uint32_t unit_tokens, std::uint64_t seed)
      : token_bytes_(unit_tokens * sizeof(TokenId)), message_(sizeof(Key) + token_bytes_, '\0') {
    static constexpr char kName[] = "kvproof";
    std::array<char, sizeof(kName) + sizeof(seed)> root;
    std::memcpy(root.data(), kName, sizeof(kName));
    std::memcpy(root.data() + sizeof(kName), &seed, sizeof(seed));
    root_ = digest_(root.data(), root.size());
  }

  /// The parent of a first unit.
  [[nodiscard]] const Key& root() const { return root_; }

  /// Makes room for the extra keys of a request, so that hashing its units does not allocate.
  void reserve(const ExtraKeys& extra) {
    message_.reserve(sizeof(Key) + token_bytes_ + extra_key_bytes(extra));
  }

  /// @param tokens shape [unit_tokens]
  [[nodiscard]] Key operator()(const Key& parent, const TokenId* tokens) {
    char* message = message_.data();
    std::memcpy(message, parent.words.data(), sizeof(Key));
    std::memcpy(message + sizeof(Key), tokens, token_bytes_);
    return digest_(message, sizeof(Key) + token_bytes_);
  }

  /// The same for a unit that starts at token `start` of a request with extra keys.
  [[nodiscard]] Key operator()(const Key& parent, const TokenId* tokens, const ExtraKeys& extra,
                               std::uint32_t start) {
    const std::size_t plain_bytes = message_.size();
    std::memcpy(message_.data(), parent.words.data(), sizeof(Key));
    std::memcpy(message_.data() + sizeof(Key), tokens, token_bytes_);
    const auto unit = static_cast<std::uint32_t>(token_bytes_ / sizeof(TokenId));
    append_extra_keys(extra, start, start + unit, message_);
    const Key key = digest_(message_.data(), message_.size());
    message_.resize(plain_bytes);
    return key;
  }

 private:
  Digest digest_;
  std::size_t token_bytes_;
  std::string message_;  // shape [key | tokens], longer only while extra keys are hashed
  Key root_;
};

/// XXH3, 128 bits: fast; not collision-resistant against an adversary.
struct Xxh3Digest {
  using Key = Key128;
  static constexpr const char* kName = "xxh3-128";
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;
};

/// SHA-256 through OpenSSL. The context is kept: making one costs twice the hash of a small block.
class Sha256Digest {
 public:
  using Key = Key256;
  static constexpr const char* kName = "sha256";
  Sha256Digest();
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;

 private:
  struct Release {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Release> context_;
};

/// XXH3 cut to four bits, so that different content often has one key. For tests of what a collision does.
struct WeakDigest {
  using Key = Key128;
  static constexpr const char* kName = "weak-4bit";
  [[nodiscard]] Key operator()(const void* data, std::size_t bytes) const;
};

}  // namespace kvproof::optimized
