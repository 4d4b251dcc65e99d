// SPDX-License-Identifier: Apache-2.0
#include "properties/lens/splices.h"

#include <algorithm>
#include <unordered_map>

namespace kvproof::properties {
namespace {

using Ids = std::vector<BlockId>;

/// The middles of two lists, without what both begin and end with.
struct Middles {
  Middles(const Ids& a, const Ids& b) {
    const auto [from, tail] = common_ends(a, b);
    at = from;
    before.assign(a.begin() + std::ptrdiff_t(from), a.end() - std::ptrdiff_t(tail));
    after.assign(b.begin() + std::ptrdiff_t(from), b.end() - std::ptrdiff_t(tail));
  }
  std::size_t at = 0;
  Ids before, after;
};

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
  const Middles middles(before, after);
  std::string out = "[";
  add_splice(middles.at, middles.before.size(), middles.after, out);
  return out + "]";
}

std::string splices_of_queue(const Ids& before, const Ids& after) {
  const auto [start, was, now] = Middles(before, after);
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
  std::size_t at = start;
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
