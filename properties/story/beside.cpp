// SPDX-License-Identifier: Apache-2.0
#include "properties/story/beside.h"

#include <exception>
#include <iostream>
#include <stdexcept>

#include "properties/audit/shrink.h"
#include "properties/shadow/verdict.h"
#include "reference/support/command_words.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<Story> story_of(const Failure& failure, const Show& show, const fs::path& trace,
                                const std::string& options) {
  Shown shown = show(failure.config);
  const Parts parts = shown.parts;
  if (shown.subject == nullptr) throw std::runtime_error("its subject cannot be built");
  std::shared_ptr<Story> story;
  const auto subject = with_story(failure.config, std::move(shown), story);
  const bool dies = failure.names("died") || failure.names("crash") || failure.names("hang");
  try {
    for (const Operation& operation : failure.trace) {
      if (dies && &operation == &failure.trace.back()) {
        const Snapshot last = story->last();
        story->add({.request = {},
                    .state = last,
                    .transfers = {},
                    .operation = &operation,
                    .raised = failure.text});
      } else {
        (void)subject->apply(operation);
      }
    }
  } catch (const std::exception&) {
    // Its step says what it was.
  }
  TraceHeader header;
  header.subject = failure.subject;
  header.config = failure.config;
  for (const std::string& id : failure.breaches)
    header.name += (header.name.empty() ? "" : "+") + id;
  story->describe(header, trace.filename().string(), parts, replay_command(trace, options));
  story->add_verdicts(failure);
  return story;
}

/// What a finding says of a slot: what it should have held, and who wrote what it holds.
LensVerdict verdict_of(const live::Found& found, const live::Judge& judge) {
  LensVerdict out{.law = std::string(kRunLaws[found.law].id), .says = live::in_words(found, judge)};
  if (found.place && found.place->tier == 0) out.about.blocks = {BlockId(found.place->block)};
  if (!found.req.empty()) out.about.requests = {found.req};
  if (found.wrote.empty() || !found.position || found.req.empty()) return out;
  out.expected = found.law == live::kState
                     ? say("the state of the first ", *found.position + 1, " tokens of ", found.req)
                     : say("what ", found.req, " has at position ", *found.position,
                           ", behind its own tokens before it");
  out.found = found.wrote;
  for (const std::string& event : found.before) out.found += "\n" + event;
  return out;
}

/// Writes a page into the first of these files that can be written.
std::string write_lens(const std::function<std::shared_ptr<Story>()>& make,
                       const std::vector<fs::path>& files) {
  std::string why;
  try {
    const std::string page = lens_page(*make());
    for (const fs::path& file : files) {
      try {
        write_whole(page, file, "its lens");
        return say("look at it: ", file_address(file), "\n");
      } catch (const std::runtime_error& error) {
        why = error.what();
      }
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  return say("there is no lens of it: ", why, "\n");
}

}  // namespace

std::unique_ptr<Subject> with_story(const CacheConfig& config, Shown shown,
                                    std::shared_ptr<Story>& story) {
  Snapshot first;
  shown.subject->observe(first);
  constexpr Parts kExplained = kIds | kIndex | kHashes;
  std::unique_ptr<LookupExplainer> lookups;
  if ((shown.parts & kExplained) == kExplained) {
    lookups = std::make_unique<LookupExplainer>(config, FramesOf::operations);
  }
  story = std::make_shared<Story>(config, std::move(first), std::move(lookups));
  return with_frames(
      config, std::move(shown.subject), [story](const Frame& frame) { story->add(frame); },
      shown.by_model);
}

std::shared_ptr<Story> story_of_run(const std::string& path) {
  const live::Judge judge = live::judge_file(path);  // refuses what cannot be read
  TraceHeader trace;
  trace.subject = judge.header().engine;
  trace.config = config_of(judge.header());
  std::shared_ptr<Story> story;
  read_run(path, [&](const live::Header&, const Snapshot& first) {
    auto lookups = std::make_unique<LookupExplainer>(trace.config, FramesOf::events);
    story = std::make_shared<Story>(trace.config, first, std::move(lookups));
    return [story](const Frame& frame) { story->add(frame); };
  });
  story->describe(trace, fs::path(path).filename().string(),
                  kAllParts & ~Parts{kQueue | kReferences | kProgress},
                  kvproof_command("live " + shell_word(path)));
  story->head["live"] = true;
  for (const live::Found& found : judge.findings()) {
    story->add_verdict(verdict_of(found, judge), found.event - 2);
  }
  return story;
}

std::string write_lens_of_run(const std::string& path) {
  const fs::path beside(path.substr(0, path.rfind(".jsonl")) + ".html");
  return write_lens([&] { return story_of_run(path); }, {beside, beside.filename()});
}

std::string write_lens_beside(const fs::path& trace, const Failure& failure, const Show& show,
                              const std::string& options) {
  return write_lens([&] { return story_of(failure, show, trace, options); },
                    {fs::path(trace).replace_extension(".html")});
}

Kept keep_failure(const Failure& failure, std::uint64_t seed, const fs::path& folder,
                  const Show& show, const std::string& options) {
  try {
    const auto file = write_new_failure(failure, seed, folder);
    Kept out{.file = file.string(), .repeat = replay_command(file, options)};
    out.told = write_lens_beside(file, failure, show, options);
    const auto page = fs::path(file).replace_extension(".html");
    if (fs::exists(page)) out.lens = page.string();
    return out;
  } catch (const std::runtime_error& error) {
    std::cerr << "kvproof: " << error.what() << std::endl;
    return {};
  }
}

}  // namespace kvproof::properties
