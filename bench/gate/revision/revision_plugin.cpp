// SPDX-License-Identifier: Apache-2.0
// The direct section over the optimized manager of the source tree that this is compiled with.
#include "bench/gate/direct_manager.h"

namespace {

using namespace kvproof;
using Manager = bench::DirectManager<optimized::CacheManager<optimized::KVPROOF_DIGEST>>;

}  // namespace

extern "C" {

uint32_t kvproof_direct_abi() { return KVPROOF_DIRECT_ABI; }
kvproof_direct* kvproof_direct_create(const char* header, uint32_t max_requests) {
  return Manager::create(header, max_requests);
}
void kvproof_direct_destroy(kvproof_direct* subject) { Manager::destroy(subject); }
kvproof_direct_request kvproof_direct_arrive(kvproof_direct* subject, const int32_t* tokens,
                                             uint32_t num_tokens) {
  return Manager::arrive(subject, tokens, num_tokens);
}
void kvproof_direct_append(kvproof_direct* subject, kvproof_direct_request request,
                           const int32_t* tokens, uint32_t num_tokens) {
  Manager::append(subject, request, tokens, num_tokens);
}
void kvproof_direct_advance(kvproof_direct* subject, kvproof_direct_request request,
                            uint32_t computed) {
  Manager::advance(subject, request, computed);
}
uint32_t kvproof_direct_lookup(kvproof_direct* subject, kvproof_direct_request request) {
  return Manager::lookup(subject, request);
}
int64_t kvproof_direct_allocate(kvproof_direct* subject, kvproof_direct_request request,
                                const kvproof_direct_allocation* arguments) {
  return Manager::allocate(subject, request, arguments);
}
void kvproof_direct_free(kvproof_direct* subject, kvproof_direct_request request) {
  Manager::free(subject, request);
}
void kvproof_direct_finish(kvproof_direct* subject, kvproof_direct_request request) {
  Manager::finish(subject, request);
}

}  // extern "C"
