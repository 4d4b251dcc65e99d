// SPDX-License-Identifier: Apache-2.0
// Facts about vLLM 0.33.0: FACT033(3_6, What) { ... } is a test named F3_6_What, run on the naive
// and on the optimized managers with both hashes.
//
// The numbers are those of reference/vllm/0.33.md. facts_033_list_test.cpp lists what is not
// tested, and why.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/allocators/manager_driver.h"
#include "reference/operations.h"

#define FACT033(number, what)                                            \
  void fact033_##number##_##what(const ::kvproof::properties::Way& way); \
  TEST(Facts033, F##number##_##what) {                                   \
    for (const auto& each_way : ::kvproof::properties::ways_of_033()) {  \
      SCOPED_TRACE(each_way.name());                                     \
      fact033_##number##_##what(each_way);                               \
    }                                                                    \
  }                                                                      \
  void fact033_##number##_##what([[maybe_unused]] const ::kvproof::properties::Way& way)

namespace kvproof::properties {

inline std::vector<Way> ways_of_033() {
  std::vector<Way> out;
  for (const char* name : {"naive", "optimized-xxh3", "optimized-sha256"}) {
    out.push_back({optimized::find_subject(name), find_profile("vllm-0.33")});
  }
  return out;
}

using Tokens = std::vector<std::uint32_t>;

/// The prefixes that keys of a group were stored for, ascending.
inline Tokens stored(const std::vector<Event>& events, GroupId group) {
  Tokens out;
  for (const Event& event : events) {
    const auto* stored = std::get_if<event::Stored>(&event);
    if (stored == nullptr || stored->group != group) continue;
    for (const StoredBlock& block : stored->blocks) out.push_back(block.prefix_tokens);
  }
  std::ranges::sort(out);
  return out;
}
inline Tokens stored(Driver& m, GroupId group) { return stored(m.take_events(), group); }

inline event::Stored stored_event(GroupId group, std::uint32_t from, std::uint32_t to,
                                  std::vector<StoredBlock> blocks) {
  return {.group = group, .from = from, .to = to, .blocks = std::move(blocks)};
}

inline CacheConfig with_retention(CacheConfig config, std::optional<std::uint32_t> interval) {
  config.retention = interval;
  return config;
}
inline CacheConfig with_lookahead(CacheConfig config, std::uint32_t tokens) {
  config.hash_lookahead = tokens;
  return config;
}
inline CacheConfig with_unit(CacheConfig config, std::uint32_t tokens) {
  config.hash_block_size = tokens;
  return config;
}

inline GroupConfig checkpointed(std::uint32_t alignment, std::uint32_t drafts = 0) {
  GroupConfig out = mamba(4, MambaMode::align, drafts);
  out.checkpoint_alignment = alignment;
  return out;
}
inline GroupConfig states() { return mamba(4, MambaMode::align); }

/// A prompt, computed in chunks, each in a step of its own.
inline void prefill(Driver& m, const std::string& name, std::vector<TokenId> tokens,
                    const std::vector<std::uint32_t>& chunks) {
  m.arrive(name, std::move(tokens));
  for (const std::uint32_t chunk : chunks) {
    m.compute(name, chunk);
    m.step();
  }
}
inline void decode(Driver& m, const std::string& name, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    m.append(name, 1);
    m.compute(name, 1);
    m.step();
  }
}

inline std::vector<std::optional<std::uint32_t>> progress(const Driver& m,
                                                          const std::string& name) {
  return m.state().find(name)->progress;
}
using Progress = std::vector<std::optional<std::uint32_t>>;

inline Granted grant(Driver& m, const std::string& name, const AllocateArgs& args) {
  return std::get<Granted>(m.apply(op::Allocate{name, args}).result);
}

}  // namespace kvproof::properties
