// SPDX-License-Identifier: Apache-2.0
// What a shared library exports so that kvproof can check the allocator in it. Plain C.
//
// Model:   the same values as a program that is checked over a pipe, call by call: one line of
//          JSON each, without the newline. README.md beside this file lists them.
// Strings: UTF-8, ended by a NUL. What is passed in belongs to the caller and is gone when the call
//          returns. What is returned belongs to the subject and stays until the next call with it.
// Threads: one thread makes all calls. The process is the subject's own: it may crash or hang, and
//          that is reported; what it prints goes to stderr.
// Version: the library names the version that it was compiled with; another one is refused.
#ifndef KVPROOF_SUBJECT_H
#define KVPROOF_SUBJECT_H

#include <stdint.h>

#define KVPROOF_SUBJECT_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// One manager of a cache; what it is, is the library's affair.
typedef struct kvproof_subject kvproof_subject;

// Returns KVPROOF_SUBJECT_ABI. Asked before anything else.
uint32_t kvproof_subject_abi(void);

// Builds a new, empty manager from a header:
//   {"kvproof_trace":1,"profile":"vllm-0.24","config":{"num_blocks":9,"enable_caching":true,...}}
// and points *promises at what it promises, at the latest until it is destroyed:
//   {"promises":"safety","operations":["arrive","append",...],"block_ids":true}
// or, where it cannot be built like that, at {"unsupported":true,"reason":"one group only"}; then
// NULL may be returned. Several managers never live at the same time.
kvproof_subject* kvproof_subject_create(const char* header, const char** promises);

// Performs one operation. Returns {"out":...,"events":[...]}, or {"unsupported":true}.
const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation);

// Returns the state as it is now: {"free":7,"ref":[[1,1]],"tables":{"r0":[[1]]},...}.
const char* kvproof_subject_observe(kvproof_subject* subject);

void kvproof_subject_destroy(kvproof_subject* subject);

#ifdef __cplusplus
}
#endif

#endif  // KVPROOF_SUBJECT_H
