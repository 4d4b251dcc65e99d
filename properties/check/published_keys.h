// SPDX-License-Identifier: Apache-2.0
// Keys that other programs make by a named block hash, with which those of a manager are compared.
//
// Source:  published_keys.py, which asks pickle and hashlib of CPython, cbor2 and xxhash.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// The block hashes whose keys are known, in the order of PublishedKey::keys.
inline constexpr std::array<std::string_view, 4> kPublishedHashes = {
    "xxh3", "sha256", "vllm_sha256", "vllm_sha256_cbor"};

/// A request, and the key of its last complete hash unit.
struct PublishedKey {
  std::string name;
  CacheConfig config;
  op::Arrive arrival;
  std::array<std::string_view, std::size(kPublishedHashes)> keys;  // hexadecimal
};

[[nodiscard]] std::vector<PublishedKey> published_keys();

/// @return what a state behind the arrival shows of the key, if that is not what is published
/// @param hash one of kPublishedHashes
[[nodiscard]] Finding why_another_key(const PublishedKey& row, std::string_view hash,
                                      const Snapshot& state);

}  // namespace kvproof::properties
