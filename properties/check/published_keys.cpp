// SPDX-License-Identifier: Apache-2.0
#include "properties/check/published_keys.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "optimized/pool/hashing.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

// What published_keys.py prints: a row for each request.
constexpr std::array<std::string_view, std::size(kPublishedHashes)> kPublished[] = {
    {"a60dca09bd5661800a98d0da9a9d2b5c",
     "f894e50991a3613c334f733a581edcff9a69c39d06efb95de4dd0a516544c725",
     "cc25a655502dc3a6a6161c497c0afb907f8b3bb808d5db5827d3d9de7bd66f25",
     "f96dd657a1cf55a0a400707b90c437fb0b516dbc833996713e6829a3fe01fe19"},
    {"b2c494274c863ed25b1825b9a056ea5d",
     "ca9bd161aab1c4a446e2c93fa5e89ec5832adec5cb0d217f360b4588d0b302a6",
     "03ba3e9bba2460a0ffe75d75f85d7c5b8759593fb97703510b543b7ed9508e80",
     "bc5ccdbfc9397141c0a26253a20801cbb009cf460ac2b7124d8840c482039eac"},
    {"935f778de2e0a3432abaf56d95e359b5",
     "69fa6a5deae4f90b472a2477920118c7c25b31e9ea08e31cc48f1145b97eea5a",
     "361f825e09047d6542fa7dfb76333357e023b90f0f487063574fa8791739230d",
     "1909786c93c17199e0fd136564f56645bd161745d235be2c081fc5f805366036"},
    {"dd2f5bb64dff858e0329513518a7da34",
     "e65dd311c02e8b19f1518e4f703626ebb9261de4591b190a84e61631cb072190",
     "16a33ffde93925bd8b11807656f90f67c3773efaade8546c19b86792346cfa25",
     "ecfb75a74640cfd4cdfdd6e3e23f4f528bb6cb894de37623453952e219a24391"},
    {"755b06ba23fa8feeab4d39384ee8d846",
     "f550de270e6ea9e49c275e1487d43f4e5940cdde2974b979c8ceb83d711df348",
     "83b1412ec5e4a6191ad99af2e00d2f5c13e37cb1f8f1d208ef0e34ba3c2df499",
     "c6f01498d6bdfd373483df00b7895cc293f3a17a5a61e68b65a9105d945c0f09"},
    {"78d95f5f87bcbba8ea847be036927f1e",
     "0bbf4106e8ed6732ad49c059c8824d5d7c4fc6698219d7f15153283ca749872f",
     "436c75137c613bb9ecaea8e888a522a1f4229b5eb7e6d293359ea842ac65dfa9",
     "5e2b7740e454a422750eac72a84e8875563e01ed188927d80bc737c8c802b9ba"},
    {"59ceae34bb2576b6c02cf2e4206eab5a",
     "99d45ecac8c8873e7cb7c1ddf9a5f309d44ae2dca63e54998a91c04a613b8287",
     "a22ff64b6e28a82b7ac8925ff5039bbc836d5a57b396176a5b5a4d80688e5fe0",
     "570ca6bfe193887acb13e95ebcc6b71976b97272ac0461390df80f956dbe21fb"},
    {"bede3459bc20ff0d8999057d7e3cca86",
     "76c347311a5ddddb9ac8ed2df51f9b90924d394fa0df78833ea3e6ca40ebb4ba",
     "bffbd3ccacb4fa08240ad5e87365019822472f6799ef8689f84526f3f9743777",
     "6f142aa62875e3763cc3fa4a071e6520285dab2dfd8621e66c1013b5845eb972"},
    {"4552438d7e6ab67e149b7d5b8c054832",
     "85952086a74f172c97d8dc92de290f4d699cee867aa73863f52dc3dbbbb9a968",
     "769aae48016fb9a8e933bc5f99c322fc035a56b8f99423d33ea7b527c4279388",
     "08e59427a99e21c9b95f2ca770a9cfb59f65226d4f9e2acf200d983c3da72d33"},
    {"387e5904326acb58e8921b496c76caf9",
     "37469c3481e7950d92764755c9addf7ff82d46455332d2ac90b09e5ec0cb7a2a",
     "a2e3f720c680edf05a4ed833e9030bd553324d355ad6da98d01196e7981a5c82",
     "861ac39a11a0752f98c9baf6decfff7e94c247a7b01b2ca0ba7932fab5c40f41"}};

CacheConfig units_of(std::uint32_t tokens, std::uint32_t lookahead = 0) {
  CacheConfig out;
  out.profile = *find_profile("vllm-0.33");
  out.num_blocks = 8;
  out.max_model_len = 512;
  out.hash_block_size = tokens;
  out.hash_lookahead = lookahead;
  out.groups = {{.kind = LayerKind::full, .block_size = tokens}};
  return out;
}

