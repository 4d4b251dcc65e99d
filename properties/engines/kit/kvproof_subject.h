// SPDX-License-Identifier: Apache-2.0
// The functions that a shared library exports so that kvproof can check its allocator. Plain C.
//
// Model:   the same values as a program that is checked over a pipe, call by call: one line of
//          JSON each, without the newline. README.md beside this file lists them.
// Strings: UTF-8, ended by a NUL. An argument belongs to the caller and is gone when the call
//          returns. A result belongs to the subject and stays until the next call with the subject.
// Threads: one thread makes all calls. The process is the subject's own: it may crash or hang, and
//          that is reported; what it prints goes to stderr.
// Version: the library names the version that it was compiled with; another one is refused.
// Direct:  the second half of this header is optional: the same allocator without JSON, for
//          `kvproof gate`, which measures it. `kvproof check` never calls it; the gate refuses a
//          library whose two halves answer differently.
#ifndef KVPROOF_SUBJECT_H
#define KVPROOF_SUBJECT_H

#include <stdint.h>

#define KVPROOF_SUBJECT_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// One manager of a cache; the library decides what the type is.
typedef struct kvproof_subject kvproof_subject;

// Returns KVPROOF_SUBJECT_ABI. kvproof calls this before anything else.
uint32_t kvproof_subject_abi(void);

// Builds a new, empty manager from a header:
//   {"kvproof_trace":1,"profile":"vllm-0.24","config":{"num_blocks":9,"enable_caching":true,...}}
// and points *promises at what it promises, at the latest until it is destroyed:
//   {"promises":"safety","operations":["arrive","append",...],"block_ids":true}
// or, where it cannot be built like that, at {"unsupported":true,"reason":"one group only"}; then
// NULL may be returned. Several managers never live at the same time.
kvproof_subject* kvproof_subject_create(const char* header, const char** promises);

// Performs one operation, or calls the hooks of a line where *promises has the level "engine".
// Returns {"out":...,"events":[...]}, or {"unsupported":true}.
const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation);

// Returns the state as it is now: {"free":7,"ref":[[1,1]],"tables":{"r0":[[1]]},...}.
const char* kvproof_subject_observe(kvproof_subject* subject);

void kvproof_subject_destroy(kvproof_subject* subject);

// ---- the direct section: export all of it, kvproof_direct_lookup excepted, or nothing ----------

#define KVPROOF_DIRECT_ABI 1

// A manager that is only driven through this section. It need not record events.
typedef struct kvproof_direct kvproof_direct;

// A request, by a number of the library's choice that is valid from arrive to finish.
typedef uint32_t kvproof_direct_request;

// The request for one allocation, as the operation of the same name. Later versions append fields:
// a library reads no field at or beyond `size`, and takes 0 for it.
typedef struct kvproof_direct_allocation {
  uint32_t size;           // sizeof of what the caller passes [bytes]
  uint32_t new_tokens;     // to make room for, beyond those computed and hit
  uint32_t use_lookup;     // 1: start from the prefix that this request's last lookup found
  uint32_t has_scheduled;  // 1: other requests run, so that a watermark applies
  uint32_t status;         // of the request: 0 waiting, 1 running, 2 preempted
} kvproof_direct_allocation;

// Returns KVPROOF_DIRECT_ABI.
uint32_t kvproof_direct_abi(void);

// Builds a new, empty manager from a header, as kvproof_subject_create does, for at most so many
// requests at one time. NULL: it cannot be built like that.
kvproof_direct* kvproof_direct_create(const char* header, uint32_t max_requests);
void kvproof_direct_destroy(kvproof_direct* subject);

// A request with its prompt. The tokens belong to the caller and are gone when the call returns,
// here and in append.
kvproof_direct_request kvproof_direct_arrive(kvproof_direct* subject, const int32_t* tokens,
                                             uint32_t num_tokens);
void kvproof_direct_append(kvproof_direct* subject, kvproof_direct_request request,
                           const int32_t* tokens, uint32_t num_tokens);

// `computed` tokens have their K and V in the cache.
void kvproof_direct_advance(kvproof_direct* subject, kvproof_direct_request request,
                            uint32_t computed);

// Returns the length of the longest cached prefix [tokens]. Not exported: there is no prefix cache.
uint32_t kvproof_direct_lookup(kvproof_direct* subject, kvproof_direct_request request);

// Returns the number of blocks taken, or -1: refused, and nothing has changed.
int64_t kvproof_direct_allocate(kvproof_direct* subject, kvproof_direct_request request,
                                const kvproof_direct_allocation* arguments);

// Preemption: gives up the blocks; the tokens stay, the computed count becomes 0.
void kvproof_direct_free(kvproof_direct* subject, kvproof_direct_request request);
void kvproof_direct_finish(kvproof_direct* subject, kvproof_direct_request request);

#ifdef __cplusplus
}
#endif

#endif  // KVPROOF_SUBJECT_H
