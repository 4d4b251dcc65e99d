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

void add_verdicts(Story& story, const Broken& broken) {
  for (std::size_t i = 0; i < broken.breaches.size(); ++i) {
    const Law* law = find_law(broken.breaches[i]);
    const Sentence& said = broken.said[i];
    story.add_verdict({broken.breaches[i], std::string(law != nullptr ? law->name : ""),
                       std::string(law != nullptr ? law->sentence : ""),
                       law != nullptr ? said : broken.text, said.about});
  }
}

}  // namespace kvproof::properties
