// SPDX-License-Identifier: Apache-2.0
// What the control thread says: requests, their tokens and their ends, and what it claims of
// blocks.
#include <algorithm>

#include "properties/shadow/judge.h"
#include "reference/trace_json.h"

namespace kvproof::live {

void Judge::take(const event::Request& event) {
  Asked asked;
  asked.base = kEmptyPrefix;
  for (const char c : event.keys) asked.base = link(asked.base, static_cast<TokenId>(c));
  asked.tables = std::make_shared<Tables>(header_.groups.size());
  asked.chain.reserve(event.tokens.size());
  for (const TokenId token : event.tokens) {
    asked.chain.push_back(link(asked.chain.empty() ? asked.base : asked.chain.back(), token));
  }
  asked.known = static_cast<std::uint32_t>(asked.chain.size());
  alive_.push_back(event.req);
  asked_.push_back(std::move(asked));
}

void Judge::take(const event::Tokens& event) {
  Asked& asked = asked_[event.req];
  if (event.length) {  // the next turn of a session
    if (*event.length > asked.known && !asked.forgotten) {
      report(kExists, {&asked, {}, nullptr, asked.known}, "is cut to ", *event.length,
             " tokens, and has ", asked.known);
    }
    asked.answers.clear();
    asked.taken = 0;
    ++asked.turn;
    cut(asked, std::min(*event.length, asked.known));
    asked.computed = std::min(asked.computed, *event.length);
  } else {
    ++counts_[kAnswer].evaluated;
  }
  for (const TokenId token : event.append) {
    const bool sampled = asked.taken < asked.answers.size();
    if (!event.length && (!sampled || asked.answers[asked.taken] != token)) {
      report(kAnswer, {&asked, {}, nullptr, asked.known}, "takes token ", token, ", and ",
             sampled ? say(asked.answers[asked.taken], " was sampled") : "nothing was sampled");
    }
    if (!event.length && sampled) ++asked.taken;
    const Identity next = link(asked.known == 0 ? asked.base : asked.chain[asked.known - 1], token);
    if (asked.known < asked.chain.size() && asked.chain[asked.known] != next) {
      cut(asked, asked.known);  // what was fed beyond was rejected
    }
    if (asked.known == asked.chain.size()) asked.chain.push_back(next);
    ++asked.known;
  }
}

void Judge::take(const event::Leave& event) {
  Asked& asked = asked_[event.req];
  if (!asked.live) return report(kExists, {&asked}, "is given back, and has ended already");
  put_tables_back(asked);
  asked.hit.reset();
  if (event.way == event::Way::preempt) return;
  asked.live = false;
  asked.tables.reset();
  std::vector<TokenId>().swap(asked.answers);
  asked.taken = 0;
  asked.chain.shrink_to_fit();
  std::erase(alive_, event.req);
  gone_.emplace_back(event.req, asked.chain.size());
  gone_tokens_ += asked.chain.size();
  forget();
}

bool Judge::in_flight(std::uint32_t request) const {
  const auto has_row = [request](const Step& step) {
    return std::ranges::find(step.rows, request, &Row::request) != step.rows.end();
  };
  return std::ranges::any_of(steps_in_flight_, has_row) ||
         std::ranges::any_of(transfers_, [request](const Transfer& transfer) {
           return transfer.given.req == request || transfer.given.carries == request;
         });
}

std::size_t Judge::room_of_gone() const {
  std::size_t out = 0;
  for (const Asked& asked : asked_) out += asked.live ? 0 : asked.chain.capacity();
  return out;
}

/// Of requests that have ended only the last keep their chains: of as many tokens as the cache has
/// slots, or a million.
void Judge::forget() {
  constexpr std::size_t kFewestTokens = 1U << 20U;
  while (gone_tokens_ > std::max(kFewestTokens, shadow_.size())) {
    const auto idle = [this](const auto& gone) { return !in_flight(gone.first); };
    const auto oldest = std::ranges::find_if(gone_, idle);
    if (oldest == gone_.end()) return;
    Asked& asked = asked_[oldest->first];
    std::vector<Identity>().swap(asked.chain);
    asked.known = 0;
    asked.forgotten = true;
    gone_tokens_ -= oldest->second;
    gone_.erase(oldest);
  }
}

void Judge::take(const event::Hit& event) {
  Asked& asked = asked_[event.req];
  const auto end = transfer_names_.rend();
  if (!event.transfer.empty() && std::find(transfer_names_.rbegin(), end, event.transfer) == end) {
    report(kExists, {&asked}, "its hit is to come with transfer ", event.transfer,
           ", which never started");
  }
  ++counts_[kHit].evaluated;
  if (event.tokens > asked.chain.size() && !asked.forgotten) {
    report(kHit, {&asked}, event.tokens, " tokens are called computed, and it has ",
           asked.chain.size());
  }
  asked.hit = event;
}

void Judge::take(const event::Publish& event) {
  const Asked& asked = asked_[event.req];
  ++counts_[kMirror].evaluated;
  Identity identity = asked.forgotten ? kUnjudged : kUnwritten;
  if (event.to <= asked.chain.size()) identity = in_group(asked.chain[event.to - 1], event.group);
  Block& block = shadow_.block(event.place);
  block.note(event_, event.published ? Did::named : Did::withdrawn);
  if (!event.published) return withdraw(event, identity);
  auto& keys = published_[key_of(event.place)];
  for (const Published& key : keys) {
    if (key.group != event.group || key.identity != identity || asked.forgotten) continue;
    return report(kMirror, {&asked, event.place}, "is published for tokens up to ", event.to,
                  " a second time");
  }
  ++block.published;
  keys.push_back({event.group, identity, event.req, event.to, true});
  look_at(event.place, false);
}

void Judge::withdraw(const event::Publish& event, Identity identity) {
  const auto at = published_.find(key_of(event.place));
  if (at != published_.end()) {
    const auto found = std::ranges::find_if(at->second, [&](const Published& key) {
      return key.group == event.group && (key.identity == identity || identity == kUnjudged ||
                                          key.identity == kUnwritten || key.identity == kUnjudged);
    });
    if (found != at->second.end()) {
      at->second.erase(found);
      --shadow_.block(event.place).published;
      return;
    }
  }
  report(kMirror, {&asked_[event.req], event.place}, "is withdrawn for tokens up to ", event.to,
         " and was not published");
}

void Judge::doubt(Place at) {
  Block& block = shadow_.block(at);
  if (block.published == 0 || block.doubtful) return;
  block.doubtful = true;
  doubtful_.push_back(at);
}

/// Looks at published blocks whose writers have ended, or that may have lost their content.
void Judge::look_at_published(bool next_step) {
  std::vector<Place> places;
  places.swap(doubtful_);
  for (const Place at : places) {
    shadow_.block(at).doubtful = false;
    look_at(at, next_step);
  }
}

void Judge::look_at(Place at, bool next_step) {
  const Block& block = shadow_.block(at);
  if (block.published == 0) return;
  const bool awaited = block.step_writers + block.writers > 0;
  bool again = awaited;
  for (Published& key : published_[key_of(at)]) {
    key.awaited = awaited;
    if (!awaited && check_published(at, key, next_step)) again = true;
  }
  if (again) doubt(at);
}

/// @return whether it is to be looked at again
bool Judge::check_published(Place at, Published& key, bool next_step) {
  const Asked& asked = asked_[key.request];
  const Group& group = header_.groups[key.group];
  ++counts_[kPublished].evaluated;
  if (key.to > asked.chain.size() && !asked.forgotten) {
    report(kPublished, {&asked, at}, "is published for ", key.to,
           " tokens, and nobody has as many");
    return false;
  }
  const std::uint32_t last = key.to - 1;
  if (!asked.forgotten) {
    if (key.identity == kUnwritten) key.identity = in_group(asked.chain[last], key.group);
    if (key.identity != in_group(asked.chain[last], key.group)) return false;  // it was cut since
  }
  if (key.identity < kFewest) return false;
  const std::uint32_t begin = group.state ? last : last / group.block_size * group.block_size;
  // The identity of the last token is of all before it.
  for (std::uint32_t p = asked.forgotten ? last : begin; p < key.to; ++p) {
    const Slot& slot = shadow_.slots(at)[p - begin];
    const Identity wanted = p == last ? key.identity : in_group(asked.chain[p], key.group);
    if (slot.identity == wanted || slot.identity == kUnjudged || slot.identity == kForgotten) {
      continue;
    }
    if (slot.identity == kFailed && !next_step) return true;  // the engine has heard of it just now
    report(kPublished, {&asked, at, &slot, p}, "is published for tokens up to ", key.to,
           " and holds others");
    return false;
  }
  return false;
}

void Judge::take(const event::Queue& event) {
  for (const std::uint32_t id : event.blocks) {
    const Place at{event.tier, id};
    Block& block = shadow_.block(at);
    block.queued = event.freed;
    block.note(event_, event.freed ? Did::freed : Did::taken);
    ++counts_[kHeld].evaluated;
    if (!event.freed || block.readers + block.writers == 0) continue;
    report(kHeld, {nullptr, at},
           "is on the free queue, and a transfer in flight has yet to copy it");
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

void Judge::take(const event::Raised& event) { report(kRaised, {}, event.what); }

}  // namespace kvproof::live
