// SPDX-License-Identifier: Apache-2.0
// What the control thread says: requests, their tokens and their ends, and what it claims of
// blocks.
#include <algorithm>
#include <string_view>

#include "properties/live/judge.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::live {

std::uint32_t Judge::index_of(const std::string& name) const {
  const auto at = index_.find(name);
  if (at == index_.end()) throw TextError("req", "a request that has arrived, found " + name);
  return at->second;
}

Identity Judge::content_of(const Asked& asked, std::uint32_t group, std::uint32_t position) const {
  return in_group(asked.chain[position], group);
}

void Judge::take(const event::Request& event) {
  if (index_.contains(event.req)) {
    throw TextError("req", "a new name, found " + event.req + " again");
  }
  Asked asked;
  asked.name = event.req;
  asked.base = mix64(kMixStep);
  for (const char c : event.keys) asked.base = link(asked.base, static_cast<TokenId>(c));
  asked.tables.resize(header_.groups.size());
  for (const TokenId token : event.tokens) {
    asked.chain.push_back(link(asked.chain.empty() ? asked.base : asked.chain.back(), token));
  }
  asked.known = static_cast<std::uint32_t>(asked.chain.size());
  alive_.push_back(static_cast<std::uint32_t>(asked_.size()));
  index_[event.req] = static_cast<std::uint32_t>(asked_.size());
  asked_.push_back(std::move(asked));
}

void Judge::take(const event::Tokens& event) {
  Asked& asked = asked_[index_of(event.req)];
  if (event.length) {  // the next turn of a session
    if (*event.length > asked.known) {
      throw TextError("length", "at most " + std::to_string(asked.known) + " tokens");
    }
    asked.answers.clear();
    ++asked.turn;
    if (*event.length < asked.chain.size()) cut(asked, *event.length);
    asked.computed = std::min(asked.computed, *event.length);
  } else {
    ++spoke_[kAnswer];
  }
  for (const TokenId token : event.append) {
    if (!event.length && (asked.answers.empty() || asked.answers.front() != token)) {
      report(kAnswer,
             say("takes token ", token, ", and ",
                 asked.answers.empty() ? "nothing was sampled"
                                       : say(asked.answers.front(), " was sampled")),
             &asked, {}, nullptr, asked.known);
    }
    if (!event.length && !asked.answers.empty()) asked.answers.pop_front();
    const Identity next = link(asked.known == 0 ? asked.base : asked.chain[asked.known - 1], token);
    if (asked.known < asked.chain.size() && asked.chain[asked.known] != next) {
      cut(asked, asked.known);  // what was fed beyond was rejected
    }
    if (asked.known == asked.chain.size()) asked.chain.push_back(next);
    ++asked.known;
  }
}

void Judge::take(const event::Leave& event) {
  Asked& asked = asked_[index_of(event.req)];
  if (!asked.live) throw TextError("req", "a request that is alive, found " + event.req);
  put_tables_back(asked);
  asked.hit.reset();
  if (event.way == event::Way::preempt) return;
  asked.live = false;
  asked.tables.clear();
  std::erase(alive_, index_of(event.req));
}

void Judge::take(const event::Hit& event) {
  if (!event.transfer.empty() &&
      std::ranges::find(transfer_names_, event.transfer) == transfer_names_.end()) {
    throw TextError("transfer", "one that was started, found " + event.transfer);
  }
  asked_[index_of(event.req)].hit = event;
}

void Judge::take(const event::Publish& event) {
  const std::uint32_t request = index_of(event.req);
  const Asked& asked = asked_[request];
  ++spoke_[kMirror];
  if (event.to == 0) throw TextError("to", "at least 1");
  Identity identity = kUnwritten;
  if (event.to <= asked.chain.size()) identity = content_of(asked, event.group, event.to - 1);
  Block& block = shadow_.block(event.place);
  block.note(event_, event.published ? Did::named : Did::withdrawn);
  if (!event.published) return withdraw(event, identity);
  auto& keys = published_[key_of(event.place)];
  for (const Published& key : keys) {
    if (key.group != event.group || key.identity != identity) continue;
    return report(kMirror, say("is published for tokens up to ", event.to, " a second time"),
                  &asked, event.place);
  }
  ++block.published;
  keys.push_back({event.group, identity, request, event.to, true});
  doubtful_.push_back(event.place);
  look_at_published(false);
}

void Judge::withdraw(const event::Publish& event, Identity identity) {
  const auto at = published_.find(key_of(event.place));
  if (at != published_.end()) {
    const auto found = std::ranges::find_if(at->second, [&](const Published& key) {
      return key.group == event.group && (key.identity == identity || key.identity == kUnwritten);
    });
    if (found != at->second.end()) {
      at->second.erase(found);
      --shadow_.block(event.place).published;
      return;
    }
  }
  report(kMirror, say("is withdrawn for tokens up to ", event.to, " and was not published"),
         &asked_[index_of(event.req)], event.place);
}

/// Looks at published blocks whose writers have ended, or that may have lost their content.
void Judge::look_at_published(bool next_step) {
  std::vector<Place> places;
  places.swap(doubtful_);
  for (const Place at : places) {
    const auto found = published_.find(key_of(at));
    if (found == published_.end()) continue;
    for (Published& key : found->second) check_published(at, key, next_step);
  }
}

void Judge::check_published(Place at, Published& key, bool next_step) {
  const Block& block = shadow_.block(at);
  const Asked& asked = asked_[key.request];
  if (block.step_writers + block.writers > 0) {
    key.awaited = true;
    doubtful_.push_back(at);
    return;
  }
  const Group& group = header_.groups[key.group];
  ++spoke_[kPublished];
  key.awaited = false;
  if (key.to > asked.chain.size()) {
    return report(kPublished, say("is published for ", key.to, " tokens, and nobody has as many"),
                  &asked, at);
  }
  if (key.identity == kUnwritten) key.identity = content_of(asked, key.group, key.to - 1);
  if (key.identity != content_of(asked, key.group, key.to - 1)) return;  // it was cut since
  const std::uint32_t begin =
      group.state ? key.to - 1 : (key.to - 1) / group.block_size * group.block_size;
  for (std::uint32_t p = begin; p < key.to; ++p) {
    const Slot& slot = shadow_.slots(at)[p - begin];
    if (slot.identity == content_of(asked, key.group, p) || slot.identity == kUnjudged) continue;
    if (slot.identity == kFailed && !next_step) {  // the engine has heard of it just now
      doubtful_.push_back(at);
      return;
    }
    return report(kPublished, say("is published for tokens up to ", key.to, " and holds others"),
                  &asked, at, &slot, p);
  }
}

void Judge::take(const event::Queue& event) {
  for (const std::uint32_t id : event.blocks) {
    const Place at{event.tier, id};
    Block& block = shadow_.block(at);
    block.queued = event.freed;
    block.note(event_, event.freed ? Did::freed : Did::taken);
    ++spoke_[kHeld];
    if (!event.freed || block.readers + block.writers == 0) continue;
    report(kHeld, "is on the free queue, and a transfer in flight has yet to copy it", nullptr, at);
  }
}

void Judge::take(const event::Reset& event) {
  for (auto& [place, keys] : published_) {
    const Place at{static_cast<std::uint32_t>(place >> 32U), static_cast<std::uint32_t>(place)};
    if (std::ranges::find(event.tiers, at.tier) == event.tiers.end()) continue;
    shadow_.block(at).published = 0;
    keys.clear();
  }
}

void Judge::take(const event::Raised& event) { report(kRaised, event.what); }

}  // namespace kvproof::live
