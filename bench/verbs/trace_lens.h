// SPDX-License-Identifier: Apache-2.0
// The lens of a file: a failing trace, a recording, a recorded run of an engine, or a scene.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/check/subject_options.h"
#include "properties/story/story.h"

namespace kvproof::bench {

struct LensOptions {
  properties::SubjectOptions subject;  // not given = the trace's own
  /// Of a file of several traces, from 0; unset = the first that fails or differs, else the first.
  std::optional<std::uint64_t> trace_index;
};

/// Runs a trace on its subject: a failure under every oracle, a recording beside its answers. A run
/// of an engine (shadow/README.md) is judged, and shown as its events tell it.
/// @throws InputError, and what opening a subject throws
[[nodiscard]] std::shared_ptr<properties::Story> lens_of_file(const std::string& path,
                                                              const LensOptions& options);

/// A built-in trace with captions, properties/story/scenes/NAME.jsonl.
struct Scene {
  std::string name;
  std::string about;  // one sentence
  std::int64_t order = 0;
  std::string path;
};
/// In the order in which one would teach them. @throws InputError
[[nodiscard]] std::vector<Scene> scenes();

[[nodiscard]] std::shared_ptr<properties::Story> lens_of_scene(const Scene& scene);

}  // namespace kvproof::bench
