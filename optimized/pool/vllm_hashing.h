// SPDX-License-Identifier: Apache-2.0
// The very block hashes of vLLM 0.33: keys that can be exchanged with its processes.
//
// Model:   key_k = SHA-256 of the tuple (key_{k-1}, tokens of unit k, extra keys of unit k), as
//          Python's pickle writes it, or as canonical CBOR. Without extra keys the third is None.
//          With lookahead it is the tuple (extra keys or None, each token behind the unit).
// Source:  vLLM 0.33 kv_cache_utils (hash_block_tokens, generate_block_hash_extra_keys,
//          resolve_none_hash_seed); CPython 3.11 Modules/_pickle.c, protocol 5; RFC 8949, 4.2.
// Ours:    what vLLM has no key for; whoever exchanges keys does not use it. A layout is ("layout",
//          text). An item of embedded rows, which vLLM digests, is ("prompt_embeds", its id as
//          bytes), with its place in the unit as a third member unless that is 0. Items overlap
//          no other item of their list.
#pragma once

#include <cstdint>
#include <string>

#include "optimized/pool/hashing.h"
#include "reference/ids.h"
#include "reference/request.h"

namespace kvproof::optimized {

/// One unit as its key covers it.
struct KeyedUnit {
  const TokenId* tokens = nullptr;  // shape [unit_tokens + lookahead]
  std::uint32_t start = 0;          // [tokens] position of the first of them
  std::uint32_t unit_tokens = 0;
  std::uint32_t lookahead = 0;       // [tokens]
  const ExtraKeys* extra = nullptr;  // of the request; nullptr = none
};

/// vLLM's hash function `sha256`.
struct VllmSha256Digest {
  using Key = Key256;
  /// Replaces `message` by what is hashed for a unit behind `parent`.
  static void write(const Key& parent, const KeyedUnit& unit, std::string& message);
  /// Replaces `message` by what is hashed for the seed of a chain.
  static void write(const std::string& seed, std::string& message);
};

/// vLLM's hash function `sha256_cbor`.
struct VllmSha256CborDigest {
  using Key = Key256;
  static void write(const Key& parent, const KeyedUnit& unit, std::string& message);
  static void write(const std::string& seed, std::string& message);
};

template <class Digest>
concept WritesVllmMessages = requires(std::string& message) {
  Digest::write(typename Digest::Key(), KeyedUnit(), message);
};

/// As the ChainHasher of other digests. Seed 0 is vLLM's own: the environment's PYTHONHASHSEED, or
/// "vllm-none-hash" where that is not set. Another seed is that PYTHONHASHSEED.
template <class Digest>
class VllmChainHasher {
 public:
  using Key = typename Digest::Key;

  VllmChainHasher(std::uint32_t unit_tokens, std::uint64_t seed, std::uint32_t lookahead = 0);
  void reserve(const ExtraKeys& extra);
  void hash(const TokenId* tokens, const ExtraKeys* extra, std::uint32_t first, std::uint32_t count,
            Key* keys);
  [[nodiscard]] const Key& root() const { return root_; }
  [[nodiscard]] static bool is_usual() { return false; }
  void hash_next_usual(const TokenId* tokens, std::size_t unit, Key* keys) {
    hash_next(tokens, unit, keys);
  }
  void hash_next(const TokenId* tokens, std::size_t unit, Key* keys) {
    hash(tokens, nullptr, static_cast<std::uint32_t>(unit), 1, keys);
  }

 private:
  std::uint32_t unit_tokens_;
  std::uint32_t lookahead_;
  std::string message_;
  Key root_;
};

template <WritesVllmMessages Digest>
class ChainHasher<Digest> : public VllmChainHasher<Digest> {
 public:
  using VllmChainHasher<Digest>::VllmChainHasher;
};

}  // namespace kvproof::optimized
