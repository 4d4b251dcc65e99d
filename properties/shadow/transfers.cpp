// SPDX-License-Identifier: Apache-2.0
// Transfers: what they read and write, when each block is copied, and how they end.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

Judge::Transfer* Judge::find_transfer(const std::string& name) {
  const auto at = std::ranges::find_if(
      transfers_, [&name](const Transfer& transfer) { return transfer.given.transfer == name; });
  return at == transfers_.end() ? nullptr : &*at;
}

void Judge::take(const event::Start& event) {
  ++counts_[kOnce].evaluated;
  Transfer transfer{event, static_cast<std::uint32_t>(transfer_names_.size()), 0, steps_, {}};
  if (event.req) transfer.incarnation = asked_[*event.req].incarnation;
  if (find_transfer(event.transfer) != nullptr) {
    return report(kOnce, {}, "transfer ", event.transfer, " starts while it is in flight");
  }
  const auto hold = [this, &event](Place at, std::uint32_t& users) {
    ++users;
    ++counts_[kHeld].evaluated;
    if (!shadow_.block(at).queued) return;
    report(kHeld, {nullptr, at}, "transfer ", event.transfer, " uses a block of the free queue");
  };
  for (const Place at : event.from) hold(at, shadow_.block(at).readers);
  for (const Place at : event.to) {
    hold(at, shadow_.block(at).writers);
    if (shadow_.block(at).holders > 0) ++disturbed_;
  }
  transfer.moved.resize(std::max(event.from.size(), event.to.size()));
  transfer_names_.push_back(event.transfer);
  transfers_.push_back(std::move(transfer));
}

void Judge::take(const event::Move& event) {
  Transfer* transfer = find_transfer(event.transfer);
  if (transfer == nullptr) {
    return report(kExists, {}, "transfer ", event.transfer, " moves and is not in flight");
  }
  for (const std::uint32_t pair : event.pairs) {
    if (has_pair(*transfer, pair) && !transfer->moved[pair]) move(*transfer, pair);
  }
  look_at_published(false);
}

bool Judge::has_pair(const Transfer& transfer, std::size_t pair) {
  if (pair < transfer.moved.size()) return true;
  const auto& request = transfer.given.req;
  report(kExists, {request ? &asked_[*request] : nullptr}, "transfer ", transfer.given.transfer,
         " has ", transfer.moved.size(), " pairs, counted from 0, and pair ", pair, " is named");
  return false;
}

void Judge::move(Transfer& transfer, std::size_t pair) {
  const event::Start& given = transfer.given;
  transfer.moved[pair] = true;
  const Asked* asked = given.req ? &asked_[*given.req] : nullptr;
  if (pair < given.from.size()) {
    const Place from = given.from[pair];
    --shadow_.block(from).readers;
    if (given.after) {
      ++counts_[kOrder].evaluated;
      if (!last_ran_ || *last_ran_ < *given.after) {
        report(kOrder, {asked, from}, "transfer ", given.transfer, " reads before step ",
               *given.after, ", which fills the block, has run");
      }
    }
  }
  if (pair >= given.to.size()) return;
  scratch_.clear();
  if (given.kind == event::Kind::receive) {
    const Group& group = header_.groups[given.group];
    const Asked* carried = given.carries ? &asked_[*given.carries] : nullptr;
    const std::uint32_t per_block = group.state ? 1 : group.block_size;
    if (carried == nullptr || carried->forgotten) scratch_.assign(per_block, kForgotten);
    for (std::uint32_t i = 0; scratch_.size() < per_block; ++i) {
      const std::size_t p =
          given.first + pair * group.block_size + (group.state ? group.block_size - 1 : i);
      if (p >= carried->chain.size()) break;
      scratch_.push_back(in_group(carried->chain[p], given.group));
    }
  } else {
    for (const Slot& slot : shadow_.slots(given.from[pair])) scratch_.push_back(slot.identity);
  }
  const Place to = given.to[pair];
  --shadow_.block(to).writers;
  write(to, given.group, 0, scratch_,
        {transfer.number | kByTransfer, transfer.given.req, 0, Did::move});
}

/// The pair brought nothing: what it should have filled is worth nothing until it is written anew.
void Judge::fail(Transfer& transfer, std::size_t pair) {
  const bool moved = transfer.moved[pair];
  if (!moved && pair < transfer.given.from.size()) {
    --shadow_.block(transfer.given.from[pair]).readers;
  }
  transfer.moved[pair] = true;
  if (pair >= transfer.given.to.size()) return;
  const Place at = transfer.given.to[pair];
  Block& block = shadow_.block(at);
  if (!moved) --block.writers;
  for (Slot& slot : shadow_.slots(at)) {
    const std::uint32_t number = transfer.number | kByTransfer;
    if (!moved || slot.writer == number) slot = {kFailed, event_, number};
  }
  ++block.version;
  ++disturbed_;
  block.note(event_, Did::failed);
  spoiled_.push_back(at);
  doubt(at);
}

void Judge::lose(Transfer& transfer, const event::Settle& event) {
  std::vector<bool> failed(transfer.moved.size(), event.failed.empty());
  for (const std::uint32_t pair : event.failed) {
    if (has_pair(transfer, pair)) failed[pair] = true;
  }
  for (std::size_t pair = 0; pair < failed.size(); ++pair) {
    if (failed[pair]) {
      fail(transfer, pair);
    } else if (!transfer.moved[pair]) {
      move(transfer, pair);
    }
  }
  // Steps that have read it, and those that have read what these wrote.
  while (!spoiled_.empty()) {
    const Place at = spoiled_.back();
    spoiled_.pop_back();
    for (Step& step : steps_in_flight_) {
      for (Row& row : step.rows) {
        if (step.ran && !row.failed && asked_[row.request].live && uses(row, at)) spoil(row);
      }
    }
  }
}

void Judge::take(const event::Settle& event) {
  ++counts_[kOnce].evaluated;
  Transfer* transfer = find_transfer(event.transfer);
  if (transfer == nullptr) {
    return report(kOnce, {}, "transfer ", event.transfer, " settles and is not in flight");
  }
  spoiled_.clear();  // of rows whose readers have not run
  if (event.outcome == event::Ended::failed) {
    lose(*transfer, event);
  } else {
    for (std::size_t pair = 0; pair < transfer->moved.size(); ++pair) {
      if (transfer->moved[pair]) continue;
      if (event.outcome == event::Ended::done) {
        move(*transfer, pair);
      } else {
        fail(*transfer, pair);  // what an abandoned one has not copied by now stays as it is
      }
    }
  }
  std::erase_if(transfers_, [number = transfer->number](const Transfer& each) {
    return each.number == number;
  });
  look_at_published(false);
}

}  // namespace kvproof::live
