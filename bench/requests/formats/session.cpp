// SPDX-License-Identifier: Apache-2.0
#include "bench/requests/formats/session.h"

#include <algorithm>
#include <limits>

namespace kvproof::bench {

void Session::order() {
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Agent {
    std::size_t last_seen = kNone;   // its latest request so far
    std::size_t remaining = 0;       // requests to come
    std::vector<std::size_t> ended;  // last requests of its sub-agents that it has not joined yet
  };
  std::vector<Agent> agents(1);
  for (const SessionRequest& request : requests) {
    const std::size_t highest = std::max(request.agent, request.parent);
    if (agents.size() <= highest) agents.resize(highest + 1);
    ++agents[request.agent].remaining;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SessionRequest& request = requests[i];
    Agent& agent = agents[request.agent];
    Agent& parent = agents[request.parent];
    const bool is_first = agent.last_seen == kNone;
    const std::size_t before = is_first ? parent.last_seen : agent.last_seen;
    if (before != kNone) request.after.push_back(before);
    request.after.insert(request.after.end(), agent.ended.begin(), agent.ended.end());
    agent.ended.clear();
    agent.last_seen = i;
    if (--agent.remaining == 0 && request.agent != 0) parent.ended.push_back(i);
  }
}

}  // namespace kvproof::bench
