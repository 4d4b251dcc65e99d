// SPDX-License-Identifier: Apache-2.0
// The calls of a cache manager as the direct section of kvproof_subject.h.
//
// It is also compiled against the sources of other revisions, so it uses little of their interface.
#pragma once

#include <cstdint>
#include <utility>

#include "optimized/cache_manager.h"
#include "properties/engines/kit/kvproof_subject.h"
#include "reference/trace_json.h"

namespace kvproof::bench {

/// @tparam Manager a CacheManager, or what has these calls of one
template <class Manager>
struct DirectManager {
  using Id = decltype(std::declval<Manager&>().arrive({}));  // older revisions give an integer

  static kvproof_direct* create(const char* header, std::uint32_t max_requests) {
    const TraceHeader parsed = parse_trace_line(header).header;
    if (!parsed.unsupported.empty()) return nullptr;
    optimized::Capacity capacity;
    capacity.max_requests = max_requests;
    return reinterpret_cast<kvproof_direct*>(new Manager(parsed.config, capacity));
  }
  static void destroy(kvproof_direct* self) { delete &of(self); }
  static kvproof_direct_request arrive(kvproof_direct* self, const std::int32_t* tokens,
                                       std::uint32_t num_tokens) {
    optimized::Arrival arrival;
    arrival.tokens = {tokens, num_tokens};
    return of(self).arrive(arrival);
  }
  static void append(kvproof_direct* self, kvproof_direct_request request,
                     const std::int32_t* tokens, std::uint32_t num_tokens) {
    of(self).append(Id(request), {tokens, num_tokens});
  }
  static void advance(kvproof_direct* self, kvproof_direct_request request,
                      std::uint32_t computed) {
    of(self).advance(Id(request), computed);
  }
  static std::uint32_t lookup(kvproof_direct* self, kvproof_direct_request request) {
    return of(self).lookup(Id(request));
  }
  static std::int64_t allocate(kvproof_direct* self, kvproof_direct_request request,
                               const kvproof_direct_allocation* arguments) {
    AllocateArgs args;
    args.new_tokens = arguments->new_tokens;
    args.use_lookup = arguments->use_lookup != 0;
    args.has_scheduled = arguments->has_scheduled != 0;
    args.status = static_cast<RequestStatus>(arguments->status);
    const auto taken = of(self).allocate(Id(request), args);
    return taken ? static_cast<std::int64_t>(*taken) : -1;
  }
  static void free(kvproof_direct* self, kvproof_direct_request request) {
    of(self).free(Id(request));
  }
  static void finish(kvproof_direct* self, kvproof_direct_request request) {
    of(self).finish(Id(request));
  }

 private:
  static Manager& of(kvproof_direct* self) { return *reinterpret_cast<Manager*>(self); }
};

}  // namespace kvproof::bench