std::vector<TokenId> range(TokenId from, TokenId to) {
  std::vector<TokenId> out(static_cast<std::size_t>(to - from));
  std::iota(out.begin(), out.end(), from);
  return out;
}

// Texts of every width of their lengths, some as long as a frame of pickle.
ExtraKeys long_texts() {
  const auto text = [](std::size_t size, char letter) { return std::string(size, letter); };
  return {.lora = text(255, 'a'),
          .lora_path = text(256, 'b'),
          .salt = text(70'000, 'g'),
          .layout = "k",
          .mm = {{text(65'535, 'c'), 0, 1},
                 {text(65'536, 'd'), 1, 1},
                 {text(23, 'e'), 2, 1},
                 {text(24, 'f'), 3, 1},
                 {"behind", 4, 1}},
          .embeds = {{text(255, 'h'), 0, 1},
                     {text(256, 'i'), 1, 1},
                     {text(65'536, 'j'), 3, 1},
                     {"behind", 4, 1}}};
}

// Items over the ends of units, and texts that Python has only once.
ExtraKeys across_units() {
  return {.mm = {{"i", 0, 2},
                 {"i", 2, 1},
                 {"ab", 3, 2},
                 {"\u00e9", 5, 1},
                 {"\u00e9", 6, 1},
                 {"far", 7, 300}},
          .embeds = {{"rows", 1, 6}}};
}

// So many that pickle needs wide references.
ExtraKeys many_items() {
  ExtraKeys out;
  for (int i = 0; i < 4000; ++i) {
    out.mm.push_back({"item-" + std::to_string(1'000'000 + i).substr(1), 0, 1});
  }
  for (const char* id : {"\u00e9", "\u00e9"}) out.mm.push_back({id, 1, 1});
  for (const char* id : {"x", "x"}) out.mm.push_back({id, 2, 1});
  return out;
}

// Every text of one character that Python has only once, again and again: references of one byte
// and of four, one of which begins a frame.
ExtraKeys letters() {
  ExtraKeys out;
  for (int round = 0; round < 32; ++round) {
    for (int c = 33; c < 256; ++c) {
      std::string text(1, static_cast<char>(c));
      if (c > 127) text = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
      out.mm.push_back({std::move(text), 0, 1});
    }
  }
  return out;
}

// The number by which a state shows a key, of its hexadecimal text.
std::uint64_t shown_key(std::string_view hex) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit(hex[i]) << 4U | digit(hex[i + 1])));
  }
  const auto shown = [&](auto key) {
    std::memcpy(key.words.data(), bytes.data(), sizeof(key.words));
    return optimized::fingerprint(key);
  };
  return bytes.size() == sizeof(optimized::Key128) ? shown(optimized::Key128())
                                                   : shown(optimized::Key256());
}

}  // namespace

std::vector<PublishedKey> published_keys() {
  const ExtraKeys adapter{.lora = "x", .lora_path = "p", .salt = "s"};
  const std::vector<TokenId> wide = {0, 23, 24, 255, 256, 65535, 65536, 2147483647};
  std::vector<PublishedKey> out = {
      {"plain", units_of(4), {"r", range(0, 12), {}}, {}},
      {"usual", units_of(16), {"r", range(101, 133), {}}, {}},
      {"behind_one", units_of(4, 1), {"r", range(1, 10), {}}, {}},
      {"behind_two", units_of(4, 2), {"r", range(1, 11), {.salt = "salt"}}, {}},
      {"wide", units_of(8), {"r", wide, {}}, {}},
      {"adapter", units_of(4), {"r", range(1, 9), adapter}, {}},
      {"long", units_of(4), {"r", range(1, 9), long_texts()}, {}},
      {"across", units_of(4), {"r", range(1, 309), across_units()}, {}},
      {"many", units_of(4), {"r", range(1, 5), many_items()}, {}},
      {"letters", units_of(4), {"r", range(1, 5), letters()}, {}},
  };
  for (std::size_t i = 0; i < out.size(); ++i) out[i].keys = kPublished[i];
  return out;
}

Finding why_another_key(const PublishedKey& row, std::string_view hash, const Snapshot& state) {
  const auto* at = std::ranges::find(kPublishedHashes, hash);
  const std::string_view key = row.keys[static_cast<std::size_t>(at - kPublishedHashes.begin())];
  const CacheConfig& config = row.config;
  const std::size_t units =
      (row.arrival.tokens.size() - config.hash_lookahead) / config.hash_block_size;
  const bool has_all = state.requests.size() == 1 && state.requests.front().hashes.size() == units;
  if (!has_all) return say("the request ", row.name, " should show ", units, " hashes");
  if (state.requests.front().hashes.back() == shown_key(key)) return std::nullopt;
  return say("the key of the last unit of the request ", row.name, " should be ", hash, " ", key);
}

}  // namespace kvproof::properties
