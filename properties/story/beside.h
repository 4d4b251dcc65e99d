// SPDX-License-Identifier: Apache-2.0
// The lens of a subject, of a failure and of a run; that of a failure is written beside its trace
// without being asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "properties/audit/runner.h"
#include "properties/caller/promises.h"
#include "properties/story/story.h"
#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// A new subject whose run is shown, and what it shows of itself.
struct Shown {
  std::unique_ptr<Subject> subject;
  Parts parts = kAllParts;
  bool by_model = true;  // it promises to answer as the model does
};
using Show = std::function<Shown(const CacheConfig&)>;

/// Shows a subject that hides nothing.
[[nodiscard]] inline Show show_all(const MakeSubject& make) {
  return [make](const CacheConfig& config) { return Shown{make(config)}; };
}

/// A subject whose operations are added to a story. @param story becomes a new one
[[nodiscard]] std::unique_ptr<Subject> with_story(const CacheConfig& config, Shown shown,
                                                  std::shared_ptr<Story>& story);

/// A recorded run, with the findings of its judge. @throws InputError
[[nodiscard]] std::shared_ptr<Story> story_of_run(const std::string& path);

/// Writes the lens of a run beside it, or into the current folder if that cannot be written.
/// @return a line for the report: where to look, or why there is nothing
[[nodiscard]] std::string write_lens_of_run(const std::string& path);

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
