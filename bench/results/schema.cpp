// SPDX-License-Identifier: Apache-2.0
#include "bench/results/schema.h"

#include <nlohmann/json.hpp>

#include "bench/results/verdict.h"

namespace kvproof::bench {

std::string schema_json(const Parameters& environment) {
  using Json = nlohmann::ordered_json;
  Json out = Json::parse(to_json(environment, {}));
  out.erase("results");
  for (const VerdictRow& row : kVerdicts) out["verdicts"][std::string(row.name)] = row.exit_code;
  out["experiments"] = Json::object();
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvproof::bench
