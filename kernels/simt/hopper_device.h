// SPDX-License-Identifier: Apache-2.0
// hopper.h under nvcc: each name is one PTX instruction. Sections are those of PTX ISA 8.5.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/simt/hopper_types.h"

#define KVPROOF_GRID_CONSTANT __grid_constant__

namespace kvproof::kernels {

/// Whether the current device has the instructions below: compute capability 9.0.
inline bool device_has_hopper() {
  int device = 0, major = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
}

/// The streaming multiprocessors of the current device; 1 if it does not say.
inline int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count < 1 ? 1 : count;
}

/// The driver's encoding of a map of shared memory's boxes (cuTensorMapEncodeTiled).
inline Refusal encode_tensor_map(const TensorShape& shape, TensorMap& out) {
  static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  const cudaError_t asked = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                             12000, cudaEnableDefault, &found);
#else
  const cudaError_t asked =
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
  if (asked != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    return {"this driver has no cuTensorMapEncodeTiled"};
  }
  cuuint64_t sizes[5], strides[4];
  cuuint32_t box[5], ones[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < shape.rank; ++i) {
    sizes[i] = shape.sizes[i];
    box[i] = shape.box[i];
    if (i + 1 < shape.rank) strides[i] = shape.strides[i];
  }
  const auto type =
      shape.element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE,
                                              CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_64B,
                                              CU_TENSOR_MAP_SWIZZLE_32B};
  const CUresult done = reinterpret_cast<Encode>(entry)(
      reinterpret_cast<CUtensorMap*>(&out), type, static_cast<cuuint32_t>(shape.rank),
      const_cast<void*>(shape.data), sizes, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
      kSwizzles[static_cast<int>(shape.swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return {done == CUDA_SUCCESS ? nullptr : "the driver refuses the tensor map"};
}

__device__ inline SharedAddress shared_address(const void* shared) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

// 9.7.12.15: mbarrier
__device__ inline void barrier_init(SharedAddress barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(SharedAddress barrier) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(barrier)
               : "memory");
}
__device__ inline void barrier_expect(SharedAddress barrier, int bytes) {
  asm volatile(
      "{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}
__device__ inline bool barrier_ended(SharedAddress barrier, int parity) {
  int ended;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; "
      "selp.b32 %0, 1, 0, p; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}
__device__ inline void barrier_wait(SharedAddress barrier, int parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\n"
      "bra again;\n"
      "done: }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// 9.7.12.1: barrier
__device__ inline void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// 9.7.12.4: fence.proxy
__device__ inline void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// 9.7.8.25: prefetch
__device__ inline void tensor_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// 9.7.8.24: cp.async.bulk.tensor
template <int kRank>
__device__ inline void tensor_load(SharedAddress to, const TensorMap& map,
                                   const std::int32_t (&at)[kRank], SharedAddress barrier) {
  static_assert(kRank == 4 || kRank == 5);
  if constexpr (kRank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
        "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(barrier)
        : "memory");
  }
}
__device__ inline void tensor_store(const TensorMap& map, const std::int32_t (&at)[4],
                                    SharedAddress from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
          &map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(from)
      : "memory");
}
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kNewest>
__device__ inline void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kNewest) : "memory");
}
template <int kNewest>
__device__ inline void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kNewest) : "memory");
}

// 9.7.19.5: setmaxnreg
template <int kRegisters>
__device__ inline void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// 9.7.14.5.16: stmatrix
__device__ inline void store_tiles(void* row, const std::uint32_t (&tiles)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(tiles[0]), "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3])
      : "memory");
}

// 9.7.15: wgmma
__device__ inline void matrix_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void matrix_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kNewest>
__device__ inline void matrix_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kNewest) : "memory");
}
template <int kCount>
__device__ inline void matrix_hold(float (&registers)[kCount]) {
  _Pragma("unroll") for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(registers[i])::"memory");
  }
}

// clang-format off
#define KVPROOF_F8(d, i)                                                                  \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define KVPROOF_F32(d, i) \
  KVPROOF_F8(d, i), KVPROOF_F8(d, i + 8), KVPROOF_F8(d, i + 16), KVPROOF_F8(d, i + 24)
#define KVPROOF_F64(d) KVPROOF_F32(d, 0), KVPROOF_F32(d, 32)
#define KVPROOF_F128(d) KVPROOF_F64(d), KVPROOF_F32(d, 64), KVPROOF_F32(d, 96)
#define KVPROOF_REGISTERS_32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KVPROOF_REGISTERS_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41," \
  "%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61," \
  "%62,%63"
#define KVPROOF_REGISTERS_128 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41," \
  "%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61," \
  "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81," \
  "%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100," \
  "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116," \
  "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define KVPROOF_ACCUMULATORS_32 KVPROOF_F32(d, 0)
#define KVPROOF_ACCUMULATORS_64 KVPROOF_F64(d)
#define KVPROOF_ACCUMULATORS_128 KVPROOF_F128(d)

