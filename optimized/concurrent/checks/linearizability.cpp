// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/linearizability.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "reference/support/say.h"

namespace kvproof::properties::concurrency {

namespace {

struct Node {
  PoolState state;
  std::array<std::uint8_t, kMostHistoryThreads> num_done{};

  bool operator==(const Node&) const = default;
};
static_assert(std::has_unique_object_representations_v<Node>, "hashed as bytes");

struct NodeHash {
  std::size_t operator()(const Node& node) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&node), sizeof(node)});
  }
};

class Search {
 public:
  Search(const History& history, bool remembers) : history_(history), remembers_(remembers) {
    verdict_.stuck = history.initial;
  }

  /// Whether the rest of the history can follow in some order.
  bool explains_from(const Node& node) {
    if (remembers_ && !visited_.insert(node).second) return false;
    keep_longest(node);
    bool done = true;
    for (std::uint32_t thread = 0; thread < history_.threads.size(); ++thread) {
      const auto& events = history_.threads[thread];
      if (node.num_done[thread] == events.size()) continue;
      done = false;
      const Event& event = events[node.num_done[thread]];
      if (must_wait(node, thread, event)) continue;
      // Only a release has a choice of places, which are mostly the same place.
      std::optional<PoolState> tried;
      for (const bool behind : {true, false}) {
        Node next = node;
        if (!apply(next.state, history_.order, thread, event.step, behind)) break;
        if (tried == next.state) break;
        tried = next.state;
        ++next.num_done[thread];
        if (explains_from(next)) return true;
        if (event.step.kind != StepKind::release) break;
      }
    }
    return done && (!history_.found || *history_.found == node.state);
  }

  [[nodiscard]] const Verdict& verdict() const { return verdict_; }

 private:
  /// Whether a call that is not done yet returned before this one began.
  bool must_wait(const Node& node, std::uint32_t thread, const Event& event) const {
    for (std::uint32_t other = 0; other < history_.threads.size(); ++other) {
      const auto& events = history_.threads[other];
      if (other == thread || node.num_done[other] == events.size()) continue;
      if (events[node.num_done[other]].returned < event.invoked) return true;
    }
    return false;
  }

  void keep_longest(const Node& node) {
    const auto length = [](const auto& done) {
      return std::accumulate(done.begin(), done.end(), std::uint32_t{0});
    };
    if (length(node.num_done) <= length(verdict_.num_done)) return;
    verdict_.num_done = node.num_done;
    verdict_.stuck = node.state;
  }

  const History& history_;
  bool remembers_;
  std::unordered_set<Node, NodeHash> visited_;
  Verdict verdict_;
};

}  // namespace

Verdict linearize(const History& history, bool remembers) {
  Search search(history, remembers);
  const bool linearizable = search.explains_from({history.initial, {}});
  Verdict verdict = search.verdict();
  verdict.linearizable = linearizable;
  return verdict;
}

std::string draw(const History& history, const Verdict& verdict) {
  std::vector<std::pair<std::uint32_t, std::string>> lines;  // by the time they began
  for (std::size_t thread = 0; thread < history.threads.size(); ++thread) {
    const auto& events = history.threads[thread];
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      if (i == 0 || events[i - 1].invoked != event.invoked) {
        lines.emplace_back(event.invoked, say("  thread ", thread, " [", event.invoked, ", ",
                                              event.returned, "]"));
      }
      if (event.step.kind == StepKind::look) continue;
      lines.back().second += (i < verdict.num_done[thread] ? "  " : "  ? ") + to_string(event.step);
    }
  }
  std::ranges::sort(lines);
  std::string text = "calls by the time they began; ? is not in the longest order that was found\n";
  for (const auto& [invoked, line] : lines) text += line + "\n";
  text += say("  that order ends with ", to_string(verdict.stuck), "\n");
  if (history.found) text += say("  the pool was found with ", to_string(*history.found), "\n");
  return text;
}

}  // namespace kvproof::properties::concurrency
