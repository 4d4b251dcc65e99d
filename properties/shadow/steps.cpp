// SPDX-License-Identifier: Apache-2.0
// What a step does to the shadow: its tables, its writes and, after all of them, its reads.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

void Judge::put_tables_back(Asked& asked) {
  for (const Table& table : *asked.tables) {
    for (const Entry& entry : table.entries) {
      if (!is_none(entry.block)) --shadow_.block({0, entry.block}).holders;
    }
  }
  asked.computed = 0;
  ++asked.incarnation;
  asked.tables = std::make_shared<Tables>(header_.groups.size());  // rows in flight keep theirs
}

void Judge::append(Table& table, std::uint32_t block) const {
  table.entries.push_back({block, 0, 0});
  if (is_none(block)) table.named = static_cast<std::uint32_t>(table.entries.size());
}

void Judge::set_tables(const event::Row& row, Asked& asked) {
  if (row.told == event::Row::Tables::as_before) return;
  if (row.told == event::Row::Tables::replaced) {
    put_tables_back(asked);
    --asked.incarnation;  // it is still the same stay in the batch
  }
  for (std::uint32_t group = 0; group < row.tables.size(); ++group) {
    for (const std::uint32_t block : row.tables[group]) {
      append((*asked.tables)[group], block);
      if (is_none(block)) continue;
      Block& of = shadow_.block({0, block});
      ++of.holders;
      of.note(event_, Did::held);
    }
  }
}

/// @return the first position that the group still reads behind so many tokens
std::uint32_t Judge::first_read(std::uint32_t group, std::uint32_t computed) const {
  const Progress now{.computed = computed, .cached = computed};
  return static_cast<std::uint32_t>(reads_of(rules_[group], now).from);
}

Judge::Use Judge::use_of(const event::Row& row, std::uint32_t g) const {
  const Group& group = header_.groups[g];
  const std::uint32_t last = row.start + row.n - 1;
  const std::uint32_t stop = last / group.block_size + 1;
  const std::uint32_t from = first_read(g, row.start);
  if (!group.state) return {from, from / group.block_size, row.start / group.block_size, stop};
  const std::uint32_t before = row.start == 0 || group.in_place ? last : from;
  return {from, before / group.block_size, stop - 1, stop};
}

bool Judge::uses(const Row& row, Place at) const {
  for (std::uint32_t g = 0; at.tier == 0 && g < header_.groups.size(); ++g) {
    const Use& use = row.uses[g];
    for (std::uint32_t e = use.first; e < use.stop; ++e) {
      if (place_of(row, g, e).block == at.block) return true;
    }
  }
  return false;
}

void Judge::count_writes(const Row& row, std::int32_t change) {
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const Use& use = row.uses[g];
    for (std::uint32_t e = use.writes; e < use.stop; ++e) {
      shadow_.block(place_of(row, g, e)).step_writers += static_cast<std::uint32_t>(change);
    }
  }
}

/// @return whether whoever else holds a block that the row writes waits for the same content: a hit
///         on what a row of the same step is to compute
bool Judge::shared(const Row& row, std::uint32_t group, std::uint32_t entry) const {
  const std::vector<Identity>& own = asked_[row.request].chain;
  const std::size_t size = header_.groups[group].block_size;
  const std::size_t end = std::min<std::size_t>(row.start + row.n, (entry + 1) * size);
  return std::ranges::all_of(
      holders_of(place_of(row, group, entry).block), [&](const Holder& each) {
        const Asked& other = asked_[each.request];
        const Group& of = header_.groups[each.group];
        // A worker keeps what nobody reads any more.
        if ((each.entry + 1) * of.block_size <= first_read(each.group, other.computed)) return true;
        const bool mine = each.group == group && each.request == row.request;
        if (mine && of.state && each.entry < entry) return true;
        if (each.group != group || each.entry != entry) return false;
        if (mine) return true;
        const std::size_t last = std::min({end, own.size(), other.chain.size()});
        return last > row.start && own[last - 1] == other.chain[last - 1];
      });
}

