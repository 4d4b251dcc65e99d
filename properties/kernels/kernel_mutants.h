// SPDX-License-Identifier: Apache-2.0
// The list of seeded faults of kernels: reported defects of real engines, each made again by a
// source patch of that number to the CUDA sources (properties/selftest/kernels.patches), with
// the operation whose checks must notice it.
//
// Source:  the public report behind `report`. The fault is the same class of mistake at the same
//          place, not the engine's code.
#pragma once

#include <string_view>

namespace kvproof::properties {

/// Which hunts must notice a fault.
enum class NoticedBy {
  both,       // results are wrong, or the program ends
  addresses,  // results are right: what is read outside of an array is thrown away, and only
              // AddressSanitizer sees it
};

struct KernelMutant {
  std::string_view name;    // "B<number> <operation>": a row of kernels/kernels.h; M: of no report
  int fault;                // the id of the patch
  std::string_view report;  // below https://github.com/
  std::string_view sentence;
  NoticedBy noticed_by = NoticedBy::both;

  [[nodiscard]] constexpr std::string_view operation() const {
    return name.substr(name.find(' ') + 1);
  }
  /// Which implementations have it, at most: the beginning of their names.
  [[nodiscard]] constexpr std::string_view rows() const {
    return fault > 300 && fault < 340 ? "cuda/wgmma" : "cuda/";
  }
};

// clang-format off: two lines a row
inline constexpr KernelMutant kKernelMutants[] = {
    // Movement and tables.
    {"B162 reshape_and_cache", 162, "vllm-project/vllm/issues/1486",
     "The offset of a row in the cache is held in 32 bits."},
    {"B165 gather_cache", 165, "flashinfer-ai/flashinfer/pull/3136",
     "Block times stride is an unsigned product of 32 bits."},
    {"B166 gather_cache", 166, "ROCm/aiter/issues/2517",
     "The size of the cache is held in 32 bits: what lies beyond reads as zeros."},
    {"B167 copy_blocks", 167, "ROCm/aiter/issues/3824",
     "Only the lower half of an address is computed: no carry into the upper one."},
    {"B168 reshape_and_cache", 168, "ROCm/ATOM/issues/702", "A block id is cut to 16 bits."},
    {"B169 gather_cache", 169, "local-inference-lab/b12x/pull/45",
     "Block times the stride of a packed record is a signed product of 32 bits."},
    {"B172 reshape_and_cache", 172, "vllm-project/vllm/issues/43810",
     "A slot of -1 is an index like any other."},
    {"B173 reshape_and_cache", 173, "vllm-project/vllm/pull/13922",
     "The tokens are counted by the key, which is padded beyond the slots."},
    {"B176 slot_mapping", 176, "NVIDIA/TensorRT-LLM/pull/13278",
     "Padding tokens get the first slots, which others own."},
    {"B177 slot_mapping", 177, "xLLM-AI/xllm/pull/1939",
     "Padding tokens get no slot: those of the last step stay."},
    {"B179 slot_mapping", 179, "vllm-project/vllm/issues/53982",
     "A position beyond the table's width reads the next row."},
    {"B180 slot_mapping", 180, "sgl-project/sglang/pull/38187",
     "A block id is taken for the slot of a token."},
    {"B183 slot_mapping", 183, "vllm-project/vllm/pull/27547",
     "The manager's block size is used where the table has the kernel's."},
    {"B184 slot_mapping", 184, "vllm-project/vllm/pull/51031",
     "The column comes from the kernel's block size, the slot from the manager's."},
    {"B185 reshape_and_cache", 185, "flashinfer-ai/flashinfer/pull/527",
     "The cache is taken for dense, whatever its strides."},
    {"B187 gather_cache", 187, "vllm-project/vllm/issues/49012",
     "The block size is read from the dimension where NHD has it, in HND too."},
    {"B188 copy_blocks", 188, "vllm-project/vllm/pull/50276",
     "As many bytes are written as lie between two blocks, other layers' among them."},
    {"B189 gather_cache", 189, "LMCache/LMCache/issues/4463",
     "With two heads one layout is taken for the other."},
    {"B190 swap_blocks", 190, "vllm-project/vllm/pull/30692",
     "The bytes of a block are those of the kernel's, not of the manager's."},
    {"B219 reshape_and_cache", 219, "vllm-project/vllm/pull/27232",
     "The scales are not applied where fp8 is written."},
    {"B221 gather_cache", 221, "NVIDIA/TensorRT-LLM/pull/16916",
     "The scale does not arrive where fp8 is read."},
    {"B222 reshape_and_cache", 222, "vllm-project/vllm/pull/34863",
     "V's scale stays at its default."},
    {"B223 reshape_and_cache", 223, "vllm-project/vllm/issues/50702",
     "V's scale is zero when the first tokens are written."},
    {"B224 gather_cache", 224, "vllm-project/vllm/pull/55670",
     "fp8 becomes bf16 and fp16 without its scale."},
    {"B226 reshape_and_cache", 226, "vllm-project/vllm/issues/57614",
     "A head size that the vector path cannot do is accepted."},
    {"B229 reshape_and_cache", 229, "vllm-project/vllm/pull/438",
     "Every thread moves one element: what is left of a row stays unwritten."},
    {"B233 reshape_and_cache", 233, "vllm-project/vllm/pull/45466",
     "The vector path looks at the alignment of its input only."},
    {"B234 reshape_and_cache", 234, "ggml-org/llama.cpp/pull/17891",
     "The vector path looks at the alignment of shapes, not of strides."},
    {"B256 gather_cache", 256, "vllm-project/vllm/issues/45462",
     "The table's entry behind the range is read, too.", NoticedBy::addresses},
    {"B257 slot_mapping", 257, "gittensor-ai-lab/sparkinfer/pull/152",
     "An entry of -1 loses its sign, and is a block."},
    {"B258 reshape_and_cache", 258, "sgl-project/sglang/issues/36207",
     "Padding tokens are written to slot 0."},
    {"M24 reshape_and_cache", 24, "", "One element behind a row is read, too.",
     NoticedBy::addresses},
    {"M25 slot_mapping", 25, "", "The position of a padding token is read before it is masked.",
     NoticedBy::addresses},
    {"M26 copy_blocks", 26, "", "The pair behind the last is read ahead.", NoticedBy::addresses},
    {"M27 slot_mapping", 27, "", "A position below 0 is looked up in the entry before the row."},
    {"M28 reshape_and_cache", 28, "", "Of the slots below 0 only -1 writes nothing."},
    {"M29 reshape_and_cache", 29, "", "What follows a padding token is taken for padding."},
    {"M30 gather_cache", 30, "", "An entry of -1 is a block like any other."},
    {"M31 gather_cache", 31, "", "An entry of -1 is read as block 0."},
    {"M32 copy_blocks", 32, "", "A pair with -1 is copied like any other."},
    {"M33 copy_blocks", 33, "", "Only the destination of a pair is looked at for -1."},
    // Attention.
    {"B163 paged_decode", 163, "vllm-project/vllm/pull/47671",
     "The offset of a K row is held in 32 bits, with a sign."},
    {"B165 paged_decode", 165, "flashinfer-ai/flashinfer/pull/3136",
     "The offset of a K row is held in 32 bits, without a sign."},
    {"B168 paged_decode", 168, "ROCm/ATOM/issues/702",
     "A block id of the table is cut to 16 bits."},
    {"B170 paged_decode", 170, "syv-ai/qwen38-27b-rtx3090/issues/86",
     "With splits the offset of a V row is held in 32 bits."},
    {"B171 paged_decode", 171, "vllm-project/vllm/issues/45500",
     "The merge holds the offset of its output in 32 bits."},
    {"B178 paged_decode", 178, "sgl-project/sglang/pull/1469",
     "A padded sequence of no tokens is taken to have one."},
    {"B182 paged_decode", 182, "NVIDIA/TensorRT-LLM/pull/18259",
     "The lengths are rotated against the block tables."},
    {"B183 paged_prefill", 183, "vllm-project/vllm/pull/27547",
     "The manager's block size is used where the table has the kernel's."},
    {"B185 paged_decode", 185, "flashinfer-ai/flashinfer/pull/527",
     "The cache is taken for dense, whatever its strides."},
    {"B192 paged_decode", 192, "pegainfer-project/pegainfer/issues/291",
     "A length that fills its last block reads on into the next."},
    {"B194 paged_decode", 194, "paiml/aprender/pull/2030",
     "The number of tiles is that of the launch that was recorded."},
    {"B196 paged_decode", 196, "vllm-project/vllm/pull/936",
     "V is read up to and including the length."},
    {"B197 paged_decode", 197, "vllm-project/vllm/pull/53856",
     "V of the last block's tail is not masked."},
    {"B199 paged_decode", 199, "vllm-project/vllm/pull/30887",
     "V of the block in which the window starts is not masked."},
    {"B201 mla_decode", 201, "flashinfer-ai/flashinfer/pull/942",
     "The tail is filled from another sequence, with a weight of zero."},
    {"B202 paged_prefill", 202, "ROCm/aiter/pull/5401",
     "Scores of the tail are masked by what is added to them: a NaN stays."},
    {"B204 paged_prefill", 204, "ModelTC/LightLLM/pull/1311",
     "The window reaches as far to the right as to the left."},
    {"B205 paged_decode", 205, "zml/zml/pull/763",
     "The window does not count the query's own token."},
    {"B206 mla_decode", 206, "vllm-project/vllm/pull/28181",
     "The merge divides by a sum of zero where no split has tokens."},
    {"B207 paged_decode", 207, "vllm-project/vllm/pull/15492",
     "A split without tokens has a log-sum-exp of +infinity."},
    {"B210 paged_decode", 210, "vllm-project/vllm/pull/47188",
     "Splits that a window leaves empty are not written, and merged."},
    {"B211 paged_decode", 211, "Dao-AILab/flash-attention/pull/2550",
     "The merge reads the first sequence's splits for all."},
    {"B212 paged_decode", 212, "flagos-ai/FlagGems/issues/5235",
     "The merge takes the output for dense, whatever its strides."},
    {"B213 paged_decode", 213, "local-inference-lab/vllm/pull/15",
     "The merge walks the splits by the size of a K row."},
    {"B214 paged_prefill", 214, "vllm-project/vllm/pull/22003",
     "A transposed log-sum-exp is taken for dense."},
    {"B215 paged_decode", 215, "pegainfer-project/pegainfer/pull/21",
     "Where all splits are empty, -infinity is subtracted from itself."},
    {"B216 paged_decode", 216, "ROCm/aiter/pull/3606",
     "One split is merged as if there were several: from scratch that nobody wrote."},
    {"B218 paged_decode", 218, "vllm-project/vllm/pull/42580",
     "With splits V's scale is left out."},
    {"B219 paged_decode", 219, "vllm-project/vllm/pull/27232",
     "K's scale is not applied where fp8 is read."},
    {"B221 paged_prefill", 221, "NVIDIA/TensorRT-LLM/pull/16916",
     "V's scale does not arrive in a prefill."},
    {"B226 paged_decode", 226, "vllm-project/vllm/issues/57614",
     "Heads that do not divide among the KV heads are accepted."},
    {"B229 paged_decode", 229, "vllm-project/vllm/pull/438",
     "Every thread sums one element: the rest of a long V row is ignored."},
    {"B230 paged_decode", 230, "NVIDIA/TensorRT-LLM/pull/18244",
     "At a head size of 256 V's position advances per tile."},
    {"B251 paged_decode", 251, "vllm-project/vllm/pull/40745",
     "Lanes without an element of the head read on behind the query.", NoticedBy::addresses},
    {"B254 mla_decode", 254, "flashinfer-ai/flashinfer/pull/4365",
     "The table's entries for the next tile are read where there is none.", NoticedBy::addresses},
    {"B255 paged_prefill", 255, "microsoft/onnxruntime/pull/31651",
     "The start behind the last of the query's starts is read.", NoticedBy::addresses},
    {"B259 paged_decode", 259, "kekzl/imp/issues/1678",
     "Entries of blocks before the window are followed."},
    {"M23 paged_decode", 23, "", "The length of the sequence behind the last is read ahead.",
     NoticedBy::addresses},
    {"M34 paged_decode", 34, "", "The rows of a padded sequence are not written."},
    // The tuned kernel.
    {"B252 paged_prefill", 252, "vllm-project/vllm/pull/46548",
     "The query is read for the row behind a block's last.", NoticedBy::addresses},
    {"B253 paged_decode", 253, "vllm-project/flash-attention/pull/42",
     "The table is read up to the end of a tile, not of the sequence.", NoticedBy::addresses},
    {"B233 paged_decode", 233, "vllm-project/vllm/pull/45466",
     "The tuned kernel looks at the alignment of strides, not of pointers."},
    {"B234 paged_decode", 234, "ggml-org/llama.cpp/pull/17891",
     "The tuned kernel looks at the alignment of pointers, not of strides."},
    {"M11 paged_decode", 11, "",
     "Rows behind the end are not zeros where the matrix unit reads V."},
    {"M12 paged_decode", 12, "", "Copies to shared memory are not awaited."},
    {"M13 paged_decode", 13, "", "The weights meet the V rows of their neighbours."},
    {"M14 paged_prefill", 14, "", "A stage is overwritten while other warps read it."},
    {"M15 paged_decode", 15, "", "What was summed is not brought to a new maximum."},
    {"M16 paged_prefill", 16, "",
     "A row sees what another row of its block sees at its window's start."},
    {"M35 paged_prefill", 35, "", "A sequence without query tokens writes the row of the next."},
    {"M36 paged_prefill", 36, "", "Entries behind the length are followed."},
    // The prefill kernel for Hopper.
    {"M301 paged_prefill", 301, "", "Zeros over V's stale rows are not fenced."},
    {"M302 paged_prefill", 302, "", "Rows that are copied one by one are not fenced."},
    {"M303 paged_prefill", 303, "", "The query is not fenced."},
    {"M304 paged_prefill", 304, "", "V's stage is given back while a product reads it."},
    {"M305 paged_prefill", 305, "", "The parity does not turn when the stages begin anew."},
    {"M306 paged_prefill", 306, "", "V's leading and stride offsets are swapped."},
    {"M307 paged_prefill", 307, "", "Heads are taken to lie as in NHD, in HND too."},
    {"M308 paged_prefill", 308, "", "A box comes from the entry of the step before."},
    {"M309 paged_prefill", 309, "", "The entry behind the last is followed."},
    {"M310 paged_prefill", 310, "", "Stale rows of V's last block are not overwritten."},
    {"M311 paged_prefill", 311, "", "A row sees the token behind its own."},
    {"M312 paged_prefill", 312, "", "A step where a window starts is not masked."},
    {"M313 paged_prefill", 313, "", "A stage counts as filled before its last box has landed."},
    {"M314 paged_prefill", 314, "", "Sums of earlier steps are not brought to a new maximum."},
    {"M315 paged_prefill", 315, "", "Sums are brought to a new maximum, and no fence follows."},
    {"M316 paged_prefill", 316, "", "Sequences share tiles by their sum: rows are left over."},
    {"M317 paged_prefill", 317, "", "Copies of rows are not awaited before the stage is filled."},
    {"M318 paged_prefill", 318, "", "A stage is filled again before it was given back."},
    {"M319 paged_prefill", 319, "", "Rows of V come from the blocks of K's step."},
    // The latent kernel for Hopper.
    {"M320 mla_decode", 320, "", "The weights are not fenced before the matrix unit reads them."},
    {"M321 mla_decode", 321, "", "A stage is freed before the products that read it have ended."},
    {"M322 mla_decode", 322, "", "The parity of a stage stays when its ring begins again."},
    {"M323 mla_decode", 323, "", "The values' groups of tokens are as far apart in both parts."},
    {"M324 mla_decode", 324, "", "A barrier expects fewer bytes than the copies bring."},
    {"M325 mla_decode", 325, "", "A named barrier is told of more threads than come."},
    {"M326 mla_decode", 326, "", "Stale rows of the last page meet weights of zero."},
    {"M327 mla_decode", 327, "", "The last piece of a sequence is not merged."},
    {"M328 mla_decode", 328, "", "No fence lies between a change of sums and their next product."},
    {"M329 mla_decode", 329, "", "What half of the columns summed is not rescaled."},
    {"M330 mla_decode", 330, "", "Entries behind the length are followed."},
    {"M331 mla_decode", 331, "", "A run that goes on in a sequence begins with its first token."},
    {"M332 mla_decode", 332, "", "The next query overwrites one that is still read."},
    {"M333 mla_decode", 333, "", "Tokens behind the length have a score of zero."},
    {"M334 mla_decode", 334, "", "Splits that no piece is for are not written, and merged."},
    {"M335 mla_decode", 335, "", "The second part of a tile is not awaited."},
    {"M336 mla_decode", 336, "", "The scores are read before their products have ended."},
    {"M337 mla_decode", 337, "", "A stage is loaded again before it is free."},
    {"M340 paged_decode", 340, "", "The count of splits that arrived is not set back to zero."},
    {"M341 mla_decode", 341, "", "No split finds itself the last: nobody merges."},
    {"M342 paged_decode", 342, "", "The weights are not transposed before they meet V."},
    {"M347 paged_decode", 347, "", "The last tile of a decode is not masked."},
    {"M343 paged_prefill", 343, "", "The tile on the diagonal is not masked."},
    {"M346 paged_prefill", 346, "", "The tile where a window starts is not masked."},
    {"M344 paged_prefill", 344, "", "The 16 bytes behind a query head are read, too.",
     NoticedBy::addresses},
    {"M345 paged_decode", 345, "", "Query rows are taken for aligned, whatever their strides."},
};
// clang-format on

/// A report that is not made again here, and the mechanism that it would need.
struct KernelNotApplicable {
  std::string_view id;
  std::string_view mechanism;
};

inline constexpr KernelNotApplicable kKernelNotApplicable[] = {
    {"B175", "a free list that a captured graph's padding shares: a manager has it"},
    {"B193", "a length of the last page: kernels are given lengths of sequences"},
    {"B195", "the report names no cause"},
    {"B200", "the same class as B197, without a change of its own"},
    {"B209", "a merge of two states by itself: the splits' merge has it, as B215"},
    {"B217", "the report names no cause"},
    {"B227", "ALiBi"},
    {"B231", "the report names no cause"},
    {"B232", "stages of a kernel whose K and V rows differ in size"},
};

}  // namespace kvproof::properties
