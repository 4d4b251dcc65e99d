// SPDX-License-Identifier: Apache-2.0
// What must happen at last, and how a finding is told.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

void Judge::begin() {
  ++event_;
  step_now_.reset();
  ++counts_[kRaised].evaluated;
  ++counts_[kExists].evaluated;
  if (ended_) report(kExists, {}, "an event comes behind the end of the run");
}

void Judge::take(const Event& event) {
  begin();
  std::visit([this](const auto& one) { take(one); }, event);
}

void Judge::take_line(std::string_view line) {
  if (!lost_.empty()) {
    dropped_ += parse_behind_loss(line);
    ++event_;
    return;
  }
  const ReadEvent read = parse_event(line, header_, names_);
  begin();
  step_now_ = read.step;
  for (const Stray& stray : read.strays) report(kExists, {.req = stray.req}, stray.what);
  if (read.event) std::visit([this](const auto& one) { take(one); }, *read.event);
}

void Judge::take(const event::Lost& event) {
  lost_ = say("cannot tell from line ", event_, " on: ", event.what);
  dropped_ += event.events;
}

void Judge::take(const event::Quiet&) {
  if (!quiet_) quiet_ = steps_;
}

void Judge::count_step(const event::Dispatch& event) {
  ++steps_;
  const bool idle =
      std::ranges::all_of(steps_in_flight_, [](const Step& step) { return step.rows.empty(); });
  ++counts_[kProgress].evaluated;
  empty_ = event.rows.empty() && idle && transfers_.empty() && !alive_.empty() ? empty_ + 1 : 0;
  const Asked* waits = alive_.empty() ? nullptr : &asked_[alive_.front()];
  if (empty_ > header_.patience) {
    report(kProgress, {waits}, empty_,
           " steps without rows while nothing is in flight and it waits");
    empty_ = 0;
  }
  if (!quiet_) return;
  ++counts_[kEnds].evaluated;
  if (steps_ > *quiet_ + header_.patience && !alive_.empty()) {
    report(kEnds, {waits}, "has not ended ", steps_ - *quiet_,
           " steps after arrivals and faults stopped");
  }
  for (const Transfer& transfer : transfers_) {
    ++counts_[kSettled].evaluated;
    if (steps_ <= std::max(*quiet_, transfer.begun) + header_.patience) continue;
    report(kSettled, {transfer.given.req ? &asked_[*transfer.given.req] : nullptr}, "transfer ",
           transfer.given.transfer, " has not settled in ", header_.patience, " steps");
  }
}

void Judge::take(const event::End& event) {
  ended_ = true;
  ++counts_[kEnds].evaluated;
  ++counts_[kSettled].evaluated;
  for (const std::uint32_t r : alive_) {
    report(kEnds, {&asked_[r]}, "has not ended, and the engine says that it has nothing to do");
  }
  for (const Transfer& transfer : transfers_) {
    report(kSettled, {}, "transfer ", transfer.given.transfer, " never settled");
  }
  if (!alive_.empty() || !transfers_.empty()) return;
  ++counts_[kDrain].evaluated;
  for (std::uint32_t tier = 0; tier < event.free.size(); ++tier) {
    const std::uint32_t all = header_.tiers[tier].blocks - (header_.null_block ? 1U : 0U);
    if (event.free[tier].value_or(all) == all) continue;
    report(kDrain, {}, "of ", all, " blocks of tier ", header_.tiers[tier].name, ", ",
           *event.free[tier], " are free at the end");
  }
}

std::string Judge::at_event(std::uint32_t event) const {
  const auto step =
      std::ranges::lower_bound(ran_, event, {}, [](const auto& r) { return r.first; });
  const bool of_step = step != ran_.end() && step->first == event;
  return say("line ", event, of_step ? say(" (step ", step->second, ")") : "");
}

std::string Judge::writer_of(const Slot& slot) const {
  if (slot.writer == Slot::kNobody) return "nobody has written it";
  const bool moved = (slot.writer & kByTransfer) != 0;
  const std::string who =
      moved ? "transfer " + transfer_names_[slot.writer & ~kByTransfer] : names_.of(slot.writer);
  const char* how = slot.identity == kFailed ? "left worthless by " : "written by ";
  return how + who + " at " + at_event(slot.at);
}

const std::string& Judge::name_of(const Asked& asked) const {
  return names_.of(static_cast<std::uint32_t>(&asked - asked_.data()));
}

void Judge::tell(LawId law, const About& about, std::string what) {
  Found found{law, event_, std::move(what), "", about.position, about.place, "", {}, step_now_, ""};
  if (knows_) found.known = knows_(header_, law, found.what);
  LawCount& count = counts_[law];
  const std::uint64_t alike = found.known.empty() ? count.reported - count.known : ++count.known;
  if (alike > kFew) return;
  found.req = about.asked != nullptr ? name_of(*about.asked) : std::string(about.req);
  if (about.slot != nullptr) found.wrote = writer_of(*about.slot);
  for (std::uint32_t i = 0; about.place && i < Block::kRemembered; ++i) {
    const Block& block = shadow_.block(*about.place);
    const std::uint32_t at = (block.next + i) % Block::kRemembered;
    if (block.events[at] == 0) continue;
    const auto did = static_cast<std::size_t>(block.did[at]);
    found.before.push_back(say(at_event(block.events[at]), ": ", kDid[did]));
  }
  findings_.push_back(std::move(found));
}

}  // namespace kvproof::live