/// @return whether the row's tables are such that it can run
bool Judge::covered(const Row& row, std::uint32_t group) {
  const char* const whose = row.own ? "the worker's own table" : "the table";
  const Asked& asked = asked_[row.request];
  const Table& table = (*row.tables)[group];
  const Use& use = row.uses[group];
  if (table.entries.size() < use.stop) {
    report(kTable, {&asked, {}, nullptr, row.start}, whose, " of group ", group, " has ",
           table.entries.size(), " entries, and tokens ", row.start, " to ", row.start + row.n,
           " need ", use.stop);
    return false;
  }
  // The worker's own table may name what was not given to the request.
  const std::uint32_t mine = row.own ? 0 : 1;
  const bool gone = row.own && !in_batch(row);
  std::uint32_t entry = table.named > use.first ? use.first : use.writes;
  for (; entry < use.stop; ++entry) {
    const std::uint32_t id = table.entries[entry].block;
    if (id >= header_.tiers[0].blocks) return false;  // S17 has reported it
    if (is_null(id)) {
      const bool between = entry > use.first && entry + 1 < use.stop;
      if (header_.groups[group].state && between) continue;
      report(kTable, {&asked}, "entry ", entry, " of ", whose, " of group ", group,
             " is the null block, and tokens ", row.start, " to ", row.start + row.n, " need it");
      return false;
    }
    const Block& block = shadow_.block({0, id});
    if (entry < use.writes || block.holders <= mine || gone || shared(row, group, entry)) continue;
    report(kTable, {&asked, Place{0, id}}, "writes a block that ", block.holders,
           " entries of tables name", row.own ? ", by the worker's own table" : "");
    return false;
  }
  return true;
}

/// @return whether the row is run
bool Judge::plan(Step& step, const event::Row& given) {
  Asked& asked = asked_[given.req];
  ++counts_[kTable].evaluated;
  if (!asked.live) report(kTable, {&asked}, "a row of a request that has ended");
  if (!asked.live || given.n == 0) return false;
  Row row{asked.tables, given.req, asked.incarnation, asked.turn,
          given.start,  given.n,   given.drafts,      event_};
  row.uses = step.uses.data() + step.uses.size();
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) step.uses.push_back(use_of(given, g));
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    if (!covered(row, g)) return false;
  }
  if (asked.hit) check_hit(asked, row);
  count_writes(row, 1);
  step.rows.push_back(std::move(row));
  return true;
}

void Judge::check_hit(Asked& asked, const Row& row) {
  const event::Hit hit = *asked.hit;
  asked.hit.reset();
  if (!hit.transfer.empty() && find_transfer(hit.transfer) != nullptr) return;  // S4 knows
  ++counts_[kHit].evaluated;
  const std::uint32_t end = std::min(hit.tokens, static_cast<std::uint32_t>(asked.chain.size()));
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const Group& group = header_.groups[g];
    const std::uint32_t span = group.block_size;
    std::uint32_t position = row.uses[g].from;
    // Of states the row has one at hand: the one that it goes on from.
    if (group.state && end != row.start) continue;
    for (; position < end; ++position) {
      if (position / span >= (*row.tables)[g].entries.size()) {
        return report(kHit, {&asked, {}, nullptr, position}, hit.tokens,
                      " tokens were called computed, and the table of group ", g, " ends before");
      }
      const Place at = place_of(row, g, position / span);
      const Block& block = shadow_.block(at);
      const Slot& slot = shadow_.slots(at)[group.state ? 0 : position % span];
      if (block.step_writers + block.writers > 0 || slot.identity == kFailed ||
          slot.identity == kUnjudged || slot.identity == kForgotten ||
          slot.identity == in_group(asked.chain[position], g)) {
        continue;
      }
      return report(kHit, {&asked, at, &slot, position}, hit.tokens,
                    " tokens were called computed, and those of group ", g, " are not there");
    }
  }
}

void Judge::take(const event::Dispatch& event) {
  step_now_ = event.step;
  if (last_dispatched_ && event.step <= *last_dispatched_) {
    report(kExists, {}, "step ", event.step, " is dispatched behind step ", *last_dispatched_);
  }
  last_dispatched_ = std::max(event.step, last_dispatched_.value_or(0));
  Step step{event.step, false, {}, {}, event.copies, event.left_out};
  step.rows.reserve(event.rows.size());
  step.uses.reserve(event.rows.size() * header_.groups.size());
  for (const event::Row& row : event.rows) {
    if (asked_[row.req].live) set_tables(row, asked_[row.req]);
  }
  for (const event::BlockCopy& each : event.copies) ++shadow_.block({0, each.to}).step_writers;
  for (const event::Row& row : event.rows) {
    if (!plan(step, row)) step.idle.push_back(row.req);
  }
  look_at_published(true);  // a step may compute anew what failed to load
  count_step(event);
  steps_in_flight_.push_back(std::move(step));
}

void Judge::take(const event::Run& event) {
  step_now_ = event.step;
  const auto step = find_step(event.step, true);
  if (step != steps_in_flight_.end()) run(*step, event);
}

