// SPDX-License-Identifier: Apache-2.0
// What a worker has made of a step beside what it was given: its own tables and its slot mapping.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

/// That the step was dispatched without a row of that request is a finding.
bool Judge::has_row(const Step& step, std::uint32_t request, const char* field) {
  if (std::ranges::find(step.rows, request, &Row::request) != step.rows.end()) return true;
  if (std::ranges::find(step.idle, request) != step.idle.end()) return true;
  report(kExists, {&asked_[request]}, "the worker has ", field, " of it in step ", step.number,
         ", which was dispatched without a row of it");
  return false;
}

/// A row that the worker's own tables do not cover is not run.
void Judge::take_tables(Step& step, const event::Run& event) {
  for (const auto& [request, lists] : event.tables) {
    if (!has_row(step, request, "tables")) continue;
    const auto tables = std::make_shared<Tables>(lists.size());
    for (std::size_t g = 0; g < lists.size(); ++g) {
      for (const std::uint32_t block : lists[g]) append((*tables)[g], block);
    }
    for (Row& row : step.rows) {
      if (row.request != request) continue;
      row.tables = tables;
      row.own = true;
    }
  }
  std::erase_if(step.rows, [this](const Row& row) {
    std::uint32_t g = 0;
    while (row.own && g < header_.groups.size() && covered(row, g)) ++g;
    return row.own && g < header_.groups.size();
  });
}

void Judge::take_slots(Step& step, const event::Run& event) {
  for (const auto& [request, slots] : event.slots) {
    if (!has_row(step, request, "slots")) continue;
    asked_[request].sent = &slots;
    for (const Row& row : step.rows) {
      if (row.request != request) continue;
      for (const event::Sent& each : slots) check_slot(row, each);
    }
  }
}

void Judge::check_slot(const Row& row, const event::Sent& sent) {
  if (sent.position < row.start || sent.position - row.start >= row.n) {
    return report(kExists, {&asked_[row.request], {}, nullptr, sent.position},
                  "the slot mapping writes a position that is not among ", row.start, " to ",
                  row.start + row.n - 1);
  }
  ++counts_[kTable].evaluated;
  if (!is_null(sent.block) || !in_batch(row)) return;
  report(kTable, {&asked_[row.request], Place{0, sent.block}, nullptr, sent.position},
         "the worker's slot mapping writes it into the null block");
}

/// @return where the slot mapping of the step that runs sends the write, null = as the table says
const event::Sent* Judge::sent_of(const Asked& asked, std::uint32_t group, std::uint32_t position) {
  if (asked.sent == nullptr) return nullptr;
  const auto at = std::ranges::find_if(*asked.sent, [&](const event::Sent& each) {
    return each.group == group && each.position == position;
  });
  return at == asked.sent->end() ? nullptr : &*at;
}

/// Writes content_ position by position.
void Judge::write_by_slots(const Row& row, std::uint32_t group, const Writer& writer) {
  const std::uint32_t size = header_.groups[group].block_size;
  for (std::uint32_t i = 0; i < content_.size(); ++i) {
    const std::uint32_t position = row.start + i;
    const event::Sent* sent = sent_of(asked_[row.request], group, position);
    const Place at = sent ? Place{0, sent->block} : place_of(row, group, position / size);
    scratch_.assign(1, in_group(content_[i], group));
    write(at, group, sent ? sent->offset : position % size, scratch_, writer);
  }
}

/// @return what the worker had of its own, for a finding
std::string Judge::blame(const Row& row, std::uint32_t group, std::uint32_t position) const {
  std::string out = row.own ? ", by the worker's own table" : "";
  if (const event::Sent* sent = sent_of(asked_[row.request], group, position)) {
    out += say(", and the slot mapping sent its write to block ", sent->block, ", offset ",
               sent->offset);
  }
  return out;
}

}  // namespace kvproof::live
