// SPDX-License-Identifier: Apache-2.0
#include "reference/recordings/newer_policies.h"

namespace kvproof::properties {
namespace {

bool same(const Profile& a, const Profile& b) {
  return a.caching_on == b.caching_on && a.caching_off == b.caching_off &&
         a.admission_gates == b.admission_gates && a.window_mask == b.window_mask &&
         a.eagle_caches_ahead == b.eagle_caches_ahead && a.draft_states == b.draft_states &&
         a.prompt_tail == b.prompt_tail;
}

}  // namespace

std::vector<std::string> newer_policies_of(const Profile& profile) {
  std::vector<std::string> out;
  const Profile* base = find_profile(profile.name);
  for (const NewerPolicy& newer : kNewerPolicies) {
    Profile with = profile;
    newer.apply(with);
    Profile alone = base != nullptr ? *base : profile;
    newer.apply(alone);
    const bool had = base != nullptr && same(alone, *base);
    if (!had && same(with, profile)) out.emplace_back(newer.name);
  }
  return out;
}

}  // namespace kvproof::properties