/// @return the step that runs or retires; the end, and a finding, if none of that number waits
std::deque<Judge::Step>::iterator Judge::find_step(std::uint64_t number, bool to_run) {
  const auto waits = [to_run](const Step& step) { return !to_run || !step.ran; };
  const auto next = std::ranges::find_if(steps_in_flight_, waits);
  const auto named = std::find_if(next, steps_in_flight_.end(), [&](const Step& step) {
    return waits(step) && step.number == number;
  });
  const char* const what = to_run ? " runs" : " retires";
  if (named == steps_in_flight_.end()) {
    report(kExists, {}, "step ", number, what, ", and no step of that number waits for it");
  } else if (named != next) {
    report(kExists, {}, "step ", number, what, " before step ", next->number);
  }
  return named;
}

void Judge::run(Step& step, const event::Run& event) {
  step_now_ = last_ran_ = step.number;
  ran_.emplace_back(event_, step.number);
  step.ran = true;
  for (const event::BlockCopy& each : step.copies) {
    --shadow_.block({0, each.to}).step_writers;
    copy(each);
  }
  for (const event::BlockCopy& each : event.copies) copy(each);
  for (const Row& row : step.rows) count_writes(row, -1);
  if (!event.tables.empty()) take_tables(step, event);
  take_slots(step, event);
  for (const auto& [request, tokens] : event.inputs) asked_[request].fed = &tokens;
  for (Row& row : step.rows) {  // a state is read before it is overwritten
    for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
      if (header_.groups[g].state && asked_[row.request].live) read_state(row, g);
    }
  }
  for (const Row& row : step.rows) feed(row);
  for (const auto& [request, tokens] : event.inputs) asked_[request].fed = nullptr;
  for (Row& row : step.rows) read_row(row);
  for (const auto& [request, slots] : event.slots) asked_[request].sent = nullptr;
  look_at_published(false);
}

void Judge::copy(const event::BlockCopy& copy) {
  const auto from = shadow_.slots({0, copy.from});
  const auto to = shadow_.slots({0, copy.to});
  scratch_.clear();
  for (const Slot& slot : from) scratch_.push_back(slot.identity);
  write({0, copy.to}, copy.group, 0, scratch_, {0, std::nullopt, 0, Did::copy});
  for (std::size_t i = 0; i < from.size(); ++i) to[i].writer = from[i].writer;
}

/// What was fed becomes the identities that the row writes, and the chain goes on where the control
/// thread does not know it yet.
void Judge::feed(const Row& row) {
  Asked& asked = asked_[row.request];
  content_.clear();
  if (row.start > asked.chain.size()) {
    return report(kContent, {&asked, {}, nullptr, row.start},
                  "computes a position whose predecessor has no token");
  }
  if (asked.fed != nullptr && asked.fed->size() != row.n) {
    report(kExists, {&asked, {}, nullptr, row.start}, "the worker is fed ", asked.fed->size(),
           " tokens for a row of ", row.n);
    asked.fed = nullptr;
  }
  if (asked.fed == nullptr) {
    const std::size_t end = std::min<std::size_t>(row.start + row.n, asked.chain.size());
    content_.assign(asked.chain.begin() + row.start,
                    asked.chain.begin() + static_cast<std::ptrdiff_t>(end));
  } else {
    Identity last = row.start == 0 ? asked.base : asked.chain[row.start - 1];
    for (const TokenId token : *asked.fed) content_.push_back(last = link(last, token));
    const std::uint32_t from = std::max(row.start, asked.known);
    for (std::uint32_t p = from; row.turn == asked.turn && p < row.start + row.n; ++p) {
      const Identity identity = content_[p - row.start];
      if (p < asked.chain.size() && asked.chain[p] == identity) continue;
      if (p < asked.chain.size()) cut(asked, p);
      if (p == asked.chain.size()) asked.chain.push_back(identity);
    }
  }
  write_row(row);
  if (content_.size() < row.n) {
    report(kContent, {&asked, {}, nullptr, row.start + static_cast<std::uint32_t>(content_.size())},
           "computes a position that has no token");
  }
}

