// SPDX-License-Identifier: Apache-2.0
// What a step does to the shadow: its tables, its writes and, after all of them, its reads.
#include <algorithm>

#include "properties/live/judge.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::live {

void Judge::put_tables_back(Asked& asked) {
  for (const auto& table : asked.tables) {
    for (const Entry& entry : table) {
      if (!is_null(entry.block)) --shadow_.block({0, entry.block}).holders;
    }
  }
  asked.tables.assign(header_.groups.size(), {});
  asked.computed = 0;
  ++asked.incarnation;
}

void Judge::set_tables(const event::Row& row, std::uint32_t request) {
  Asked& asked = asked_[request];
  if (row.told == event::Row::Tables::as_before) return;
  if (row.told == event::Row::Tables::replaced) {
    put_tables_back(asked);
    --asked.incarnation;  // it is still the same stay in the batch
  }
  for (std::uint32_t group = 0; group < row.tables.size(); ++group) {
    for (const std::uint32_t block : row.tables[group]) {
      asked.tables[group].push_back({block, 0, 0});
      if (is_null(block)) continue;
      Block& of = shadow_.block({0, block});
      ++of.holders;
      of.note(event_, Did::held);
    }
  }
}

/// @return whether whoever else holds a block that the row writes waits for the same content: a hit
///         on what a row of the same step is to compute
bool Judge::shared(const Row& row, std::uint32_t group, std::uint32_t entry) const {
  const Asked& own = asked_[row.request];
  const std::uint32_t block = own.tables[group][entry].block;
  const std::uint32_t size = header_.groups[group].block_size;
  const std::size_t end = std::min<std::size_t>(row.start + row.n, (entry + 1) * size);
  for (const std::uint32_t r : alive_) {
    const Asked& other = asked_[r];
    for (std::uint32_t g = 0; g < other.tables.size(); ++g) {
      const Group& of = header_.groups[g];
      for (std::uint32_t e = 0; e < other.tables[g].size(); ++e) {
        if (other.tables[g][e].block != block || (r == row.request && g == group && e == entry)) {
          continue;
        }
        // A worker keeps what has left the window; nobody reads it.
        const bool left =
            of.window > 0 && (e + 1) * of.block_size + of.window <= other.computed + 1;
        if (left) continue;
        const std::size_t last = std::min({end, own.chain.size(), other.chain.size()});
        const bool same = g == group && e == entry && last > row.start &&
                          own.chain[last - 1] == other.chain[last - 1];
        if (!same) return false;
      }
    }
  }
  return true;
}

/// @return whether the row's tables are such that it can run
bool Judge::covered(const Row& row, std::uint32_t group, const Use& use) {
  const Asked& asked = asked_[row.request];
  const bool state = header_.groups[group].state;
  for (std::uint32_t i = 0; i < use.blocks.size(); ++i) {
    const std::uint32_t entry = use.first + i;
    const bool between = state && entry > use.first && entry + 1 < use.first + use.blocks.size();
    if (is_null(use.blocks[i])) {
      if (between) continue;
      report(kTable,
             say("entry ", entry, " of the table of group ", group, " is the null block, and ",
                 "tokens ", row.start, " to ", row.start + row.n, " need it"),
             &asked);
      return false;
    }
    const Block& block = shadow_.block({0, use.blocks[i]});
    if (entry < use.writes || block.holders <= 1 || shared(row, group, entry)) continue;
    report(kTable, say("writes a block that ", block.holders, " entries of tables name"), &asked,
           Place{0, use.blocks[i]});
    return false;
  }
  return true;
}

void Judge::plan(Step& step, const event::Row& given) {
  const std::uint32_t request = index_of(given.req);
  Asked& asked = asked_[request];
  Row row{request, asked.incarnation, given.start, given.n, given.drafts,
          event_,  asked.turn,        false,       {}};
  ++spoke_[kTable];
  if (!asked.live) return report(kTable, "a row of a request that has ended", &asked);
  if (given.n == 0) return;
  const std::uint32_t end = given.start + given.n;
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const Group& group = header_.groups[g];
    std::uint32_t least = 0;
    if (group.window > 0 && given.start + 1 > group.window) least = given.start + 1 - group.window;
    if (group.state) least = given.start == 0 ? end - 1 : given.start - 1;
    Use use{least / group.block_size, given.start / group.block_size, {}};
    if (group.state) use.writes = (end - 1) / group.block_size;
    const std::uint32_t stop = (end - 1) / group.block_size + 1;
    if (asked.tables[g].size() < stop) {
      return report(kTable,
                    say("the table of group ", g, " has ", asked.tables[g].size(),
                        " entries, and tokens ", given.start, " to ", end, " need ", stop),
                    &asked, {}, nullptr, given.start);
    }
    use.blocks.reserve(stop - use.first);
    for (std::uint32_t e = use.first; e < stop; ++e) use.blocks.push_back(asked.tables[g][e].block);
    if (!covered(row, g, use)) return;
    row.uses.push_back(std::move(use));
  }
  check_hit(asked, row);
  for (const Use& use : row.uses) {
    for (std::uint32_t i = 0; i < use.blocks.size(); ++i) {
      Block& block = shadow_.block({0, use.blocks[i]});
      ++block.step_users;
      block.step_writers += use.first + i >= use.writes ? 1 : 0;
    }
  }
  step.rows.push_back(std::move(row));
}

