// SPDX-License-Identifier: Apache-2.0
#include "properties/check/drawing.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

/// Gives keys short names, which are the same in both states.
class KeyNames {
 public:
  std::string operator()(std::uint64_t key) {
    const auto [at, added] = names_.try_emplace(key, names_.size());
    std::string out;
    for (std::size_t n = at->second + 1; n > 0; n = (n - 1) / 26) {
      out.insert(out.begin(), static_cast<char>('A' + (n - 1) % 26));
    }
    return out;
  }

 private:
  std::map<std::uint64_t, std::size_t> names_;
};

/// One line of a drawing: its subject, by which the lines are ordered, and its text.
struct Line {
  std::pair<int, std::string> about;
  std::string text;
  bool idle = false;  // the line is shown only if it changed
};

std::string queue_text(const PoolState& pool) {
  std::ostringstream out;
  out << pool.num_free << " free";
  for (std::size_t i = 0; i < pool.queue.size(); ++i) {
    out << (i == 0 ? ": head " : " > ") << pool.queue[i];
  }
  if (!pool.queue.empty()) out << " tail";
  const bool same = std::equal(pool.queue.begin(), pool.queue.end(), pool.queue_backward.rbegin(),
                               pool.queue_backward.rend());
  if (!same) out << "; from the tail " << list_of(pool.queue_backward);
  return out.str();
}

std::string holders(BlockId block, const Snapshot& state, bool host) {
  std::string out;
  const auto add = [&out](const std::string& who) { out += (out.empty() ? "" : ", ") + who; };
  for (const RequestState& r : state.requests) {
    const auto& tables = host ? r.host_tables : r.tables;
    for (std::size_t g = 0; g < tables.size(); ++g) {
      for (std::size_t i = 0; i < tables[g].size(); ++i) {
        const std::string group = tables.size() > 1 ? say(" group ", g) : "";
        if (tables[g][i] == block) add(say(r.name, group, " [", i, "]"));
      }
    }
  }
  if (host) return out;
  for (const LeaseState& lease : state.leases) {
    if (std::ranges::find(lease.blocks, block) != lease.blocks.end()) add("lease " + lease.name);
  }
  const auto raw = std::ranges::count(state.raw, block);
  if (raw > 0) add(raw == 1 ? "raw" : say("raw x", raw));
  return out;
}

void draw_pool(const PoolState& pool, const Snapshot& state, bool host, KeyNames& name,
               std::vector<Line>& out) {
  const int first = host ? 10 : 0;
  const std::string tier = host ? "host " : "";
  out.push_back({{first, tier + "queue"}, queue_text(pool)});
  for (BlockId block = 1; block < pool.blocks.size(); ++block) {
    const BlockState& b = pool.blocks[block];
    const std::string held = holders(block, state, host);
    std::ostringstream text;
    text << "refs " << b.ref_cnt;
    if (b.hashed) text << "  key " << name(b.key);
    if (b.hashed && b.prefix_tokens > 0) text << " of " << b.prefix_tokens << " tokens";
    if (b.tail_key) text << "  second key " << name(*b.tail_key);
    for (const FurtherKey& further : pool.further_keys) {
      if (further.block == block) text << "  further key " << name(further.key);
    }
    if (!held.empty()) text << "  in " << held;
    std::ostringstream label;
    label << tier << "block " << std::setw(3) << block;
    out.push_back(
        {{first + 1, label.str()}, text.str(), b.ref_cnt == 0 && !b.hashed && held.empty()});
  }
}

void draw_request(const RequestState& r, std::vector<Line>& out) {
  std::ostringstream text;
  text << r.num_tokens << " tokens, " << r.computed << " computed";
  for (std::size_t g = 0; g < r.tables.size(); ++g) {
    text << (r.tables.size() > 1 ? say("; group ", g, " ") : "; table ") << list_of(r.tables[g]);
    if (g < r.progress.size() && r.progress[g]) text << " cached up to " << *r.progress[g];
  }
  for (const auto& table : r.host_tables) text << "; host " << list_of(table);
  out.push_back({{20, "request " + r.name}, text.str()});
}

std::vector<Line> lines_of(const Snapshot& state, KeyNames& name) {
  std::vector<Line> out;
  draw_pool(state, state, false, name, out);
  if (!state.host.blocks.empty()) draw_pool(state.host, state, true, name, out);
  for (const RequestState& r : state.requests) draw_request(r, out);
  for (const LeaseState& l : state.leases)
    out.push_back({{21, "lease " + l.name}, list_of(l.blocks)});
  if (!state.raw.empty()) out.push_back({{22, "raw owner"}, list_of(state.raw)});
  return out;
}

void print(std::ostream& out, char mark, const std::string& label, const std::string& text) {
  out << "  " << mark << ' ' << std::left << std::setw(12) << label << ' ' << text << '\n';
}

}  // namespace

std::string draw_change(const Snapshot& before, const Snapshot& after) {
  struct Pair {
    const Line* was = nullptr;
    const Line* now = nullptr;
  };
  KeyNames name;
  const std::vector<Line> old_lines = lines_of(before, name);
  const std::vector<Line> new_lines = lines_of(after, name);
  std::map<std::pair<int, std::string>, Pair> all;
  for (const Line& line : old_lines) all[line.about].was = &line;
  for (const Line& line : new_lines) all[line.about].now = &line;
  std::ostringstream out;
  for (const auto& [about, pair] : all) {
    const bool same =
        pair.was != nullptr && pair.now != nullptr && pair.was->text == pair.now->text;
    if (same && pair.was->idle) continue;
    if (same) {
      print(out, ' ', about.second, pair.now->text);
      continue;
    }
    if (pair.was != nullptr) print(out, '-', about.second, pair.was->text);
    if (pair.now != nullptr) print(out, '+', about.second, pair.now->text);
  }
  return out.str();
}

std::string draw_state(const Snapshot& state) { return draw_change(state, state); }

}  // namespace kvproof::properties