/// Writes content_.
void Judge::write_row(const Row& row) {
  Asked& asked = asked_[row.request];
  const bool now = in_batch(row);
  const bool as_given = !row.own && asked.sent == nullptr;
  const Writer writer{row.request, row.request, now && as_given ? 1U : 0U, Did::row};
  if (now && (row.tables != asked.tables || !as_given)) ++disturbed_;
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const std::uint32_t size = header_.groups[g].block_size;
    Table& table = (*row.tables)[g];
    table.right = std::min(table.right, row.start / size);
    scratch_.clear();
    if (header_.groups[g].state && !content_.empty()) {
      write_state(row, g, writer);
      continue;
    }
    if (asked.sent != nullptr) {
      write_by_slots(row, g, writer);
      continue;
    }
    for (std::size_t done = 0; done < content_.size(); done += scratch_.size()) {
      const auto position = static_cast<std::uint32_t>(row.start + done);
      const std::size_t end = std::min<std::size_t>(done + size - position % size, content_.size());
      scratch_.clear();
      for (std::size_t i = done; i < end; ++i) scratch_.push_back(in_group(content_[i], g));
      write(place_of(row, g, position / size), g, position % size, scratch_, writer);
    }
  }
  if (now) asked.computed = row.start + row.n;
}

/// A state behind drafts is not judged, and lies in one of as many blocks as there are drafts more.
void Judge::write_state(const Row& row, std::uint32_t group, const Writer& writer) {
  const auto write_to = [&](std::uint32_t block, Identity identity) {
    scratch_.assign(1, row.drafts > 0 ? kUnjudged : in_group(identity, group));
    write({0, block}, group, 0, scratch_, writer);
  };
  bool elsewhere = false;
  if (const auto* const sent = asked_[row.request].sent) {
    for (const event::Sent& each : *sent) {
      const std::uint32_t i = each.position - row.start;
      if (each.group != group || i >= content_.size()) continue;
      write_to(each.block, content_[i]);
      elsewhere = elsewhere || i + 1 == content_.size();
    }
  }
  const std::vector<Entry>& entries = (*row.tables)[group].entries;
  const std::size_t first = row.uses[group].writes;
  const std::size_t stop = std::min(first + row.drafts + 1, entries.size());
  for (std::size_t e = elsewhere ? stop : first; e < stop; ++e) {
    if (!is_null(entries[e].block)) write_to(entries[e].block, content_.back());
  }
}

void Judge::read_row(Row& row) {
  const Asked& asked = asked_[row.request];
  if (!asked.live || row.turn != asked.turn) return;  // its answer is nobody's
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    if (!header_.groups[g].state) read_attention(row, g);
  }
  if (row.failed) spoil(row);
}

/// @return whether the block may be read
bool Judge::read_block(const Row& row, Place at) {
  const Block& block = shadow_.block(at);
  if (block.writers == 0) return true;
  ++counts_[kTarget].evaluated;
  report(kTarget, {&asked_[row.request], at},
         "a step reads a block that a transfer is still to write");
  return false;
}

void Judge::read_attention(Row& row, std::uint32_t group) {
  const Asked& asked = asked_[row.request];
  const Use use = row.uses[group];
  Table& table = (*row.tables)[group];
  ++counts_[kContent].evaluated;
  const bool current = row.tables == asked.tables;
  const bool whole = current && header_.groups[group].window == 0;  // from the first entry on
  const bool undisturbed = whole && table.looked == disturbed_;
  const std::uint32_t size = header_.groups[group].block_size;
  const auto length = static_cast<std::uint32_t>(asked.chain.size());
  const std::uint32_t end = std::min(row.start + row.n, length);
  std::uint32_t entry = undisturbed ? table.right : use.first;
  for (; entry < use.stop; ++entry) {
    const Entry& at = table.entries[entry];
    const Block& block = shadow_.block({0, at.block});
    const std::uint32_t until = std::min((entry + 1) * size, end);
    const bool same = at.version == block.version && at.until >= until && block.writers == 0;
    if (!(current && same) && !read_entry(row, group, entry, until, current)) break;
  }
  if (!whole) return;
  const std::uint32_t full = end / size;
  if (entry >= use.stop) entry = undisturbed ? std::max(table.right, full) : full;
  table.right = entry;
  table.looked = disturbed_;
}

/// @return whether the slots of that entry were right, up to that position
bool Judge::read_entry(Row& row, std::uint32_t group, std::uint32_t number, std::uint32_t until,
                       bool current) {
  const Asked& asked = asked_[row.request];
  Entry& entry = (*row.tables)[group].entries[number];
  const Place at{0, entry.block};
  if (!read_block(row, at)) return false;
  const std::uint32_t begin = number * header_.groups[group].block_size;
  const std::uint32_t least = row.uses[group].from;
  const auto slots = shadow_.slots(at);
  for (std::uint32_t p = std::max(begin, least); p < until; ++p) {
    const Slot& slot = slots[p - begin];
    if (slot.identity == in_group(asked.chain[p], group) || slot.identity == kForgotten) continue;
    misread(row, group, at, slot, p);
    return false;
  }
  if (current && begin >= least) entry = {at.block, shadow_.block(at).version, until};
  return true;
}

