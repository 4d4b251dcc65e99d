// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/hashing.h"

#define OPENSSL_SUPPRESS_DEPRECATED  // SHA256_Init and its two companions, see Sha256Digest
#include <openssl/sha.h>

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvproof::optimized {
namespace {

void append_bytes(const void* data, std::size_t bytes, std::string& out) {
  out.append(static_cast<const char*>(data), bytes);
}

void append_entry(char type, const std::string& text, std::string& out) {
  const auto length = static_cast<std::uint64_t>(text.size());
  out.push_back(type);
  append_bytes(&length, sizeof(length), out);
  out += text;
}

constexpr std::size_t kEntryBytes = 1 + sizeof(std::uint64_t);

}  // namespace

void append_extra_keys(const ExtraKeys& extra, std::uint32_t start, std::uint32_t end,
                       std::string& out) {
  const auto append_overlapping = [&](char type, const std::vector<MultimodalItem>& items) {
    for (const MultimodalItem& item : items) {
      if (item.offset >= end || std::uint64_t{item.offset} + item.length <= start) continue;
      const std::int64_t shift = std::int64_t{item.offset} - std::int64_t{start};
      append_entry(type, item.id, out);
      append_bytes(&shift, sizeof(shift), out);
    }
  };
  if (!extra.lora.empty()) append_entry('L', extra.lora, out);
  if (!extra.lora_path.empty()) append_entry('P', extra.lora_path, out);
  append_overlapping('M', extra.mm);
  append_overlapping('E', extra.embeds);
  // Later units inherit these through the chain.
  if (start == 0 && !extra.salt.empty()) append_entry('S', extra.salt, out);
  if (start == 0 && !extra.layout.empty()) append_entry('D', extra.layout, out);
}

std::size_t extra_key_bytes(const ExtraKeys& extra) {
  std::size_t bytes = 4 * kEntryBytes + extra.lora.size() + extra.lora_path.size() +
                      extra.salt.size() + extra.layout.size();
  for (const auto* items : {&extra.mm, &extra.embeds}) {
    for (const MultimodalItem& item : *items) {
      bytes += kEntryBytes + item.id.size() + sizeof(std::int64_t);
    }
  }
  return bytes;
}

Key128 Xxh3Digest::operator()(const void* data, std::size_t bytes) const {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {{hash.low64, hash.high64}};
}

Key128 WeakDigest::operator()(const void* data, std::size_t bytes) const {
  return {{XXH3_64bits(data, bytes) & 0xf, 0}};
}

// The low-level interface: EVP_DigestInit of OpenSSL 3.0 allocates a context at every call, even
// when it is given one to reuse (counted under it; the allocation test fails with it).
Key256 Sha256Digest::operator()(const void* data, std::size_t bytes) const {
  SHA256_CTX context;
  Key256 key;
  SHA256_Init(&context);
  SHA256_Update(&context, data, bytes);
  SHA256_Final(reinterpret_cast<unsigned char*>(key.words.data()), &context);
  return key;
}

namespace {

/// As the digest, for a length that the compiler knows: it then keeps only the branch for it.
template <std::size_t Bytes, class Digest>
[[gnu::always_inline]] inline typename Digest::Key digest_of(const Digest& digest,
                                                             const void* data) {
  return digest(data, Bytes);
}

}  // namespace

template <class Digest>
ChainHasher<Digest>::ChainHasher(std::uint32_t unit_tokens, std::uint64_t seed,
                                 std::uint32_t lookahead)
    : unit_tokens_(unit_tokens),
      covered_tokens_(unit_tokens + lookahead),
      is_usual_(unit_tokens == kUsualTokens && lookahead == 0),
      message_(sizeof(Key) + covered_tokens_ * sizeof(TokenId), '\0') {
  static constexpr char kName[] = "kvproof";
  std::array<char, sizeof(kName) + sizeof(seed)> root;
  std::memcpy(root.data(), kName, sizeof(kName));
  std::memcpy(root.data() + sizeof(kName), &seed, sizeof(seed));
  root_ = digest_(root.data(), root.size());
  std::memcpy(secret_.data(), XXH3_kSecret, sizeof(secret_));
}

template <class Digest>
void ChainHasher<Digest>::reserve(const ExtraKeys& extra) {
  message_.reserve(message_.size() + extra_key_bytes(extra));
}

template <class Digest>
void ChainHasher<Digest>::hash(const TokenId* tokens, const ExtraKeys* extra, std::uint32_t first,
                               std::uint32_t count, Key* keys) {
  const Key* parent = first == 0 ? &root_ : keys + first - 1;
  tokens += std::size_t{first} * unit_tokens_;
  if (extra == nullptr) {
    hash_plain(tokens, count, *parent, keys + first);
    return;
  }
  const std::size_t plain_bytes = message_.size();
  for (std::uint32_t unit = first; unit < first + count; ++unit, tokens += unit_tokens_) {
    std::memcpy(message_.data(), parent, sizeof(Key));
    std::memcpy(message_.data() + sizeof(Key), tokens, plain_bytes - sizeof(Key));
    const std::uint32_t start = unit * unit_tokens_;
    append_extra_keys(*extra, start, start + covered_tokens_, message_);
    keys[unit] = digest_(message_.data(), message_.size());
    message_.resize(plain_bytes);
    parent = keys + unit;
  }
}

// The message is filled word by word: the compiler then keeps it in registers.
template <class Digest>
[[gnu::flatten]] auto ChainHasher<Digest>::digest_usual(const TokenId* tokens,
                                                        const Key& parent) const -> Key {
  constexpr std::size_t kWords = kUsualTokens * sizeof(TokenId) / sizeof(std::uint64_t);
  constexpr std::size_t kKeyWords = sizeof(Key) / sizeof(std::uint64_t);
  std::uint64_t message[kKeyWords + kWords];
  for (std::size_t i = 0; i < kKeyWords; ++i) message[i] = parent.words[i];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kWords; ++i) {
    std::memcpy(&message[kKeyWords + i], tokens + 2 * i, sizeof(std::uint64_t));
  }
  return digest_of<sizeof(message)>(digest_, message);
}

template <class Digest>
[[gnu::flatten]] void ChainHasher<Digest>::hash_plain(const TokenId* tokens, std::uint32_t count,
                                                      const Key& parent, Key* keys) {
  Key before = parent;
  if (is_usual_) {
    for (std::uint32_t i = 0; i < count; ++i, tokens += kUsualTokens) {
      keys[i] = before = hash_usual(tokens, before);
    }
    return;
  }
  const std::size_t token_bytes = message_.size() - sizeof(Key);
  for (std::uint32_t i = 0; i < count; ++i, tokens += unit_tokens_) {
    std::memcpy(message_.data(), &before, sizeof(Key));
    std::memcpy(message_.data() + sizeof(Key), tokens, token_bytes);
    keys[i] = before = digest_(message_.data(), message_.size());
  }
}

template class ChainHasher<Xxh3Digest>;
template class ChainHasher<Sha256Digest>;
template class ChainHasher<WeakDigest>;

}  // namespace kvproof::optimized
