// SPDX-License-Identifier: Apache-2.0
// THE LIST of seeded faults of kernels: reported defects of real engines, each re-made in the CUDA
// sources behind KVPROOF_FAULT(fault), with the operation whose checks must notice.
//
// Source:  the public report behind `report`. The fault is the same class of mistake at the same
//          place, not the engine's code.
#pragma once

#include <string_view>

namespace kvproof::properties {

struct KernelMutant {
  int fault;                   // what KVPROOF_FAULT compares with
  std::string_view operation;  // a row of kernels/kernels.h
  std::string_view report;     // below https://github.com/
  std::string_view sentence;
};

// clang-format off: two lines a row
inline constexpr KernelMutant kKernelMutants[] = {
    // Movement and tables.
    {162, "reshape_and_cache", "vllm-project/vllm/issues/1486",
     "The offset of a row in the cache is held in 32 bits."},
    {165, "gather_cache", "flashinfer-ai/flashinfer/pull/3136",
     "Block times stride is an unsigned product of 32 bits."},
    {166, "gather_cache", "ROCm/aiter/issues/2517",
     "The size of the cache is held in 32 bits: what lies beyond reads as zeros."},
    {167, "copy_blocks", "ROCm/aiter/issues/3824",
     "Only the lower half of an address is computed: no carry into the upper one."},
    {168, "reshape_and_cache", "ROCm/ATOM/issues/702", "A block id is cut to 16 bits."},
    {169, "gather_cache", "local-inference-lab/b12x/pull/45",
     "Block times the stride of a packed record is a signed product of 32 bits."},
    {172, "reshape_and_cache", "vllm-project/vllm/issues/43810",
     "A slot of -1 is an index like any other."},
    {173, "reshape_and_cache", "vllm-project/vllm/pull/13922",
     "The tokens are counted by the key, which is padded beyond the slots."},
    {176, "slot_mapping", "NVIDIA/TensorRT-LLM/pull/13278",
     "Padding tokens get the first slots, which others own."},
    {177, "slot_mapping", "xLLM-AI/xllm/pull/1939",
     "Padding tokens get no slot: those of the last step stay."},
    {179, "slot_mapping", "vllm-project/vllm/issues/53982",
     "A position beyond the table's width reads the next row."},
    {180, "slot_mapping", "sgl-project/sglang/pull/38187",
     "A block id is taken for the slot of a token."},
    {183, "slot_mapping", "vllm-project/vllm/pull/27547",
     "The manager's block size is used where the table has the kernel's."},
    {184, "slot_mapping", "vllm-project/vllm/pull/51031",
     "The column comes from the kernel's block size, the slot from the manager's."},
    {185, "reshape_and_cache", "flashinfer-ai/flashinfer/pull/527",
     "The cache is taken for dense, whatever its strides."},
    {187, "gather_cache", "vllm-project/vllm/issues/49012",
     "The block size is read from the dimension where NHD has it, in HND too."},
    {188, "copy_blocks", "vllm-project/vllm/pull/50276",
     "As many bytes are written as lie between two blocks, other layers' among them."},
    {189, "gather_cache", "LMCache/LMCache/issues/4463",
     "With two heads one layout is taken for the other."},
    {190, "swap_blocks", "vllm-project/vllm/pull/30692",
     "The bytes of a block are those of the kernel's, not of the manager's."},
    {219, "reshape_and_cache", "vllm-project/vllm/pull/27232",
     "The scales are not applied where fp8 is written."},
    {221, "gather_cache", "NVIDIA/TensorRT-LLM/pull/16916",
     "The scale does not arrive where fp8 is read."},
    {222, "reshape_and_cache", "vllm-project/vllm/pull/34863", "V's scale stays at its default."},
    {223, "reshape_and_cache", "vllm-project/vllm/issues/50702",
     "V's scale is zero when the first tokens are written."},
    {224, "gather_cache", "vllm-project/vllm/pull/55670",
     "fp8 becomes bf16 and fp16 without its scale."},
    {226, "reshape_and_cache", "vllm-project/vllm/issues/57614",
     "A head size that the vector path cannot do is accepted."},
    {229, "reshape_and_cache", "vllm-project/vllm/pull/438",
     "Every thread moves one element: what is left of a row stays unwritten."},
    {233, "reshape_and_cache", "vllm-project/vllm/pull/45466",
     "The vector path looks at the alignment of its input only."},
    {234, "reshape_and_cache", "ggml-org/llama.cpp/pull/17891",
     "The vector path looks at the alignment of shapes, not of strides."},
};
// clang-format on

}  // namespace kvproof::properties
