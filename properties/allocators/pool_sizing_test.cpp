// SPDX-License-Identifier: Apache-2.0
// Sizes of models, pages and pools against figures worked by hand or printed by a real engine.
#include "reference/pool_sizing.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

#include "reference/model_presets.h"

namespace kvproof {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

KvSpec one_layer() { return KvSpec::full(1, 2, 64, DataType::fp16); }  // 512 B per token

ModelSpec preset(std::string_view name) { return find_model_preset(name)->spec(); }

TEST(KvSpecPages, OfAttentionAreHeadsTimesTokensTimesBothRows) {
  KvSpec spec = KvSpec::full(7, 4, 128, DataType::fp16);
  EXPECT_EQ(spec.page_bytes(16), 4U * 16 * (128 + 128) * 2);
  EXPECT_EQ(spec.bytes_per_block(16), 7 * spec.page_bytes(16));
  spec.value_head_size = 64;
  EXPECT_EQ(spec.page_bytes(16), 4U * 16 * (128 + 64) * 2);
}

TEST(KvSpecPages, OfMlaHoldOneRowPerCompressedToken) {
  KvSpec spec = KvSpec::mla(1, 512, 64, DataType::bf16);
  EXPECT_EQ(spec.page_bytes(64), 64U * 576 * 2);
  spec.compress_ratio = 4;
  EXPECT_EQ(spec.page_bytes(64), 16U * 576 * 2);
  EXPECT_THROW((void)lay_out({{spec}}, 6), std::invalid_argument);
}

TEST(KvSpecPages, OfScaledFp8MlaAre656BytesPerToken) {
  KvSpec spec = KvSpec::mla(61, 512, 64, DataType::fp8_e4m3);
  spec.format = RowFormat::fp8_ds_mla;
  EXPECT_EQ(spec.page_bytes(1), 656U);  // 512 + 4 * 4 + 64 * 2
  EXPECT_EQ(spec.bytes_per_token(), 61U * 656);
}

TEST(KvSpecPages, OfMambaAreTheStateWhateverTheBlock) {
  const KvSpec spec = KvSpec::mamba(24, {{{2, 3, 5}, DataType::fp32}, {{7, 11}, DataType::bf16}});
  EXPECT_EQ(spec.page_bytes(1), 2U * 3 * 5 * 4 + 7 * 11 * 2);
  EXPECT_EQ(spec.page_bytes(528), spec.page_bytes(1));
  EXPECT_EQ(spec.bytes_per_token(), 0U);
}

TEST(WorstCase, OfFullAttentionIsEveryBlock) {
  EXPECT_EQ(one_layer().worst_case_blocks(16, {16'384}), 1'024U);
  EXPECT_EQ(one_layer().worst_case_blocks(16, {16'385}), 1'025U);
}

TEST(WorstCase, OfASlidingWindowIsItsCap) {
  const auto cap = [](std::uint32_t window, std::uint64_t in_flight, std::uint64_t longest) {
    return KvSpec::sliding_window(window, one_layer()).worst_case_blocks(16, {longest, in_flight});
  };
  EXPECT_EQ(cap(1'024, 1'024, 16'384), 129U);
  EXPECT_EQ(cap(1'024, 2'048, 16'384), 193U);
  EXPECT_EQ(cap(64, 128, 16'384), 13U);
  EXPECT_EQ(cap(1'024, 1'024, 160), 11U);  // a short request, and a block for the window's start
}

TEST(WorstCase, OfAChunkIsItsCap) {
  const KvSpec spec = KvSpec::chunked_local(1'024, one_layer());
  EXPECT_EQ(spec.worst_case_blocks(16, {16'384, 1'024}), 128U);
  EXPECT_EQ(spec.worst_case_blocks(16, {16'384, 2'048}), 192U);
  EXPECT_EQ(spec.worst_case_blocks(16, {160, 2'048}), 10U);
}

TEST(WorstCase, OfMambaDependsOnWhatIsKept) {
  const auto blocks = [](MambaMode mode, std::uint32_t num_speculative) {
    const KvSpec spec = KvSpec::mamba(1, {{{8}, DataType::fp32}}, mode, num_speculative);
    return spec.worst_case_blocks(16, {16'384});
  };
  EXPECT_EQ(blocks(MambaMode::none, 0), 1U);
  EXPECT_EQ(blocks(MambaMode::none, 3), 4U);
  EXPECT_EQ(blocks(MambaMode::align, 3), 5U);
  EXPECT_EQ(blocks(MambaMode::all, 3), 1'027U);
}

TEST(WorstCase, OfCrossAttentionIsTheEncodersTokens) {  // fact 83
  const KvSpec spec = KvSpec::cross(one_layer());
  const std::map<std::uint64_t, std::uint64_t> known = {
      {0, 0},    {1, 1},    {15, 1},   {16, 1},     {17, 2},    {160, 10},
      {161, 11}, {200, 13}, {500, 32}, {1'000, 63}, {1'500, 94}};
  for (const auto& [tokens, blocks] : known) {
    const RequestLimits limits{.max_tokens = 9'999, .encoder_tokens = tokens};
    EXPECT_EQ(spec.worst_case_blocks(16, limits), blocks) << tokens;
    EXPECT_EQ(spec.blocks_held(16, 7, tokens), blocks) << tokens;
  }
}

TEST(Contiguous, IsOneBufferForTheLongestRequest) {
  const RequestLimits limits{.max_tokens = 10'000, .in_flight_tokens = 100, .encoder_tokens = 7};
  EXPECT_EQ(one_layer().contiguous_bytes(limits), 10'000U * 512);
  EXPECT_EQ(KvSpec::sliding_window(64, one_layer()).contiguous_bytes(limits), 163U * 512);
  EXPECT_EQ(KvSpec::chunked_local(64, one_layer()).contiguous_bytes(limits), 164U * 512);
  EXPECT_EQ(KvSpec::cross(one_layer()).contiguous_bytes(limits), 7U * 512);
  EXPECT_EQ(KvSpec::mamba(3, {{{5}, DataType::fp32}}).contiguous_bytes(limits), 60U);
}

// What a decoding request holds, from the definition: a block is held when one of its tokens can
// still be attended to, or is the one being decoded.
TEST(Held, IsTheBlocksThatCanStillBeAttendedTo) {
  for (const std::uint32_t block : {1U, 4U, 16U}) {
    for (const std::uint32_t reach : {1U, 5U, 16U, 33U}) {
      const KvSpec window = KvSpec::sliding_window(reach, one_layer());
      const KvSpec chunk = KvSpec::chunked_local(reach, one_layer());
      for (std::uint32_t tokens = 1; tokens <= 150; ++tokens) {
        const std::uint32_t last = tokens - 1;
        std::map<const KvSpec*, std::uint64_t> held;
        std::map<const KvSpec*, std::uint64_t> live;
        std::map<const KvSpec*, std::uint64_t> newest;  // block counted last, from 1
        for (std::uint32_t token = 0; token <= last; ++token) {
          const std::uint64_t place = token / block + 1;
          for (const KvSpec* spec : {&window, &chunk}) {
            const bool seen =
                spec == &window ? token + reach > last : token / reach == last / reach;
            if (!seen) continue;
            ++live[spec];
            held[spec] += newest[spec] != place ? 1U : 0U;
            newest[spec] = place;
          }
        }
        for (const KvSpec* spec : {&window, &chunk}) {
          ASSERT_EQ(spec->blocks_held(block, tokens), held[spec]) << tokens << ' ' << reach;
          ASSERT_EQ(spec->live_bytes(tokens), live[spec] * 512) << tokens << ' ' << reach;
          const bool capped = spec == &window || reach % block == 0;
          if (capped) {
            ASSERT_LE(held[spec], spec->worst_case_blocks(block, {tokens, 1}));
          }
        }
      }
    }
  }
}

TEST(Groups, AreDealtOutInTurn) {
  using Layers = std::vector<std::uint32_t>;
  EXPECT_EQ(deal_layers(52, 10), (Layers{9, 9, 9, 9, 8, 8}));
  EXPECT_EQ(deal_layers(12, 12), Layers{12});
  EXPECT_EQ(deal_layers(3, 2), (Layers{2, 1}));
}

TEST(Groups, AreAsLargeAsTheSmallestBucketUnlessAllAreNearlyEqual) {
  EXPECT_EQ(group_size_for({10, 52}), 10U);
  EXPECT_EQ(group_size_for({2, 3}), 2U);  // 3 is half as large again
  EXPECT_EQ(group_size_for({20, 29}), 29U);
  EXPECT_EQ(group_size_for({20, 30}), 20U);
}

TEST(PoolLayout, OfEqualLayersIsOneGroup) {
  const PoolLayout layout = lay_out({{KvSpec::full(3, 2, 64, DataType::fp16), one_layer()}}, 16);
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.groups[0].spec.num_layers, 4U);
  EXPECT_EQ(layout.block_bytes, 4U * 16 * 512);
}

TEST(PoolLayout, OfOneKindInSeveralSizesIsOneGroupOfAllPages) {
  const ModelSpec model{{one_layer(), KvSpec::full(2, 3, 64, DataType::fp16)}};
  const PoolLayout layout = lay_out(model, 16);
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.block_bytes, 16U * (512 + 2 * 768));
  EXPECT_EQ(num_blocks(layout, 100 * layout.block_bytes + 7), 100U);
}

TEST(PoolLayout, MakesASmallerPageHoldMoreTokens) {
  const ModelSpec model{{KvSpec::full(2, 4, 64, DataType::fp16),
                         KvSpec::sliding_window(64, KvSpec::full(2, 1, 64, DataType::fp16))}};
  const PoolLayout layout = lay_out(model, 16);
  ASSERT_EQ(layout.groups.size(), 2U);
  EXPECT_EQ(layout.groups[0].block_size, 16U);
  EXPECT_EQ(layout.groups[1].block_size, 64U);
  EXPECT_EQ(layout.block_bytes, 2U * 4 * 16 * 256);
  const ModelSpec odd{{KvSpec::full(2, 3, 64, DataType::fp16),
                       KvSpec::sliding_window(64, KvSpec::full(2, 2, 64, DataType::fp16))}};
  EXPECT_THROW((void)lay_out(odd, 16), std::invalid_argument);
  EXPECT_THROW((void)lay_out({}, 16), std::invalid_argument);
}

// vLLM prints at start-up, for 4 KV heads of 256 and a state of 2,146,304 B: "Setting attention
// block size to 528 tokens", "Padding mamba page size by 0.76%".
TEST(PoolLayout, GrowsAttentionBlocksToAMambaState) {
  const KvSpec state =
      KvSpec::mamba(24, {{{32, 128, 128}, DataType::fp32}, {{3, 8'192}, DataType::bf16}});
  ASSERT_EQ(state.page_bytes(16), 2'146'304U);
  const PoolLayout layout = lay_out({{KvSpec::full(8, 4, 256, DataType::bf16), state}}, 16);
  ASSERT_EQ(layout.groups.size(), 4U);
  EXPECT_EQ(layout.groups[0].block_size, 528U);
  EXPECT_EQ(layout.block_bytes, 8U * 2'162'688);
  EXPECT_NEAR(2'162'688.0 / 2'146'304.0, 1.0076, 0.00005);
}

TEST(PoolSizing, ConcurrencyIsBlocksOverTheWorstCase) {
  const RequestLimits limits{.max_tokens = 16'384, .in_flight_tokens = 1'024};
  const PoolLayout full = lay_out({{one_layer()}}, 16);
  EXPECT_EQ(full.worst_case_blocks(limits), 1'024U);
  EXPECT_DOUBLE_EQ(max_concurrency(full, 1'024, limits), 1.0);
  EXPECT_DOUBLE_EQ(max_concurrency(full, 1'536, limits), 1.5);
  const PoolLayout hybrid =
      lay_out({{one_layer(), KvSpec::sliding_window(1'024, one_layer())}}, 16);
  EXPECT_EQ(hybrid.worst_case_blocks(limits), 1'153U);
  EXPECT_DOUBLE_EQ(max_concurrency(hybrid, 1'153 * 3, limits), 3.0);
}

TEST(PoolSizing, Fact88_TheNullBlockIsReserved) {
  const PoolLayout layout = lay_out({{one_layer()}}, 16);
  EXPECT_EQ(whole_requests(layout, 32, {512}), 0U);
  EXPECT_EQ(whole_requests(layout, 33, {512}), 1U);
  EXPECT_EQ(longest_request(layout, 64, {1'000'000}), 1'008U);
  EXPECT_EQ(longest_request(layout, 64, {1'000}), 1'000U);
  EXPECT_EQ(longest_request(layout, 1, {1'000}), 0U);
  EXPECT_EQ(longest_request(layout, 0, {1'000}), 0U);
}

TEST(ModelPresets, TakeTheBytesPerTokenThatArePublished) {
  const std::map<std::string, std::uint64_t> known = {
      {"llama-3-8b", 131'072},      {"llama-3-70b", 327'680}, {"qwen3-8b", 147'456},
      {"mistral-7b-v0.1", 131'072}, {"gemma-3-27b", 507'904}, {"gpt-oss-20b", 49'152},
      {"deepseek-v3", 70'272},      {"nemotron-h-8b", 16'384}};
  for (const auto& [name, bytes] : known) EXPECT_EQ(preset(name).bytes_per_token(), bytes) << name;
  EXPECT_EQ(preset("mistral-7b-v0.1").lasting_bytes_per_token(), 0U);
  EXPECT_EQ(preset("gemma-3-27b").lasting_bytes_per_token(), 10U * 8'192);
  EXPECT_EQ(preset("gpt-oss-20b").lasting_bytes_per_token(), 12U * 2'048);
  EXPECT_EQ(find_model_preset("llama"), nullptr);
}

TEST(ModelPresets, HoldWhatTheirKindSays) {
  const ModelSpec mamba = mamba_codestral_7b();
  EXPECT_EQ(mamba.live_bytes(1), 64U * (128 * 64 * 128 + 3 * 10'240) * 2);
  EXPECT_EQ(mamba.live_bytes(1'000'000), mamba.live_bytes(1));
  const ModelSpec window = preset("mistral-7b-v0.1");
  EXPECT_EQ(window.live_bytes(4'096), 536'870'912U);
  EXPECT_EQ(window.live_bytes(30'000), 536'870'912U);
  const ModelSpec hybrid = preset("nemotron-h-8b");
  EXPECT_EQ(hybrid.live_bytes(1'000), 51'806'208U + 1'000 * 16'384);  // 49.4 MiB of state
}

TEST(ModelPresets, FillAPoolAsWorkedByHand) {
  // 5 MiB a block: 60 GiB are 12,288; a request of 32,768 tokens takes 2,048 of them.
  const PoolLayout llama = lay_out(preset("llama-3-70b"), 16);
  EXPECT_EQ(llama.block_bytes, 5'242'880U);
  EXPECT_EQ(num_blocks(llama, 60 * kGiB), 12'288U);
  EXPECT_DOUBLE_EQ(max_concurrency(llama, 12'288, {32'768}), 6.0);
  EXPECT_EQ(whole_requests(llama, 12'288, {32'768}), 5U);
  // One group of 10 global layers and six of 9 or 8 with windows: 128 KiB pages, 10 to a block.
  const PoolLayout gemma = lay_out(preset("gemma-3-27b"), 16);
  ASSERT_EQ(gemma.groups.size(), 7U);
  EXPECT_EQ(gemma.block_bytes, 10U * 131'072);
  EXPECT_EQ(gemma.worst_case_blocks({32'768, 2'048}), 2'048U + 6 * 193);
  EXPECT_EQ(gemma.blocks_held(32'768), 2'048U + 6 * 64);
  // 4 attention layers, and 24 states in six groups of 4; a state and 0.2 % fill 528 tokens.
  const PoolLayout nemotron = lay_out(preset("nemotron-h-8b"), 16);
  ASSERT_EQ(nemotron.groups.size(), 7U);
  EXPECT_EQ(nemotron.groups[0].block_size, 528U);
  EXPECT_EQ(nemotron.block_bytes, 4U * 2'162'688);
  EXPECT_EQ(nemotron.worst_case_blocks({8'192}), 16U + 6);
}

TEST(ModelPresets, TakeAnotherElementTypeForRowsOnly) {
  const ModelSpec fp8 = with_rows_in(preset("nemotron-h-8b"), DataType::fp8_e4m3, RowFormat::plain);
  EXPECT_EQ(fp8.bytes_per_token(), 8'192U);
  EXPECT_EQ(fp8.live_bytes(1), 51'806'208U + 8'192);
  const ModelSpec scaled =
      with_rows_in(preset("deepseek-v3"), DataType::fp8_e4m3, RowFormat::fp8_ds_mla);
  EXPECT_EQ(scaled.bytes_per_token(), 40'016U);
}

}  // namespace
}  // namespace kvproof
