// SPDX-License-Identifier: Apache-2.0
#include "properties/lens/lens.h"

#include <algorithm>
#include <exception>
#include <string_view>

#include "properties/laws.h"
#include "properties/lens/beside.h"
#include "properties/lens/page.h"
#include "properties/lens/watched.h"
#include "properties/random/shrink.h"
#include "reference/support/say.h"

namespace kvproof::properties {

std::string replay_command(const std::filesystem::path& trace, const std::string& options) {
  return say("./kvproof replay ", options.empty() ? "" : options + " ", trace.string());
}

void tell_head(Story& story, const TraceHeader& header, const std::string& source, Parts shown,
               const std::string& command) {
  auto hidden = nlohmann::ordered_json::array();
  for (const Part part : {kIds, kQueue, kReferences, kCached, kKeys, kProgress, kHost}) {
    const bool there = part != kHost || header.config.num_host_blocks > 0;
    if ((shown & part) == 0 && there) hidden.push_back(names_of(part));
  }
  const auto config = nlohmann::ordered_json::parse(to_json(header));
  story.head.update({{"title", header.name.empty() ? source : header.name + ", " + source},
                     {"source", source},
                     {"subject", header.subject},
                     {"profile", header.config.profile.name},
                     {"config", config["config"]},
                     {"command", command},
                     {"hidden", hidden},
                     {"difference", nullptr},
                     {"scene", ""},
                     {"live", false}});
}

void add_verdicts(Story& story, const std::vector<std::string>& breaches, const std::string& text) {
  for (const std::string& id : breaches) {
    const Law* law = find_law(id);
    if (law == nullptr) {
      story.add_verdict({id, "", "", text});
      continue;
    }
    // "I1 name: what; I2 name: what"
    const std::string begin = say(id, " ", law->name, ": ");
    std::size_t from = text.find(begin);
    from = from == std::string::npos ? 0 : from + begin.size();
    std::size_t to = text.size();
    for (const std::string& other : breaches) {
      const Law* next = find_law(other);
      if (next == nullptr) continue;
      to = std::min(to, text.find(say("; ", other, " ", next->name, ": "), from));
    }
    story.add_verdict({id, std::string(law->name), std::string(law->sentence),
                       text.substr(from, to - from)});
  }
}

namespace {

std::shared_ptr<Story> story_of(const Failure& failure, const Show& show,
                                const std::string& source, const std::string& command) {
  Shown shown = show(failure.config);
  if (shown.subject == nullptr) throw std::runtime_error("its subject cannot be built");
  std::shared_ptr<Story> story;
  const auto subject = with_story(failure.config, std::move(shown.subject), story);
  constexpr std::string_view kDeaths[] = {"died", "crash", "hang"};
  const bool dies = std::ranges::any_of(
      kDeaths, [&](std::string_view how) { return failure.names(std::string(how)); });
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
  for (const std::string& id : failure.breaches) header.name += (header.name.empty() ? "" : "+") + id;
  tell_head(*story, header, source, shown.parts, command);
  add_verdicts(*story, failure.breaches, failure.text);
  return story;
}

}  // namespace

std::string write_lens_beside(const std::filesystem::path& trace, const Failure& failure,
                              const Show& show, const std::string& options) {
  std::filesystem::path page = trace;
  page.replace_extension(".html");
  try {
    const std::string source = trace.filename().string();
    const auto story = story_of(failure, show, source, replay_command(trace, options));
    const std::string title = story->head["title"];
    write_whole(lens_page(title, story->payload()), page, "its lens");
    return say("look at it: ", page.string(), "\n");
  } catch (const std::exception& error) {
    return say("there is no lens of it: ", error.what(), "\n");
  }
}

}  // namespace kvproof::properties
