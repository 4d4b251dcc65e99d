// SPDX-License-Identifier: Apache-2.0
#include "properties/story/lens.h"

#include <algorithm>

#include "properties/laws/laws.h"
#include "reference/support/say.h"

namespace kvproof::properties {

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
    // A line for each law: "I1 name: what"
    const std::string begin = say(id, " ", law->name, ": ");
    std::size_t from = text.find(begin);
    from = from == std::string::npos ? 0 : from + begin.size();
    const std::size_t to = std::min(text.size(), text.find('\n', from));
    story.add_verdict(
        {id, std::string(law->name), std::string(law->sentence), text.substr(from, to - from)});
  }
}

}  // namespace kvproof::properties
