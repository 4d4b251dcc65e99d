// SPDX-License-Identifier: Apache-2.0
// THE LIST of implementations. Every property, replay and gate runs over these rows; an allocator
// is added by adding one.
#pragma once

#include <memory>
#include <string_view>

#include "optimized/manager_subject.h"
#include "optimized/pool/hashing.h"
#include "reference/cache_manager.h"

namespace kvproof::optimized {

struct SubjectRow {
  std::string_view name;
  std::string_view sentence;
  std::unique_ptr<Subject> (*make)(const CacheConfig& config);  // @pre unsupported(config) is empty
};

inline constexpr SubjectRow kSubjects[] = {
    {"naive", "the specification: lists and maps, content as keys",
     [](const CacheConfig& c) -> std::unique_ptr<Subject> {
       return std::make_unique<reference::CacheManager>(c);
     }},
    {"optimized-xxh3", "the paged allocator, 128-bit XXH3 block hashes",
     [](const CacheConfig& c) { return make_manager_subject<Xxh3Digest>(c); }},
    {"optimized-sha256", "the paged allocator, SHA-256 block hashes",
     [](const CacheConfig& c) { return make_manager_subject<Sha256Digest>(c); }},
};

/// @return the row of that name, or nullptr.
[[nodiscard]] constexpr const SubjectRow* find_subject(std::string_view name) {
  for (const SubjectRow& row : kSubjects) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::optimized