// n: columns; outs, names: the accumulators; a, b, add: the numbers of the operands behind them.
#define KVPROOF_WGMMA_SHARED(n, type, names, outs, a_, b_, add_, major_)                       \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_ ", 0;\n"                                 \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, " \
               a_ ", " b_ ", p, 1, 1, 0, " major_ "; }"                                        \
               : outs                                                                         \
               : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(add)), "n"(kTransposed))
#define KVPROOF_WGMMA_REGISTERS(n, type, names, outs, a0, a1, a2, a3, b_, add_, major_)        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_ ", 0;\n"                                 \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, " \
               "{" a0 "," a1 "," a2 "," a3 "}, " b_ ", p, 1, 1, " major_ "; }"                 \
               : outs                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits),                      \
                 "r"(static_cast<int>(add)), "n"(kTransposed))
// clang-format on

/// @tparam T Bf16 or Fp16
template <class T, Major kMajor, int kCount>
__device__ inline void warpgroup_multiply(float (&d)[kCount], MatrixDescriptor a,
                                          MatrixDescriptor b, bool add) {
  constexpr int kTransposed = kMajor == Major::mn ? 1 : 0;
  constexpr bool kBf16 = __is_same(T, Bf16);
  // clang-format off
  if constexpr (kCount == 32 && kBf16) {
    KVPROOF_WGMMA_SHARED(
        "64", "bf16", KVPROOF_REGISTERS_32, KVPROOF_ACCUMULATORS_32,
        "%32", "%33", "%34", "%35");
  }
  else if constexpr (kCount == 32 && !kBf16) {
    KVPROOF_WGMMA_SHARED(
        "64", "f16", KVPROOF_REGISTERS_32, KVPROOF_ACCUMULATORS_32,
        "%32", "%33", "%34", "%35");
  }
  else if constexpr (kCount == 64 && kBf16) {
    KVPROOF_WGMMA_SHARED(
        "128", "bf16", KVPROOF_REGISTERS_64, KVPROOF_ACCUMULATORS_64,
        "%64", "%65", "%66", "%67");
  }
  else if constexpr (kCount == 64 && !kBf16) {
    KVPROOF_WGMMA_SHARED(
        "128", "f16", KVPROOF_REGISTERS_64, KVPROOF_ACCUMULATORS_64,
        "%64", "%65", "%66", "%67");
  }
  else if constexpr (kCount == 128 && kBf16) {
    KVPROOF_WGMMA_SHARED(
        "256", "bf16", KVPROOF_REGISTERS_128, KVPROOF_ACCUMULATORS_128,
        "%128", "%129", "%130", "%131");
  }
  else if constexpr (kCount == 128 && !kBf16) {
    KVPROOF_WGMMA_SHARED(
        "256", "f16", KVPROOF_REGISTERS_128, KVPROOF_ACCUMULATORS_128,
        "%128", "%129", "%130", "%131");
  }
  else static_assert(kCount == 0, "64, 128 or 256 columns");
  // clang-format on
}

template <class T, Major kMajor, int kCount>
__device__ inline void warpgroup_multiply(float (&d)[kCount], const std::uint32_t (&a)[4],
                                          MatrixDescriptor b, bool add) {
  constexpr int kTransposed = kMajor == Major::mn ? 1 : 0;
  constexpr bool kBf16 = __is_same(T, Bf16);
  // clang-format off
  if constexpr (kCount == 32 && kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "64", "bf16", KVPROOF_REGISTERS_32, KVPROOF_ACCUMULATORS_32,
        "%32", "%33", "%34", "%35", "%36", "%37", "%38");
  }
  else if constexpr (kCount == 32 && !kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "64", "f16", KVPROOF_REGISTERS_32, KVPROOF_ACCUMULATORS_32,
        "%32", "%33", "%34", "%35", "%36", "%37", "%38");
  }
  else if constexpr (kCount == 64 && kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "128", "bf16", KVPROOF_REGISTERS_64, KVPROOF_ACCUMULATORS_64,
        "%64", "%65", "%66", "%67", "%68", "%69", "%70");
  }
  else if constexpr (kCount == 64 && !kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "128", "f16", KVPROOF_REGISTERS_64, KVPROOF_ACCUMULATORS_64,
        "%64", "%65", "%66", "%67", "%68", "%69", "%70");
  }
  else if constexpr (kCount == 128 && kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "256", "bf16", KVPROOF_REGISTERS_128, KVPROOF_ACCUMULATORS_128,
        "%128", "%129", "%130", "%131", "%132", "%133", "%134");
  }
  else if constexpr (kCount == 128 && !kBf16) {
    KVPROOF_WGMMA_REGISTERS(
        "256", "f16", KVPROOF_REGISTERS_128, KVPROOF_ACCUMULATORS_128,
        "%128", "%129", "%130", "%131", "%132", "%133", "%134");
  }
  else static_assert(kCount == 0, "64, 128 or 256 columns");
  // clang-format on
}

}  // namespace kvproof::kernels