void Judge::read_state(Row& row, std::uint32_t group) {
  if (row.start == 0 || row.start > asked_[row.request].chain.size()) return;
  const Place at = place_of(row, group, row.uses[group].first);
  if (!read_block(row, at)) return;
  const Slot& slot = shadow_.slots(at)[0];
  ++counts_[kState].evaluated;
  if (slot.identity == kUnjudged || slot.identity == kForgotten) return;
  if (slot.identity == in_group(asked_[row.request].chain[row.start - 1], group)) return;
  misread(row, group, at, slot, row.start - 1);
}

void Judge::misread(Row& row, std::uint32_t group, Place at, const Slot& slot,
                    std::uint32_t position) {
  const Asked& asked = asked_[row.request];
  if (slot.identity == kFailed && slot.at > row.dispatched) {
    row.failed = true;
    return;
  }
  if (slot.identity == kFailed) {
    ++counts_[kTarget].evaluated;
    return report(kTarget, {&asked, at, &slot, position},
                  "a step reads what has failed to load and was not written anew");
  }
  if (header_.groups[group].state) {
    return report(kState, {&asked, at, &slot, position}, "reads a state that is not of its first ",
                  position + 1, " tokens", blame(row, group, position));
  }
  report(kContent, {&asked, at, &slot, position}, "reads in group ", group,
         " what its own tokens did not write", blame(row, group, position));
}

/// What a row that read a failed block has written is worth nothing.
void Judge::spoil(Row& row) {
  row.failed = true;
  ++disturbed_;
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const Group& group = header_.groups[g];
    const Use& use = row.uses[g];
    for (std::uint32_t e = use.writes; e < use.stop; ++e) {
      const Place at = place_of(row, g, e);
      for (std::uint32_t s = 0; s < (group.state ? 1 : group.block_size); ++s) {
        Slot& slot = shadow_.slots(at)[s];
        const std::uint32_t position = e * group.block_size + s;
        if (slot.writer != row.request || (!group.state && position < row.start)) continue;
        slot = {kFailed, event_, row.request};
      }
      ++shadow_.block(at).version;
      spoiled_.push_back(at);
      doubt(at);
    }
  }
}

void Judge::cut(Asked& asked, std::uint32_t length) {
  if (length < asked.chain.size()) asked.chain.resize(length);
  asked.known = std::min(asked.known, length);
  for (std::uint32_t g = 0; asked.live && g < header_.groups.size(); ++g) {
    Table& table = (*asked.tables)[g];
    const std::uint32_t kept = length / header_.groups[g].block_size;
    table.right = std::min(table.right, kept);
    for (std::size_t e = kept; e < table.entries.size(); ++e) table.entries[e].version = 0;
  }
}

void Judge::take(const event::Retire& event) {
  step_now_ = event.step;
  const auto named = find_step(event.step, false);
  if (named == steps_in_flight_.end()) return;
  if (!named->ran) run(*named, {});
  const Step step = std::move(*named);
  steps_in_flight_.erase(named);
  for (std::size_t i = step.rows.size(); i-- > 0;) {
    asked_[step.rows[i].request].row = &step.rows[i];
  }
  for (const auto& [request, tokens] : event.sampled) {
    const Row* row = asked_[request].row;
    if (row == nullptr) continue;
    const bool dropped = std::ranges::find(event.discarded, request) != event.discarded.end();
    if (dropped || !asked_[request].live || tokens.empty()) {
      counts_[kDiscarded].evaluated += row->failed;
    } else {
      take_answer(*row, tokens);
    }
  }
  for (const Row& row : step.rows) asked_[row.request].row = nullptr;
}

void Judge::take_answer(const Row& row, const std::vector<TokenId>& tokens) {
  Asked& asked = asked_[row.request];
  if (row.failed) {
    ++counts_[kDiscarded].evaluated;
    report(kDiscarded, {&asked}, "its answer is kept, and its row read what failed to load");
  }
  if (asked.taken < asked.answers.size() && !asked.late) {
    report(kAnswer, {&asked}, "of its answer before, ", asked.answers.size() - asked.taken,
           " tokens were not taken");
  }
  asked.answers.assign(tokens.begin(), tokens.end());
  asked.taken = 0;
  asked.late = row.incarnation != asked.incarnation;
}

}  // namespace kvproof::live
