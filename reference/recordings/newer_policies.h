// SPDX-License-Identifier: Apache-2.0
// The behaviours of a configuration that are newer than the version of its profile; a header names
// them.
#pragma once

#include <string>
#include <vector>

#include "reference/config.h"

namespace kvproof::properties {

/// The rows of kNewerPolicies that this profile has beyond the one of its name.
[[nodiscard]] std::vector<std::string> newer_policies_of(const Profile& profile);

}  // namespace kvproof::properties
