// SPDX-License-Identifier: Apache-2.0
// The kill matrix: each oracle alone hunts each mutant, in a process of its own.
//
// Model:   a hunt runs random cases until an oracle objects or the operations are used up, then
//          shrinks the trace. "By its law" means that the expected law is among those broken by the
//          first operation that breaks any, without the model.
// Process: a mutant never shares a process with the hunt. It may crash or hang, which is a finding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "properties/audit/audit.h"
#include "properties/audit/runner.h"

namespace kvproof::properties {

inline constexpr std::size_t kLongestTrace = 25;  // [operations] of a kill after shrinking

/// The finding of one oracle about one mutant.
struct Kill {
  bool killed = false;
  std::uint64_t operations = 0;  // up to the first objection, or all that were performed
  double seconds = 0;
  std::vector<std::string> breaches;   // by the first objection
  std::uint32_t trace_operations = 0;  // after shrinking; 0 = it was not shrunk
};

enum class Fate { noticed, survived, crashed, hung };

struct MatrixRow {
  Fate fate = Fate::survived;
  Kill laws;
  Kill model;
  Kill content;
  double seconds = 0;

  [[nodiscard]] bool killed() const { return laws.killed || model.killed || content.killed; }
  /// Whether `law` is among the laws broken by the first operation that broke any.
  [[nodiscard]] bool killed_by(const std::string& law) const {
    return std::ranges::find(laws.breaches, law) != laws.breaches.end();
  }
};

struct MatrixOptions {
  std::uint64_t seed = 1;
  std::uint64_t most_operations = 200'000;  // per mutant and oracle
  double most_seconds = 20;                 // per mutant and oracle
  bool laws_only = false;
  std::uint32_t processes = 0;  // 0 = as many as there are cores
};

/// A seeded bug: a source patch.
struct Seeded {
  std::string id;
  std::string family;
  std::string where;  // the patched file
  std::string sentence;
  std::string law;            // must be among the laws broken first
  std::string configuration;  // a row of configurations.h, if it has a subject
  const Profile* profile = find_profile("vllm-0.24");
  MakeSubject make;
  std::function<Kill(const MatrixOptions&)> hunt = {};  // of what is no subject: by its own laws
};

/// Hunts one mutant with one oracle. @return how it ended
[[nodiscard]] Kill hunt(const Seeded& mutant, Oracles oracles, const MatrixOptions& options);

/// Hunts all rows in parallel. @param done is called after each row, with its index
[[nodiscard]] std::vector<MatrixRow> run_matrix(
    const std::vector<Seeded>& mutants, const MatrixOptions& options,
    const std::function<void(std::size_t index, const MatrixRow& row)>& done);

/// The seeded bugs of mutants.h.
[[nodiscard]] std::vector<Seeded> museum_mutants();
/// The seeded bugs of mutants.h and the source patches of optimized.patches.
[[nodiscard]] std::vector<Seeded> all_mutants();

}  // namespace kvproof::properties
