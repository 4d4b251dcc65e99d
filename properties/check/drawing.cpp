// SPDX-License-Identifier: Apache-2.0
#include "properties/check/drawing.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <utility>

#include "properties/story/state_difference.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

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

std::string block_text(const PoolState& pool, BlockId block, const std::string& held,
                       KeyNumbers& names) {
  const BlockState& b = pool.blocks[block];
  std::ostringstream text;
  text << "refs " << b.ref_cnt;
  if (b.hashed) text << "  key " << names.name(b.key);
  if (b.hashed && b.prefix_tokens > 0) text << " of " << b.prefix_tokens << " tokens";
  if (b.tail_key) text << "  second key " << names.name(*b.tail_key);
  for (const FurtherKey& further : pool.further_keys) {
    if (further.block == block) text << "  further key " << names.name(further.key);
  }
  if (!held.empty()) text << "  in " << held;
  return text.str();
}

std::string text_of(const RequestState& r) {
  std::ostringstream text;
  text << r.num_tokens << " tokens, " << r.computed << " computed";
  for (std::size_t g = 0; g < r.tables.size(); ++g) {
    text << (r.tables.size() > 1 ? say("; group ", g, " ") : "; table ") << list_of(r.tables[g]);
    if (g < r.progress.size() && r.progress[g]) text << " cached up to " << *r.progress[g];
  }
  for (const auto& table : r.host_tables) text << "; host " << list_of(table);
  return text.str();
}
std::string text_of(const LeaseState& lease) { return list_of(lease.blocks); }

/// Draws two states as lines; the difference says which of them get marks.
class Drawing {
 public:
  Drawing(const Snapshot& before, const Snapshot& after, KeyNumbers& names)
      : before_(before), after_(after), names_(names) {
    see_keys(before, names_);
    see_keys(after, names_);
  }

  std::string text() {
    const StateDifference changed = difference_of(before_, after_);
    draw_pool(before_, after_, changed, false);
    const bool tier = !before_.host.blocks.empty() || !after_.host.blocks.empty();
    if (tier) draw_pool(before_.host, after_.host, changed.host, true);
    draw_named("request ", before_.requests, after_.requests, changed.requests);
    draw_named("lease ", before_.leases, after_.leases, changed.leases);
    const auto raw = [](const Snapshot& s) { return s.raw.empty() ? "" : list_of(s.raw); };
    line("raw owner", changed.raw, raw(before_), raw(after_));
    return out_.str();
  }

 private:
  void print(char mark, const std::string& label, const std::string& text) {
    if (text.empty()) return;
    out_ << "  " << mark << ' ' << std::left << std::setw(12) << label << ' ' << text << '\n';
  }
  /// A side that is empty is not there.
  void line(const std::string& label, bool changed, const std::string& was,
            const std::string& now) {
    if (changed) print('-', label, was);
    print(changed ? '+' : ' ', label, now);
  }

  template <class Element>
  void draw_named(const char* kind, const std::vector<Element>& before,
                  const std::vector<Element>& after, const std::vector<Sides<Element>>& changed) {
    auto next = changed.begin();
    for (const Sides<Element>& sides : side_by_side(before, after)) {
      const auto& [was, now] = sides;
      const bool differs = next != changed.end() && *next == sides;
      if (differs) ++next;
      line(kind + (now != nullptr ? now : was)->name, differs, was != nullptr ? text_of(*was) : "",
           now != nullptr ? text_of(*now) : "");
    }
  }

  void draw_pool(const PoolState& was, const PoolState& now, const PoolDifference& changed,
                 bool host) {
    const std::string tier = host ? "host " : "";
    const auto queue = [&](const PoolState& p) {
      return host && p.blocks.empty() ? "" : queue_text(p);
    };
    line(tier + "queue", changed.queues(), queue(was), queue(now));
    auto next = changed.blocks.begin();
    for (BlockId b = 1; b < std::max(was.blocks.size(), now.blocks.size()); ++b) {
      const std::string held_before = holders(b, before_, host);
      const std::string held = holders(b, after_, host);
      const bool own = next != changed.blocks.end() && *next == b;
      if (own) ++next;
      const auto text = [&](const PoolState& pool, const std::string& holders) {
        return b < pool.blocks.size() ? block_text(pool, b, holders, names_) : "";
      };
      const std::string after = text(now, held);
      if (!own && held == held_before && after == "refs 0") continue;  // nothing to tell
      std::ostringstream label;
      label << tier << "block " << std::setw(3) << b;
      line(label.str(), own || held != held_before, text(was, held_before), after);
    }
  }

  const Snapshot& before_;
  const Snapshot& after_;
  KeyNumbers& names_;
  std::ostringstream out_;
};

}  // namespace

std::string draw_change(const Snapshot& before, const Snapshot& after, KeyNumbers& names) {
  return Drawing(before, after, names).text();
}
std::string draw_change(const Snapshot& before, const Snapshot& after) {
  KeyNumbers names;
  return draw_change(before, after, names);
}

std::string draw_state(const Snapshot& state, KeyNumbers& names) {
  return draw_change(state, state, names);
}
std::string draw_state(const Snapshot& state) { return draw_change(state, state); }

}  // namespace kvproof::properties
