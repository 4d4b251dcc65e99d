// SPDX-License-Identifier: Apache-2.0
// The lens of a failure, written beside its trace without being asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "properties/audit/runner.h"
#include "properties/caller/promises.h"
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

/// Writes the lens of a failure under the name of its trace with .html. Its operations are
/// performed again, but for the one in which the subject died.
/// @param options see replay_command
/// @return a line for the report: where to look, or why there is nothing
[[nodiscard]] std::string write_lens_beside(const std::filesystem::path& trace,
                                            const Failure& failure, const Show& show,
                                            const std::string& options = "");

/// What was kept of a failure; empty is what could not be written.
struct Kept {
  std::string file = {};    // its trace
  std::string repeat = {};  // the command that runs it again
  std::string lens = {};    // the page beside it
  std::string told = {};    // the line of write_lens_beside
};

/// Writes a failure as write_new_failure does, and its lens beside it. A file that cannot be
/// written is told on stderr, and loses nothing else.
[[nodiscard]] Kept keep_failure(const Failure& failure, std::uint64_t seed,
                                const std::filesystem::path& folder, const Show& show,
                                const std::string& options = "");

}  // namespace kvproof::properties
