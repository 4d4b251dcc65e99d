// SPDX-License-Identifier: Apache-2.0
// Short scripted traces whose outcome can be worked out by hand; the golden vectors are recorded
// from them.
#pragma once

#include <string>
#include <vector>

#include "reference/config.h"
#include "reference/operations.h"

namespace kvproof::properties {

struct Scenario {
  std::string name;
  std::string sentence;
  CacheConfig config;
  std::vector<Operation> operations;
};

/// All scenarios; there is one of each per profile.
[[nodiscard]] std::vector<Scenario> scenarios();

/// The recording of a scenario: a trace with the results and states of the naive model.
[[nodiscard]] std::string record(const Scenario& scenario);

}  // namespace kvproof::properties
