// SPDX-License-Identifier: Apache-2.0
// THE LIST of implementations: an allocator is added by adding one row. Every property, replay and
// check runs over the rows; the gate, the simulation and the searches build a row as it says.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "optimized/manager_subject.h"

namespace kvproof::optimized {

struct Sha256Digest;  // pool/hashing.h
struct Xxh3Digest;
struct VllmSha256CborDigest;  // pool/vllm_hashing.h
struct VllmSha256Digest;

enum class Role {
  any,
  model,     // the specification, which others are compared with
  standard,  // the one that is meant where none is named
  by_name,   // another row with other keys: tested where it differs, run where it is named
};

struct SubjectRow {
  std::string_view name;
  std::string_view sentence;
  Role role;
  // Of a cache manager: the name of its block hash on command lines, and the type of its digest,
  // by which the gate builds the same manager out of another revision. Else empty.
  std::string_view hash;
  std::string_view digest;
  /// @pre unsupported(config) is empty
  std::unique_ptr<Subject> (*make)(const CacheConfig& config);
  /// The same, no larger than so many requests at one time need, where the class can be told.
  std::unique_ptr<Subject> (*make_small)(const CacheConfig& config, std::uint32_t max_requests);
};

/// A class that is a Subject itself.
template <class S>
constexpr SubjectRow own_class(std::string_view name, std::string_view sentence,
                               Role role = Role::any) {
  return {name,
          sentence,
          role,
          {},
          {},
          [](const CacheConfig& config) -> std::unique_ptr<Subject> {
            return std::make_unique<S>(config);
          },
          [](const CacheConfig& config, std::uint32_t) -> std::unique_ptr<Subject> {
            return std::make_unique<S>(config);
          }};
}

/// A class that this header need not know, by the function that makes one.
template <std::unique_ptr<Subject> (*make)(const CacheConfig&)>
constexpr SubjectRow made_by(std::string_view name, std::string_view sentence,
                             Role role = Role::any) {
  return {name, sentence, role, {}, {}, make, [](const CacheConfig& config, std::uint32_t) {
            return make(config);
          }};
}

template <class D>
struct ManagerRow : SubjectRow {
  using Digest = D;
};

/// CacheManager<D>, which the gate and the simulation call directly.
template <class D>
constexpr ManagerRow<D> manager(std::string_view name, std::string_view sentence,
                                std::string_view hash, std::string_view digest,
                                Role role = Role::any) {
  return {{name, sentence, role, hash, digest,
           [](const CacheConfig& config) { return make_manager_subject<D>(config); },
           [](const CacheConfig& config, std::uint32_t max_requests) {
             return make_manager_subject<D>(config, max_requests);
           }}};
}

inline constexpr std::tuple kSubjectRows{
    made_by<&reference::make_cache_manager>(
        "naive", "the specification: lists and maps, content as keys", Role::model),
    manager<Xxh3Digest>("optimized-xxh3", "the paged allocator, 128-bit XXH3 block hashes", "xxh3",
                        "Xxh3Digest", Role::standard),
    manager<Sha256Digest>("optimized-sha256", "the paged allocator, SHA-256 block hashes", "sha256",
                          "Sha256Digest"),
    manager<VllmSha256Digest>("optimized-vllm_sha256",
                              "the paged allocator, the block hashes of vLLM's sha256",
                              "vllm_sha256", "VllmSha256Digest", Role::by_name),
    manager<VllmSha256CborDigest>("optimized-vllm_sha256_cbor",
                                  "the paged allocator, the block hashes of vLLM's sha256_cbor",
                                  "vllm_sha256_cbor", "VllmSha256CborDigest", Role::by_name),
};

/// The rows without their types.
inline constexpr auto kAllSubjects =
    std::apply([](const auto&... rows) { return std::array<SubjectRow, sizeof...(rows)>{rows...}; },
               kSubjectRows);
static_assert(std::ranges::is_partitioned(
    kAllSubjects, [](Role role) { return role != Role::by_name; }, &SubjectRow::role));

/// Those that every property runs over.
inline constexpr std::span kSubjects(kAllSubjects.begin(),
                                     std::ranges::find(kAllSubjects, Role::by_name,
                                                       &SubjectRow::role));

[[nodiscard]] constexpr const SubjectRow* find_subject(std::string_view name) {
  for (const SubjectRow& row : kAllSubjects) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// The first cache manager of that block hash, or nullptr.
[[nodiscard]] constexpr const SubjectRow* find_manager(std::string_view hash) {
  for (const SubjectRow& row : kAllSubjects) {
    if (!hash.empty() && row.hash == hash) return &row;
  }
  return nullptr;
}

/// The row of that role. @pre there is one
[[nodiscard]] constexpr const SubjectRow& subject_of(Role role) {
  return *std::ranges::find(kAllSubjects, role, &SubjectRow::role);
}

/// Calls visit(std::type_identity<Digest>()) for the digest of the cache manager in that row.
/// @return whether there is one
template <class Visit>
bool visit_manager(const SubjectRow& subject, const Visit& visit) {
  const auto visit_row = [&](const auto& row) {
    if constexpr (requires { typename std::remove_cvref_t<decltype(row)>::Digest; }) {
      if (row.name != subject.name) return false;
      visit(std::type_identity<typename std::remove_cvref_t<decltype(row)>::Digest>());
      return true;
    }
    return false;
  };
  return std::apply([&](const auto&... rows) { return (visit_row(rows) || ...); }, kSubjectRows);
}

}  // namespace kvproof::optimized
