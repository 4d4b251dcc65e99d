// SPDX-License-Identifier: Apache-2.0
// The judge of a run for an engine that calls it event by event. Plain C; README.md beside this
// file lists the events.
//
// Strings: UTF-8, ended by a NUL. An argument belongs to the caller; a result stays until the next
//          call with the same run.
// Threads: one at a time for one run.
#ifndef KVPROOF_LIVE_H
#define KVPROOF_LIVE_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvproof_live kvproof_live;

// Begins a run with its header line. Never NULL but for want of memory: kvproof_live_error tells
// whether the header could be read.
kvproof_live* kvproof_live_open(const char* header);

// Takes one event. Returns how many findings there are so far, or -1 if the line cannot be read;
// from then on every event is refused.
int kvproof_live_event(kvproof_live* run, const char* line);

// What could not be read, or NULL.
const char* kvproof_live_error(kvproof_live* run);

// {"verdict":"holds","reason":"","holds":true,"ended":false,"laws_evaluated":20,"findings":[...]},
// or NULL after an error of the header. The verdict is holds, broken, or cannot_tell: before a step
// has run, or if events were lost.
const char* kvproof_live_verdict(kvproof_live* run);

void kvproof_live_close(kvproof_live* run);

#ifdef __cplusplus
}
#endif

#endif
