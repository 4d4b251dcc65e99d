// SPDX-License-Identifier: Apache-2.0
// The vocabulary of Hopper's asynchronous units: barriers that count, tensor copies, products of a
// warpgroup. One PTX instruction each under nvcc, a checked machine on fibers elsewhere.
//
// Use:     The units see shared memory only as it was at the last fence_async() of the thread that
//          wrote it, and of another thread's writes only those whose fence came before a barrier
//          that both passed.
//          SharedAddress shared_address(const void*)
//          barrier_init(barrier, arrivals)   8 bytes, aligned to 8; then fence_barrier_init() and a
//                                            barrier of the block
//          barrier_arrive(barrier)           one arrival
//          barrier_expect(barrier, bytes)    one arrival, and so many bytes more in this phase
//          barrier_wait(barrier, parity)     until the phase of this parity has ended: 0 for the
//                                            first; of a new barrier, parity 1 has ended
//          bool barrier_ended(barrier, parity)
//          named_sync(id, threads), named_arrive(id, threads)   barriers 1 to 15 of the block, for
//                                            `threads` threads, whole warps; arrive does not wait
//          fence_async()                     the units see what this thread wrote to shared memory
//          tensor_load(to, map, at, barrier) starts the copy of a box to shared memory, aligned to
//                                            128; what lies outside the tensor is 0; all of its
//                                            bytes are counted at the barrier. One thread calls it.
//          tensor_prefetch(map)              fetches the map before the first copy needs it
//          tensor_store(map, at, from)       starts the copy of a box to global memory, but for
//                                            what lies outside
//          bulk_commit(), bulk_wait_read<n>(), bulk_wait<n>()   all but the newest n groups of this
//                                            thread's stores were read; were written
//          registers_down<n>(), registers_up<n>()   registers of every thread of a warpgroup
//          store_tiles(row, tiles)           load_tiles (warp_matrix.h) backwards
//          warpgroup_multiply<T, major of B>(d, a, b, add)   starts d = a . b + (add ? d : 0), 64 x
//                                            2 * count columns, over 16 elements of k; a is a
//                                            K-major tile in shared memory, or registers: four
//                                            words as multiply_add has them, of warp w for rows
//                                            16 w to 16 w + 15. Thread t has of d, in register r,
//                                            row t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8 and
//                                            column r / 4 * 8 + t % 4 * 2 + r % 2.
//          matrix_fence()                    before the first product after other instructions
//                                            changed its registers
//          matrix_commit(), matrix_wait<n>() until then neither d nor a's registers are touched,
//                                            and no tile is overwritten
//          matrix_hold(d)                    keeps the compiler from moving d across
// Source:  PTX ISA 8.5, 9.7.8.24, 9.7.12.15, 9.7.15, 9.7.19.5.
#pragma once

#include "kernels/simt/cuda.h"
#include "kernels/simt/hopper_types.h"
#include "kernels/simt/warp_matrix.h"

#if defined(__CUDACC__)
#include "kernels/simt/hopper_device.h"
#else
#include "kernels/simt/hopper_host.h"
#endif

// Whether a kernel's body can be compiled here: sm_90a, or fibers. Elsewhere it is a trap, and its
// launcher refuses (device_has_hopper).
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVPROOF_HAS_HOPPER 0
#else
#define KVPROOF_HAS_HOPPER 1
#endif
