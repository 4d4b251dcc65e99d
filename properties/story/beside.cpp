// SPDX-License-Identifier: Apache-2.0
#include "properties/story/beside.h"

#include <exception>
#include <iostream>
#include <stdexcept>

#include "properties/audit/shrink.h"
#include "properties/story/lens.h"
#include "properties/story/watched.h"
#include "reference/support/command_words.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

std::shared_ptr<Story> story_of(const Failure& failure, const Show& show,
                                const std::filesystem::path& trace, const std::string& options) {
  Shown shown = show(failure.config);
  if (shown.subject == nullptr) throw std::runtime_error("its subject cannot be built");
  std::shared_ptr<Story> story;
  const auto subject = with_story(failure.config, std::move(shown.subject), story);
  const bool dies = failure.names("died") || failure.names("crash") || failure.names("hang");
  try {
    for (const Operation& operation : failure.trace) {
      if (dies && &operation == &failure.trace.back()) {
        story->add_unanswered(operation, failure.text);
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
  tell_head(*story, header, trace.filename().string(), shown.parts, replay_command(trace, options));
  add_verdicts(*story, failure);
  return story;
}

}  // namespace

std::string write_lens_beside(const std::filesystem::path& trace, const Failure& failure,
                              const Show& show, const std::string& options) {
  std::filesystem::path page = trace;
  page.replace_extension(".html");
  try {
    write_whole(lens_page(*story_of(failure, show, trace, options)), page, "its lens");
    return say("look at it: ", file_address(page), "\n");
  } catch (const std::exception& error) {
    return say("there is no lens of it: ", error.what(), "\n");
  }
}

Kept keep_failure(const Failure& failure, std::uint64_t seed, const std::filesystem::path& folder,
                  const Show& show, const std::string& options) {
  try {
    const auto file = write_new_failure(failure, seed, folder);
    Kept out{.file = file.string(), .repeat = replay_command(file, options)};
    out.told = write_lens_beside(file, failure, show, options);
    const auto page = std::filesystem::path(file).replace_extension(".html");
    if (std::filesystem::exists(page)) out.lens = page.string();
    return out;
  } catch (const std::runtime_error& error) {
    std::cerr << "kvproof: " << error.what() << std::endl;
    return {};
  }
}

}  // namespace kvproof::properties