void Judge::check_hit(Asked& asked, const Row& row) {
  if (!asked.hit) return;
  const event::Hit hit = *asked.hit;
  asked.hit.reset();
  if (!hit.transfer.empty() && find_transfer(hit.transfer) != nullptr) return;  // S4 knows
  ++spoke_[kHit];
  const std::uint32_t end =
      std::min({hit.tokens, row.start, static_cast<std::uint32_t>(asked.chain.size())});
  for (std::uint32_t g = 0; g < row.uses.size(); ++g) {
    const Group& group = header_.groups[g];
    const Use& use = row.uses[g];
    const std::uint32_t span = group.block_size;
    std::uint32_t position = use.first * span;
    if (group.window > 0 && row.start + 1 > group.window) position = row.start + 1 - group.window;
    // Of states the row has one at hand: the one that it goes on from.
    if (group.state) position = end > 0 && end == row.start ? end - 1 : end;
    for (; position < end; ++position) {
      const Place at{0, use.blocks[position / span - use.first]};
      const Block& block = shadow_.block(at);
      const Slot& slot = shadow_.slots(at)[group.state ? 0 : position % span];
      if (block.step_writers + block.writers > 0 || slot.identity == kFailed ||
          slot.identity == kUnjudged || slot.identity == content_of(asked, g, position)) {
        continue;
      }
      return report(
          kHit,
          say(hit.tokens, " tokens were called computed, and those of group ", g, " are not there"),
          &asked, at, &slot, position);
    }
  }
}

void Judge::take(const event::Dispatch& event) {
  if (last_dispatched_ && event.step <= *last_dispatched_) {
    throw TextError("step", "a number above " + std::to_string(*last_dispatched_));
  }
  last_dispatched_ = step_now_ = event.step;
  Step step{event.step, false, {}, event.copies};
  for (const event::Row& row : event.rows) {
    const std::uint32_t request = index_of(row.req);
    if (asked_[request].live) set_tables(row, request);
  }
  step.rows.reserve(event.rows.size());
  for (const event::Row& row : event.rows) plan(step, row);
  look_at_published(true);  // a step may compute anew what failed to load
  count_step(event);
  steps_in_flight_.push_back(std::move(step));
}

void Judge::take(const event::Run& event) {
  const auto next = std::ranges::find_if(steps_in_flight_, [](const Step& s) { return !s.ran; });
  if (next == steps_in_flight_.end() || next->number != event.step) {
    throw TextError("step", next == steps_in_flight_.end()
                                ? "no run, because no step waits for one"
                                : "the next step, " + std::to_string(next->number));
  }
  run(*next, event.inputs);
}

void Judge::run(Step& step, const TokensOf& inputs) {
  step_now_ = last_ran_ = step.number;
  ran_.emplace_back(event_, step.number);
  step.ran = true;
  for (const event::BlockCopy& copy : step.copies) {
    const auto from = shadow_.slots({0, copy.from});
    scratch_.clear();
    for (const Slot& slot : from) scratch_.push_back(slot.identity);
    write({0, copy.to}, copy.group, 0, scratch_, {0, std::nullopt, 0, Did::copy});
  }
  std::unordered_map<std::string_view, const std::vector<TokenId>*> fed;
  for (const auto& [name, tokens] : inputs) {
    static_cast<void>(index_of(name));
    fed[name] = &tokens;
  }
  for (Row& row : step.rows) {  // a state is read before it is overwritten
    for (std::uint32_t g = 0; g < row.uses.size(); ++g) {
      if (header_.groups[g].state && asked_[row.request].live) read_state(row, g);
    }
  }
  for (Row& row : step.rows) {
    const auto at = fed.empty() ? fed.end() : fed.find(asked_[row.request].name);
    feed(row, at == fed.end() ? nullptr : at->second);
  }
  for (const Row& row : step.rows) end_of_use(row);
  for (Row& row : step.rows) read_row(row);
  look_at_published(false);
}

void Judge::end_of_use(const Row& row) {
  for (const Use& use : row.uses) {
    for (std::uint32_t i = 0; i < use.blocks.size(); ++i) {
      Block& block = shadow_.block({0, use.blocks[i]});
      --block.step_users;
      block.step_writers -= use.first + i >= use.writes ? 1 : 0;
    }
  }
}

