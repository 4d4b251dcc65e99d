// SPDX-License-Identifier: Apache-2.0
#include "optimized/hashing.h"

#include <openssl/evp.h>

#include <new>

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

void append_extra_keys(const ExtraKeys& extra, std::uint32_t start, std::uint32_t end, std::string& out) {
  if (!extra.lora.empty()) append_entry('L', extra.lora, out);
  for (const MultimodalItem& item : extra.mm) {
    if (item.offset >= end || std::uint64_t{item.offset} + item.length <= start) continue;
    const std::int64_t shift = std::int64_t{item.offset} - std::int64_t{start};
    append_entry('M', item.id, out);
    append_bytes(&shift, sizeof(shift), out);
  }
  // Later units inherit the salt through the chain.
  if (start == 0 && !extra.salt.empty()) append_entry('S', extra.salt, out);
}

std::size_t extra_key_bytes(const ExtraKeys& extra) {
  std::size_t bytes = 2 * kEntryBytes + extra.lora.size() + extra.salt.size();
  for (const MultimodalItem& item : extra.mm) bytes += kEntryBytes + item.id.size() + sizeof(std::int64_t);
  return bytes;
}

Key128 Xxh3Digest::operator()(const void* data, std::size_t bytes) const {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {{hash.low64, hash.high64}};
}

Key128 WeakDigest::operator()(const void* data, std::size_t bytes) const {
  return {{XXH3_64bits(data, bytes) & 0xf, 0}};
}

Sha256Digest::Sha256Digest() : context_(EVP_MD_CTX_new()) {
  auto* context = static_cast<EVP_MD_CTX*>(context_.get());
  if (context == nullptr || EVP_DigestInit_ex2(context, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

Key256 Sha256Digest::operator()(const void* data, std::size_t bytes) const {
  auto* context = static_cast<EVP_MD_CTX*>(context_.get());
  Key256 key;
  // A null type keeps the digest that the context was made with, and skips its look-up.
  EVP_DigestInit_ex2(context, nullptr, nullptr);
  EVP_DigestUpdate(context, data, bytes);
  EVP_DigestFinal_ex(context, reinterpret_cast<unsigned char*>(key.words.data()), nullptr);
  return key;
}

void Sha256Digest::Release::operator()(void* context) const {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context));
}

}  // namespace kvproof::optimized
