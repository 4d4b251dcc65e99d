// SPDX-License-Identifier: Apache-2.0
// What is checked: an implementation of ours, a shared library, or a program.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "optimized/subjects.h"
#include "properties/check/reach.h"
#include "properties/foreign/foreign_subject.h"

namespace kvproof::properties {

struct Opened {
  std::unique_ptr<Subject> subject;  // none when it cannot be built from this configuration
  Demands demands;
};

struct Candidate {
  std::string name;
  std::string option;  // that names it on a command line, for the replay
  bool foreign = false;
  std::function<Opened(const CacheConfig&)> open;
  std::function<void(bool)> hurry = [](bool) {};  // as ForeignProgram::hurry
};

[[nodiscard]] inline Candidate own_candidate(const optimized::SubjectRow& row) {
  return {std::string(row.name), "--subject=" + std::string(row.name), false,
          [&row](const CacheConfig& config) {
            return Opened{row.make(config), {}};
          }};
}

/// @param option as above
[[nodiscard]] inline Candidate foreign_candidate(std::shared_ptr<ForeignProgram> program,
                                                 std::string option) {
  return {program->name(), std::move(option), true,
          [program](const CacheConfig& config) {
            ForeignProgram::Opening opening = program->open(config);
            return Opened{std::move(opening.subject), {opening.promises, opening.shown}};
          },
          [program](bool on) { program->hurry(on); }};
}

}  // namespace kvproof::properties