/// What was fed becomes the identities that the row writes, and the chain goes on where the control
/// thread does not know it yet.
void Judge::feed(Row& row, const std::vector<TokenId>* fed) {
  Asked& asked = asked_[row.request];
  scratch_.clear();
  if (row.start > asked.chain.size()) {
    return report(kContent, "computes a position whose predecessor has no token", &asked, {},
                  nullptr, row.start);
  }
  if (fed == nullptr) {
    const std::size_t end = std::min<std::size_t>(row.start + row.n, asked.chain.size());
    scratch_.assign(asked.chain.begin() + row.start,
                    asked.chain.begin() + static_cast<std::ptrdiff_t>(end));
  } else {
    if (fed->size() != row.n) {
      throw TextError("inputs", std::to_string(row.n) + " tokens for " + asked.name);
    }
    Identity last = row.start == 0 ? asked.base : asked.chain[row.start - 1];
    for (const TokenId token : *fed) scratch_.push_back(last = link(last, token));
    const std::uint32_t from = std::max(row.start, asked.known);
    for (std::uint32_t p = from; row.turn == asked.turn && p < row.start + row.n; ++p) {
      const Identity identity = scratch_[p - row.start];
      if (p < asked.chain.size() && asked.chain[p] == identity) continue;
      if (p < asked.chain.size()) cut(asked, p);
      if (p == asked.chain.size()) asked.chain.push_back(identity);
    }
  }
  const auto fed_tokens = static_cast<std::uint32_t>(scratch_.size());
  write_row(row);
  if (fed_tokens < row.n) {
    report(kContent, "computes a position that has no token", &asked, {}, nullptr,
           row.start + fed_tokens);
  }
}

void Judge::write_row(const Row& row) {
  const Asked& asked = asked_[row.request];
  std::vector<Identity>& content = content_;
  content.swap(scratch_);
  for (std::uint32_t g = 0; g < row.uses.size(); ++g) {
    const Group& group = header_.groups[g];
    const bool current = asked.live && asked.incarnation == row.incarnation;
    const Writer writer{row.request, row.request, current ? 1U : 0U, Did::row};
    if (group.state) {
      scratch_.clear();
      if (!content.empty())
        scratch_.push_back(row.drafts > 0 ? kUnjudged : in_group(content.back(), g));
      if (!content.empty()) write({0, row.uses[g].blocks.back()}, g, 0, scratch_, writer);
      continue;
    }
    for (std::uint32_t done = 0; done < content.size();) {
      const std::uint32_t position = row.start + done;
      const std::uint32_t offset = position % group.block_size;
      const auto n = std::min<std::uint32_t>(group.block_size - offset,
                                             static_cast<std::uint32_t>(content.size()) - done);
      scratch_.clear();
      for (std::uint32_t i = 0; i < n; ++i) scratch_.push_back(in_group(content[done + i], g));
      const std::uint32_t entry = position / group.block_size - row.uses[g].first;
      write({0, row.uses[g].blocks[entry]}, g, offset, scratch_, writer);
      done += n;
    }
  }
  if (asked.live && asked.incarnation == row.incarnation) {
    asked_[row.request].computed = row.start + row.n;
  }
}

void Judge::read_row(Row& row) {
  const Asked& asked = asked_[row.request];
  if (!asked.live || row.turn != asked.turn) return;  // its answer is nobody's
  for (std::uint32_t g = 0; g < row.uses.size(); ++g) {
    if (!header_.groups[g].state) read_attention(row, g);
  }
  if (row.failed) spoil(row);
}

/// @return whether the block may be read
bool Judge::read_block(Row& row, Place at) {
  const Block& block = shadow_.block(at);
  if (block.writers == 0) return true;
  ++spoke_[kTarget];
  report(kTarget, "a step reads a block that a transfer is still to write", &asked_[row.request],
         at);
  return false;
}

void Judge::read_attention(Row& row, std::uint32_t group) {
  Asked& asked = asked_[row.request];
  const Group& of = header_.groups[group];
  const Use& use = row.uses[group];
  const bool current = asked.incarnation == row.incarnation;
  const std::uint32_t end =
      std::min(row.start + row.n, static_cast<std::uint32_t>(asked.chain.size()));
  std::uint32_t least = 0;
  if (of.window > 0 && row.start + 1 > of.window) least = row.start + 1 - of.window;
  ++spoke_[kContent];
  for (std::uint32_t i = 0; i < use.blocks.size(); ++i) {
    const std::uint32_t begin = (use.first + i) * of.block_size;
    const std::uint32_t until = std::min(begin + of.block_size, end);
    const Place at{0, use.blocks[i]};
    const Block& block = shadow_.block(at);
    auto& table = asked.tables[group];
    Entry* entry = current && use.first + i < table.size() ? &table[use.first + i] : nullptr;
    if (entry != nullptr && entry->block != at.block) entry = nullptr;
    if (entry != nullptr && entry->version == block.version && entry->until >= until &&
        block.writers == 0) {
      continue;
    }
    if (!read_block(row, at)) return;
    const auto slots = shadow_.slots(at);
    for (std::uint32_t p = std::max(begin, least); p < until; ++p) {
      const Slot& slot = slots[p - begin];
      if (slot.identity == in_group(asked.chain[p], group)) continue;
      return misread(row, group, at, slot, p);
    }
    if (entry != nullptr && begin >= least) *entry = {at.block, block.version, until};
  }
}

