// SPDX-License-Identifier: Apache-2.0
#include "properties/shadow/contiguous_rows.h"

#include <algorithm>
#include <utility>

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kFirstArena = 1024;  // [tokens]; doubles when requests do not fit

reference::ContiguousCache arena_of(std::uint64_t capacity) {
  return {capacity, capacity, reference::Reservation::grow_and_copy};
}

}  // namespace

ContiguousRows::ContiguousRows() : cache_(arena_of(kFirstArena)), rows_(kFirstArena) {}

ContiguousRows::Tenant* ContiguousRows::find(const std::string& name) {
  const auto at = std::ranges::find(tenants_, name, &Tenant::name);
  return at != tenants_.end() ? &*at : nullptr;
}

Identity* ContiguousRows::rows(const std::string& name) {
  const Tenant* tenant = find(name);
  return tenant != nullptr ? rows_.data() + tenant->run.offset : nullptr;
}

const Identity* ContiguousRows::rows(const std::string& name) const {
  const auto at = std::ranges::find(tenants_, name, &Tenant::name);
  return at != tenants_.end() ? rows_.data() + at->run.offset : nullptr;
}

void ContiguousRows::place(const std::string& name, std::uint32_t num_tokens) {
  if (num_tokens == 0) return;
  const bool known = find(name) != nullptr;
  const auto try_once = [&] {
    return known ? cache_.extend(name, num_tokens) : cache_.insert(name, num_tokens, num_tokens);
  };
  while (!try_once()) {
    rebuild(std::max<std::uint64_t>(2 * rows_.size(), 2 * std::uint64_t{num_tokens}));
  }
  if (const auto& move = cache_.last_move()) {
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(move->from.offset), move->from.length,
                rows_.begin() + static_cast<std::ptrdiff_t>(move->to.offset));
  }
  if (!known) tenants_.push_back({name, 0, {}});
  Tenant& tenant = *find(name);
  tenant.run = *cache_.find(name);
  tenant.num_tokens = num_tokens;
}

void ContiguousRows::erase(const std::string& name) {
  if (find(name) == nullptr) return;
  cache_.erase(name);
  std::erase_if(tenants_, [&](const Tenant& t) { return t.name == name; });
}

// A bigger arena with the same requests; the old one was too small or too fragmented.
void ContiguousRows::rebuild(std::uint64_t capacity) {
  reference::ContiguousCache bigger = arena_of(capacity);
  std::vector<Identity> rows(capacity);
  for (Tenant& t : tenants_) {
    if (!bigger.insert(t.name, t.num_tokens, t.num_tokens)) continue;
    const reference::Run run = *bigger.find(t.name);
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(t.run.offset), t.num_tokens,
                rows.begin() + static_cast<std::ptrdiff_t>(run.offset));
    t.run = run;
  }
  cache_ = std::move(bigger);
  rows_ = std::move(rows);
}

}  // namespace kvproof::properties
