// SPDX-License-Identifier: Apache-2.0
// RapidCheck with a seed and a number of cases for each property, where its configuration knows one
// of each for the whole process.
#pragma once

#include <rapidcheck.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

namespace kvproof::properties {

/// Whether `body` holds on `cases` cases drawn from KVPROOF_SEED, 1 if that is not set. RC_PARAMS,
/// when set, is RapidCheck's own and wins. What fails is shrunk and told on stderr.
template <class Body>
[[nodiscard]] bool holds_on_cases(const std::string& name, int cases, Body&& body) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  if (std::getenv("RC_PARAMS") == nullptr) {
    const char* const seed = std::getenv("KVPROOF_SEED");
    params.seed = seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
    params.maxSuccess = cases;
    std::cout << name << ": KVPROOF_SEED=" << params.seed << ", " << cases << " cases\n";
  }
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = name;
  const auto result = rc::detail::checkTestable(std::forward<Body>(body), metadata, params);
  rc::detail::printResultMessage(result, std::cerr);
  std::cerr << "\n";
  return result.template is<rc::detail::SuccessResult>();
}

}  // namespace kvproof::properties
