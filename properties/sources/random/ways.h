// SPDX-License-Identifier: Apache-2.0
// Every implementation under every profile, and the configurations and prompts of hand-written
// tests.
#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "optimized/subjects.h"
#include "reference/config.h"

namespace kvproof::properties {

/// One implementation under one profile.
struct Way {
  const optimized::SubjectRow* subject = nullptr;
  const Profile* profile = nullptr;

  /// Whether the profile is older than the change that puts unhashed blocks at the head of the
  /// queue.
  [[nodiscard]] bool is_old() const { return profile->name == "vllm-0.22"; }
  [[nodiscard]] std::string name() const {
    return std::string(subject->name) + " as " + std::string(profile->name);
  }
};

[[nodiscard]] inline std::vector<Way> ways() {
  std::vector<Way> out;
  for (const auto& subject : optimized::kSubjects) {
    for (const Profile& profile : kProfiles) out.push_back({&subject, &profile});
  }
  return out;
}

[[nodiscard]] inline GroupConfig full(std::uint32_t block_size, bool eagle = false) {
  return {.kind = LayerKind::full, .block_size = block_size, .eagle = eagle};
}
[[nodiscard]] inline GroupConfig window(std::uint32_t block_size, std::uint32_t tokens,
                                        bool eagle = false) {
  return {.kind = LayerKind::sliding_window,
          .block_size = block_size,
          .eagle = eagle,
          .window = tokens};
}
[[nodiscard]] inline GroupConfig chunked(std::uint32_t block_size, std::uint32_t tokens) {
  return {.kind = LayerKind::chunked_local, .block_size = block_size, .chunk = tokens};
}
[[nodiscard]] inline GroupConfig mamba(std::uint32_t block_size, MambaMode mode,
                                       std::uint32_t speculative_blocks = 0) {
  return {.kind = LayerKind::mamba,
          .block_size = block_size,
          .mode = mode,
          .speculative_blocks = speculative_blocks};
}

/// A pool of `num_blocks` blocks, the null block included; the hash unit is the greatest that
/// divides every block size.
[[nodiscard]] inline CacheConfig pool(std::uint32_t num_blocks, std::vector<GroupConfig> groups,
                                      bool caching = true) {
  CacheConfig out;
  out.num_blocks = num_blocks;
  out.enable_caching = caching;
  out.max_model_len = 8192;
  out.groups = std::move(groups);
  for (const GroupConfig& group : out.groups) {
    out.hash_block_size = std::gcd(out.hash_block_size, group.block_size);
  }
  return out;
}

/// Tokens from, from + 1, ... Two ranges that do not overlap share nothing.
[[nodiscard]] inline std::vector<TokenId> range(TokenId from, std::uint32_t count) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

/// `shared` tokens that all prompts have in common, then `own` tokens of this family alone.
[[nodiscard]] inline std::vector<TokenId> prompt(std::uint32_t shared, TokenId family,
                                                 std::uint32_t own) {
  std::vector<TokenId> out = range(0, shared);
  const std::vector<TokenId> tail = range(100'000 * family, own);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace kvproof::properties
