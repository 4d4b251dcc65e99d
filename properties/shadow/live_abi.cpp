// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "properties/shadow/kvproof_live.h"
#include "properties/shadow/verdict.h"

struct kvproof_live {
  std::optional<kvproof::live::Judge> judge;
  std::string error;
  std::string verdict;
};

namespace {

/// An exception does not cross the border to C.
template <class Body>
bool guarded(kvproof_live& run, const Body& body) {
  if (!run.error.empty()) return false;
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    run.error = error.what();
    if (run.error.empty()) run.error = "unknown";
    return false;
  }
}

}  // namespace

kvproof_live* kvproof_live_open(const char* header) {
  std::unique_ptr<kvproof_live> run(new (std::nothrow) kvproof_live);
  if (!run) return nullptr;
  guarded(*run, [&] { run->judge.emplace(kvproof::live::parse_run_header(header)); });
  return run.release();
}

int kvproof_live_event(kvproof_live* run, const char* line) {
  const bool read = guarded(*run, [&] { run->judge->take_line(line); });
  return read ? static_cast<int>(run->judge->findings().size()) : -1;
}

const char* kvproof_live_error(kvproof_live* run) {
  return run->error.empty() ? nullptr : run->error.c_str();
}

const char* kvproof_live_verdict(kvproof_live* run) {
  if (!run->judge) return nullptr;
  run->verdict = kvproof::live::verdict_json(*run->judge).dump();
  return run->verdict.c_str();
}

void kvproof_live_close(kvproof_live* run) { delete run; }
