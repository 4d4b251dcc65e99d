// SPDX-License-Identifier: Apache-2.0
// The lens of a failure, written beside its trace without being asked.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "properties/random/runner.h"
#include "properties/subject/promises.h"
#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// A new subject whose run is shown, and what it shows of itself.
struct Shown {
  std::unique_ptr<Subject> subject;
  Parts parts = kAllParts;
};
using Show = std::function<Shown(const CacheConfig&)>;

/// Shows a subject that hides nothing.
[[nodiscard]] inline Show show_all(const MakeSubject& make) {
  return [make](const CacheConfig& config) { return Shown{make(config)}; };
}

/// @param options of the command that runs the trace again, if the subject that it names is not
/// enough
[[nodiscard]] std::string replay_command(const std::filesystem::path& trace,
                                         const std::string& options);

/// Writes the lens of a failure under the name of its trace with .html. Its operations are performed
/// again, but for the one in which the subject died.
/// @return a line for the report: where to look, or why there is nothing
[[nodiscard]] std::string write_lens_beside(const std::filesystem::path& trace,
                                            const Failure& failure, const Show& show,
                                            const std::string& options = "");

}  // namespace kvproof::properties
