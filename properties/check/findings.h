// SPDX-License-Identifier: Apache-2.0
// The distinct findings of a check, and those that are known.
//
// Distinct: two findings are one if the same laws are broken for the same cause, which is what the
//           first of them says without its numbers. The shortest trace is kept.
// Behind:   where a law was broken often enough, every other run goes on without it, on a state
//           that may be broken already. What is found there stands for itself if a replay with all
//           laws says the same at the same operation; else it may follow from what those laws say.
// Known:    a row of a file applies to the engine and its release, names all laws of the finding,
//           and has words that it says; numbers and signs do not count. kvproof_support/known.py is
//           the same in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/audit/runner.h"

namespace kvproof::properties {

/// A line of a file of known findings. What is empty demands nothing, but a release that nobody
/// knows is none of those from the first to the last.
struct KnownFinding {
  std::string id;
  std::vector<std::string> laws;  // empty: no check sees it
  std::string engine = {};
  std::string says = {};  // words of the finding
  std::string first = {};
  std::string last = {};
  std::string page = {};  // an advisory, or the address of a report
  std::string what = {};  // a sentence for people
  std::string name = {};  // an adapter goes around it by this name: no finding is explained by it
  std::vector<std::string> where = {};

  [[nodiscard]] bool applies_to(const std::string& to, const std::string& release) const;
  [[nodiscard]] bool explains(const std::vector<std::string>& broken, std::string_view reason,
                              const std::string& at) const;
  /// "I13+I18"
  [[nodiscard]] std::string law() const;
  /// "KVP-2026-16 a hit counts a block that is gone vllm-v0.md"
  [[nodiscard]] std::string text() const;
};

/// Reads JSON Lines: {"id":"KVP-2026-44","engine":"nano-vllm","law":"I13+I18","says":"..."}, or as
/// version 0.1.0 had them: {"finding":"I9","reason":"...","link":"..."}.
/// @param is_mine whether a law is one of those that are asked; rows without such a law are left
/// out. @throws InputError
[[nodiscard]] std::vector<KnownFinding> read_known(
    const std::string& path, const std::function<bool(const std::string&)>& is_mine);
/// Whether a check asks it: the id of a law, or what else a finding is named by.
[[nodiscard]] bool is_of_check(const std::string& law);

struct FailureReport {
  Failure failure;              // shrunk
  std::size_t found_after = 0;  // [operations] of the trace before it was shrunk
  std::string where;            // the configuration, the scenario or the vector
  std::uint64_t seen = 1;       // how many runs ended like this
  std::string intended;         // the trait with which this would hold; empty if there is none
  std::uint64_t behind = 0;     // bit i: it is seen only where the i-th law is not asked
  std::optional<KnownFinding> known = {};

  /// "I13+I18"
  [[nodiscard]] std::string laws() const;
  /// "arrive, lookup, allocate"
  [[nodiscard]] std::string shape() const;
  /// " --without-law=C12": what a replay needs beside its subject. Empty if it stands for itself.
  [[nodiscard]] std::string without() const;
  /// What the first law says, without numbers: the subject's own words, where it has said any.
  [[nodiscard]] std::string cause() const;
};

class Findings {
 public:
  /// @param subject of which a check knows no release
  Findings(std::size_t most, std::vector<KnownFinding> known, const std::string& subject = "")
      : most_(most), known_(std::move(known)) {
    std::erase_if(known_, [&](const auto& row) { return !row.applies_to(subject, ""); });
  }

  /// Whether enough of one kind are known, so that a further one is counted and not shrunk.
  [[nodiscard]] bool counts_only(const Failure& failure);
  void add(FailureReport report);

  /// What stands behind others is not counted.
  [[nodiscard]] bool enough() const;
  [[nodiscard]] const std::vector<FailureReport>& all() const { return all_; }
  /// Bit i: the i-th law has so many findings already that later runs do not ask it.
  [[nodiscard]] std::uint64_t laws_seen_enough() const;
  /// Rows of the file that nothing was found for.
  [[nodiscard]] std::vector<KnownFinding> gone() const;

 private:
  static constexpr std::size_t kMostOfOneLaw = 3;

  std::size_t most_;
  std::map<std::string, std::size_t> shrunk_;  // by the first law
  std::vector<KnownFinding> known_;
  std::vector<FailureReport> all_;
};

}  // namespace kvproof::properties
