// SPDX-License-Identifier: Apache-2.0
#include "properties/story/splices.h"

#include <algorithm>
#include <unordered_map>

namespace kvproof::properties {
namespace {

using Ids = std::vector<BlockId>;

/// A list without what it begins and ends with in common with another.
Ids middle(const Ids& list, const std::pair<std::size_t, std::size_t>& ends) {
  return {list.begin() + std::ptrdiff_t(ends.first), list.end() - std::ptrdiff_t(ends.second)};
}

void add_splice(std::size_t at, std::size_t cut, const Ids& come, std::string& out) {
  if (cut == 0 && come.empty()) return;
  out += (out.size() > 1 ? ",[" : "[") + std::to_string(at) + "," + std::to_string(cut) + "," +
         ids_json(come) + "]";
}

}  // namespace

std::string ids_json(const Ids& ids) {
  std::string out = "[";
  for (const BlockId id : ids) {
    if (out.size() > 1) out += ',';
    out += std::to_string(id);
  }
  return out + "]";
}

std::string splices_of_table(const Ids& before, const Ids& after) {
  const auto ends = common_ends(before, after);
  std::string out = "[";
  add_splice(ends.first, middle(before, ends).size(), middle(after, ends), out);
  return out + "]";
}

std::string splices_of_queue(const Ids& before, const Ids& after) {
  const auto ends = common_ends(before, after);
  const Ids was = middle(before, ends);
  const Ids now = middle(after, ends);
  // Of each id that is in both: whether it still stands where it stood.
  std::unordered_map<std::uint32_t, bool> stays;
  for (const BlockId id : now) {
    if (!stays.emplace(id, false).second) return splices_of_table(before, after);
  }
  for (const BlockId id : was) {
    const auto at = stays.find(id);
    if (at != stays.end() && std::exchange(at->second, true))
      return splices_of_table(before, after);
  }
  std::string out = "[";
  std::size_t at = ends.first;
  auto old = was.begin();
  auto next = now.begin();
  while (old != was.end() || next != now.end()) {
    std::size_t cut = 0;
    Ids come;
    for (;;) {
      if (old != was.end() && next != now.end() && *old == *next) break;
      const bool comes = next != now.end() && !stays[*next];
      if (comes) {
        come.push_back(*next++);
      } else if (old != was.end()) {
        const auto moved = stays.find(*old++);  // taken out here, put in again where it comes
        if (moved != stays.end()) moved->second = false;
        ++cut;
      } else {
        break;
      }
    }
    add_splice(at, cut, come, out);
    at += come.size();
    for (; old != was.end() && next != now.end() && *old == *next; ++old, ++next) ++at;
  }
  return out + "]";
}

}  // namespace kvproof::properties
