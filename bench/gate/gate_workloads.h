// SPDX-License-Identifier: Apache-2.0
// The list of the gate's workloads. Each is one kind of work of an allocator in service, in its
// purest form, and small enough to be counted by callgrind.
//
// Model:   all are the same closed loop (player.h) with other numbers: `live` requests run at a
//          time, and each step decodes one token of each. Tokens are drawn from the seed alone.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvproof::bench {

struct GateWorkload {
  std::string_view name;
  std::string_view sentence;
  std::uint32_t num_blocks;     // with the null block
  std::uint32_t live;           // requests at one time
  std::uint32_t prompt_tokens;  // of each, the shared part with it
  std::uint32_t shared_tokens;  // at its start, one of `num_prefixes`
  std::uint32_t num_prefixes;
  std::uint32_t decode_tokens;
  std::uint32_t chunk_tokens;  // one allocation of a prompt asks for at most so many
  std::uint32_t warm_up;       // requests before the measured ones
  std::uint32_t requests;      // measured; a timed run has kTimedFactor times as many

  [[nodiscard]] std::uint32_t max_tokens() const { return prompt_tokens + decode_tokens; }
  /// The divisor of all measures: the blocks that the measured requests get. [blocks]
  [[nodiscard]] std::uint64_t blocks() const {
    return std::uint64_t{requests} * ((max_tokens() + kBlockTokens - 1) / kBlockTokens);
  }

  static constexpr std::uint32_t kBlockTokens = 16;  // [tokens per block]
  static constexpr std::uint32_t kTimedFactor = 8;
};

inline constexpr GateWorkload kGateWorkloads[] = {
    {"decode", "a token at a time: 64 requests of 64 tokens decode 256 each",  //
     8192, 64, 64, 0, 1, 256, 2048, 448, 64},
    {"chat", "prompts of 1,024 tokens, 896 of them cached: look-up and revival",  //
     8192, 16, 1024, 896, 8, 16, 2048, 640, 128},
    {"eviction", "the pool is full of cached blocks: each that is taken evicts one",  //
     16384, 8, 512, 0, 1, 1, 2048, 560, 192},
    {"preemption", "too few blocks: refusals, preemption, recompute from what is still cached",  //
     512, 32, 256, 0, 1, 128, 2048, 64, 96},
    {"long_prompt", "prompts of 32,768 tokens in chunks of 2,048, one at a time",  //
     8192, 1, 32768, 0, 1, 4, 2048, 5, 4},
    {"short", "many requests of two blocks: arrival and finish",  //
     4096, 64, 24, 0, 1, 4, 2048, 2048, 1024},
};

}  // namespace kvproof::bench
