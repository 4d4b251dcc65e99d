// SPDX-License-Identifier: Apache-2.0
// The one way in which anything is written into the shadow, and the laws about whoever writes.
#include <algorithm>

#include "properties/shadow/judge.h"

namespace kvproof::live {

void Judge::write(Place at, std::uint32_t group, std::uint32_t first,
                  std::span<const Identity> content, const Writer& writer) {
  Block& block = shadow_.block(at);
  if (!transfers_.empty()) {
    ++counts_[kSource].evaluated;
    ++counts_[kTarget].evaluated;
  }
  if (block.readers + block.writers > 0) check_users(at, first, content, writer);
  if (writer.did == Did::move && at.tier == 0) check_steps(at, group, first, content, writer);
  if (at.tier == 0) {
    ++counts_[kOverwritten].evaluated;
    if (block.holders > writer.own) {
      ++disturbed_;
      check_overwritten(at, group, first, content);
    }
  }
  const auto slots = shadow_.slots(at);
  bool changed = false;
  for (std::uint32_t i = 0; i < content.size(); ++i) {
    Slot& slot = slots[first + i];
    changed = changed || slot.identity != content[i];
    slot = {content[i], event_, writer.number};
  }
  ++block.version;
  block.note(event_, writer.did);
  if (!changed || block.published == 0) return;
  for (Published& key : published_[key_of(at)]) {
    const Group& of = header_.groups[key.group];
    const std::uint32_t covered = of.state ? 1 : (key.to - 1) % of.block_size + 1;
    if (key.awaited || key.identity == kUnjudged || first >= covered) continue;
    ++counts_[kPublished].evaluated;
    report(kPublished, {&asked_[key.request], at},
           "other content is written into a block that is published for tokens up "
           "to ",
           key.to);
  }
}

std::vector<Judge::Holder> Judge::holders_of(std::uint32_t block) const {
  std::vector<Holder> out;
  for (const std::uint32_t r : alive_) {
    for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
      const std::vector<Entry>& entries = (*asked_[r].tables)[g].entries;
      for (std::uint32_t e = 0; e < entries.size(); ++e) {
        if (entries[e].block == block) out.push_back({r, g, e});
      }
    }
  }
  return out;
}

void Judge::check_overwritten(Place at, std::uint32_t group, std::uint32_t first,
                              std::span<const Identity> content) {
  const Group& of = header_.groups[group];
  for (const Holder& holder : holders_of(at.block)) {
    const Asked& asked = asked_[holder.request];
    if (holder.group != group || of.state) continue;
    for (std::uint32_t i = 0; i < content.size(); ++i) {
      const std::uint32_t position = holder.entry * of.block_size + first + i;
      if (position >= asked.computed || position >= asked.chain.size()) break;
      const Slot& slot = shadow_.slots(at)[first + i];
      const bool wanted = slot.identity == in_group(asked.chain[position], group);
      const bool behind = position < first_read(holder.group, asked.computed);
      if (!wanted || behind || slot.identity == content[i]) continue;
      return report(kOverwritten, {&asked, at, &slot, position},
                    "a slot that it has behind it gets other content");
    }
  }
}

/// Whether transfers in flight still use what is about to be written.
void Judge::check_users(Place at, std::uint32_t first, std::span<const Identity> content,
                        const Writer& writer) {
  const auto slots = shadow_.slots(at).subspan(first, content.size());
  const bool changes = !std::equal(content.begin(), content.end(), slots.begin(),
                                   [](Identity now, const Slot& slot) {
                                     return slot.identity == kUnwritten || slot.identity == now;
                                   });
  for (const Transfer& transfer : transfers_) {
    const event::Start& given = transfer.given;
    if (writer.number == (transfer.number | kByTransfer)) continue;
    for (std::size_t pair = 0; pair < transfer.moved.size(); ++pair) {
      const auto uses = [&](const std::vector<Place>& side) {
        return pair < side.size() && side[pair].tier == at.tier && side[pair].block == at.block;
      };
      const bool reads = uses(given.from);
      if (transfer.moved[pair] || (!reads && !uses(given.to))) continue;
      if (given.keeps && !changes) continue;
      // Up to that step its block is only filled.
      if (reads && given.after && last_ran_ <= given.after) continue;
      const Asked* asked = given.req ? &asked_[*given.req] : nullptr;
      const bool gone = asked && (!asked->live || asked->incarnation != transfer.incarnation);
      const bool given_back = gone && at.tier == 0 && writer.request != given.req;
      ++counts_[kGivenBack].evaluated;
      return report(given_back ? kGivenBack
                    : reads    ? kSource
                               : kTarget,
                    {asked, at}, "is written while transfer ", given.transfer,
                    reads ? " has yet to read it" : " has yet to write it");
    }
  }
}

/// @return whether the row uses the block, and for something else than this content
bool Judge::wants_other(const Row& row, Place at, std::uint32_t group, std::uint32_t first,
                        std::span<const Identity> content) const {
  const std::vector<Identity>& chain = asked_[row.request].chain;
  for (std::uint32_t g = 0; g < header_.groups.size(); ++g) {
    const Use& use = row.uses[g];
    for (std::uint32_t e = use.first; e < use.stop; ++e) {
      if (place_of(row, g, e).block != at.block) continue;
      const std::uint32_t position = e * header_.groups[g].block_size + first;
      if (g != group || header_.groups[g].state) return true;
      if (position + content.size() > chain.size()) return true;
      for (std::uint32_t i = 0; i < content.size(); ++i) {
        if (content[i] != in_group(chain[position + i], g)) return true;
      }
    }
  }
  return false;
}

/// Whether a step that was given to the worker still uses what a transfer is about to write, and
/// wants something else there.
void Judge::check_steps(Place at, std::uint32_t group, std::uint32_t first,
                        std::span<const Identity> content, const Writer& writer) {
  ++counts_[kGivenBack].evaluated;
  for (const Step& step : steps_in_flight_) {
    for (const Row& row : step.rows) {
      const Asked& asked = asked_[row.request];
      const bool gone = !asked.live || asked.incarnation != row.incarnation;
      if (step.ran || !gone || writer.request == row.request) continue;
      if (!wants_other(row, at, group, first, content)) continue;
      return report(kGivenBack, {&asked, at}, "a transfer writes what ", name_of(asked),
                    " gave back while step ", step.number, " has yet to run over it");
    }
  }
}

}  // namespace kvproof::live