void Judge::read_state(Row& row, std::uint32_t group) {
  if (row.start == 0 || row.start > asked_[row.request].chain.size()) return;
  const Place at{0, row.uses[group].blocks.front()};
  if (!read_block(row, at)) return;
  const Slot& slot = shadow_.slots(at)[0];
  ++spoke_[kState];
  if (slot.identity == kUnjudged) return;
  if (slot.identity == content_of(asked_[row.request], group, row.start - 1)) return;
  misread(row, group, at, slot, row.start - 1);
}

void Judge::misread(Row& row, std::uint32_t group, Place at, const Slot& slot,
                    std::uint32_t position) {
  const Asked& asked = asked_[row.request];
  if (slot.identity == kFailed && slot.event > row.dispatched) {
    row.failed = true;
    return;
  }
  if (slot.identity == kFailed) {
    ++spoke_[kTarget];
    return report(kTarget, "a step reads what has failed to load and was not written anew", &asked,
                  at, &slot, position);
  }
  if (header_.groups[group].state) {
    return report(kState, say("reads a state that is not of its first ", position + 1, " tokens"),
                  &asked, at, &slot, position);
  }
  report(kContent, say("reads in group ", group, " what its own tokens did not write"), &asked, at,
         &slot, position);
}

/// What a row that read a failed block has written is worth nothing.
void Judge::spoil(Row& row) {
  row.failed = true;
  for (std::uint32_t g = 0; g < row.uses.size(); ++g) {
    const Group& group = header_.groups[g];
    const Use& use = row.uses[g];
    for (std::uint32_t e = use.writes; e < use.first + use.blocks.size(); ++e) {
      const Place at{0, use.blocks[e - use.first]};
      for (std::uint32_t s = 0; s < (group.state ? 1 : group.block_size); ++s) {
        Slot& slot = shadow_.slots(at)[s];
        const std::uint32_t position = e * group.block_size + s;
        if (slot.writer != row.request || (!group.state && position < row.start)) continue;
        slot = {kFailed, event_, row.request};
      }
      ++shadow_.block(at).version;
      spoiled_.push_back(at);
      if (shadow_.block(at).published > 0) doubtful_.push_back(at);
    }
  }
}

void Judge::cut(Asked& asked, std::uint32_t length) {
  if (length < asked.chain.size()) asked.chain.resize(length);
  asked.known = std::min(asked.known, length);
  for (std::uint32_t g = 0; g < asked.tables.size(); ++g) {
    auto& table = asked.tables[g];
    for (std::size_t e = length / header_.groups[g].block_size; e < table.size(); ++e) {
      table[e].version = 0;
    }
  }
}

void Judge::take(const event::Retire& event) {
  if (steps_in_flight_.empty() || steps_in_flight_.front().number != event.step) {
    throw TextError("step",
                    steps_in_flight_.empty()
                        ? "none, because no step is in flight"
                        : "the oldest step, " + std::to_string(steps_in_flight_.front().number));
  }
  if (!steps_in_flight_.front().ran) run(steps_in_flight_.front(), {});
  step_now_ = event.step;
  const Step step = std::move(steps_in_flight_.front());
  steps_in_flight_.pop_front();
  for (const auto& [name, tokens] : event.sampled) {
    const std::uint32_t request = index_of(name);
    Asked& asked = asked_[request];
    const auto row = std::ranges::find(step.rows, request, &Row::request);
    const bool dropped = std::ranges::find(event.discarded, name) != event.discarded.end();
    if (row == step.rows.end() || dropped || !asked.live || tokens.empty()) {
      if (row != step.rows.end()) spoke_[kDiscarded] += row->failed;
      continue;
    }
    if (row->failed) {
      ++spoke_[kDiscarded];
      report(kDiscarded, "its answer is kept, and its row read what failed to load", &asked);
    }
    if (!asked.answers.empty() && !asked.late) {
      report(kAnswer, say("of its answer before, ", asked.answers.size(), " tokens were not taken"),
             &asked);
    }
    asked.answers.assign(tokens.begin(), tokens.end());
    asked.late = row->incarnation != asked.incarnation;
  }
}

}  // namespace kvproof::live
