// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/event_log.h"

namespace kvproof::optimized {

std::vector<Event> EventLog::take() {
  std::vector<Event> out;
  for (const Record& r : records_) {
    switch (r.kind) {
      case Kind::stored: out.emplace_back(event::Stored{GroupId(r.a), r.b, r.c, {}}); break;
      case Kind::stored_block:
        std::get<event::Stored>(out.back()).blocks.push_back({BlockId(r.a), r.b});
        break;
      case Kind::removed: out.emplace_back(event::Removed{GroupId(r.a), BlockId(r.b), r.c}); break;
      case Kind::cleared: out.emplace_back(event::Cleared{}); break;
    }
  }
  records_.clear();
  return out;
}

}  // namespace kvproof::optimized
