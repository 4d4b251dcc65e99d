// SPDX-License-Identifier: Apache-2.0
// Block hashes that vLLM 0.33.0 printed, each with the number of its fact in
// reference/vllm/0.33.md. engines/allocators/vllm_hashes_test.cpp asks the release itself.
#include "optimized/pool/vllm_hashing.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimized/manager/requests.h"
#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

using properties::counted_tokens;

/// The environment's PYTHONHASHSEED for one test.
class PythonHashSeed {
 public:
  explicit PythonHashSeed(const char* value) {
    if (const char* const now = std::getenv(kName)) before_ = now;
    set(value);
  }
  ~PythonHashSeed() { set(before_ ? before_->c_str() : nullptr); }
  PythonHashSeed(const PythonHashSeed&) = delete;
  PythonHashSeed& operator=(const PythonHashSeed&) = delete;

 private:
  static constexpr const char* kName = "PYTHONHASHSEED";
  static void set(const char* value) {
    value == nullptr ? unsetenv(kName) : setenv(kName, value, 1);
  }

  std::optional<std::string> before_;
};

std::string hex(const Key256& key) {
  std::string out;
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.words.data());
  for (std::size_t i = 0; i < sizeof(key.words); ++i) {
    out += "0123456789abcdef"[bytes[i] >> 4];
    out += "0123456789abcdef"[bytes[i] & 0xf];
  }
  return out;
}

/// The keys of all units of the tokens.
template <class Digest>
std::vector<std::string> keys_of(std::uint32_t unit, const std::vector<TokenId>& tokens,
                                 std::uint32_t lookahead = 0) {
  ChainHasher<Digest> hasher(unit, 0, lookahead);
  std::vector<Key256> keys((tokens.size() - lookahead) / unit);
  hasher.hash(tokens.data(), nullptr, 0, static_cast<std::uint32_t>(keys.size()), keys.data());
  std::vector<std::string> out;
  for (const Key256& key : keys) out.push_back(hex(key));
  return out;
}

/// The key that starts a chain.
template <class Digest>
Key256 none_key(const std::string& seed) {
  std::string message;
  Digest::write(seed, message);
  return Sha256Digest{}(message.data(), message.size());
}

/// The key of the tokens 1, 2, 3, 4 at `start`, behind no other.
template <class Digest>
std::string key_of_four(const std::string& seed, const ExtraKeys& extra, std::uint32_t start = 0) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  std::string message;
  Digest::write(none_key<Digest>(seed), {tokens.data(), start, 4, 0, &extra}, message);
  return hex(Sha256Digest{}(message.data(), message.size()));
}

constexpr const char kOwnSeed[] = "vllm-none-hash";
const ExtraKeys kSalt{.salt = "salt"};
const ExtraKeys kAdapter{.lora = "x", .lora_path = "p"};
const ExtraKeys kImage{.mm = {{"img", 0, 7}}};  // starts 3 tokens before the unit at 3

TEST(VllmHashing, Fact_2_1_TaggedExtraKeysInPickle) {
  using D = VllmSha256Digest;
  EXPECT_EQ(key_of_four<D>("0", kSalt),
            "613db6576f5592951e92bb20fca7908b406b4dfd52374238b016755d316bedf7");
  EXPECT_EQ(key_of_four<D>("0", kAdapter),
            "fe17cae1b785d00fc0ee2a650ef3bda1f007b47f1db1c4668de4214e2aba64bd");
  EXPECT_EQ(key_of_four<D>("0", kImage, 3),
            "bb63427f8d77a5e56eacefc49c462c77e09cd367ef1da5ff13d147740f81cc6d");
}

TEST(VllmHashing, Fact_2_1_TaggedExtraKeysInCbor) {
  using D = VllmSha256CborDigest;
  EXPECT_EQ(key_of_four<D>(kOwnSeed, kSalt),
            "f6e0156f627fccb75f469a5d71af370daa93e85f1a1a7782a57b9d93e37f77c7");
  EXPECT_EQ(key_of_four<D>(kOwnSeed, kAdapter),
            "7849919bcc09bd77eef825745378da0d68d1f9dc59e0f44d79ba06a38e8bb0ef");
  EXPECT_EQ(key_of_four<D>(kOwnSeed, kImage, 3),
            "b208f06cb2a6494341f3c16693d29b1d42e74acbfb527da4d9e4970ea0cbe8bc");
}

TEST(VllmHashing, Fact_2_1_AdapterImageAndSaltInTheirOrder) {
  const ExtraKeys all{.lora = "x", .lora_path = "p", .salt = "s", .mm = {{"i", 1, 1}}};
  const std::vector<TokenId> tokens = {7, 8};
  std::string message;
  VllmSha256CborDigest::write(Key256(), {tokens.data(), 0, 2, 0, &all}, message);
  EXPECT_TRUE(
      message.ends_with("\x83\x83\x64lora\x61x\x61p\x83\x62mm\x61i\x01\x82\x6a"
                        "cache_salt\x61s"));
}

TEST(VllmHashing, Fact_2_2_TokensBehindAUnit) {
  const PythonHashSeed seed("0");
  EXPECT_EQ(keys_of<VllmSha256Digest>(4, counted_tokens(5), 1).front(),
            "c0bf3cd0c313115c85746bdcbda8e56135cbfaac5c6c39159965adde71c6e3ae");
  EXPECT_EQ(keys_of<VllmSha256Digest>(4, counted_tokens(6), 2).front(),
            "579696df40075ee124fcb5710bdbc9da33377d829baf929bb605bc93317c8b46");
}

TEST(VllmHashing, Fact_2_3_SeedZero) {
  const PythonHashSeed seed("0");
  EXPECT_EQ(hex(none_key<VllmSha256Digest>("0")),
            "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c");
  EXPECT_EQ(keys_of<VllmSha256Digest>(4, counted_tokens(4)).front(),
            "46117ba77ad894de70dbb722c54f081d9c22d67a118e1776b7acef72235a141f");
  EXPECT_EQ(hex(none_key<VllmSha256CborDigest>("0")),
            "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  EXPECT_EQ(keys_of<VllmSha256CborDigest>(4, counted_tokens(8)),
            (std::vector<std::string>{
                "8d4c7c828f1611f485f1ebfc2b19f0fe1c90d0a71d00cd90948a1fa5e8c9e91f",
                "ed6fa5d37a067707ede9aff44aa2819ab639263ca4ca66e8d36d02ffac952d33"}));
}

// Its rows of extra keys are those of 0.24, without tags: no process of 0.33 has such keys.
TEST(VllmHashing, Fact_4_4_NoSeedInPickle) {
  const PythonHashSeed seed(nullptr);
  using D = VllmSha256Digest;
  EXPECT_EQ(hex(none_key<D>(kOwnSeed)),
            "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198");
  EXPECT_EQ(keys_of<D>(4, counted_tokens(12)),
            (std::vector<std::string>{
                "9da1c53089c000ad1a79a77c143b68dda00e2a85315bc1f690bbd03ba4a195dd",
                "1c9b6c0620e875631f1c5395ed56f2243aa113f88fc842f04fbb0654074b8d43",
                "cc25a655502dc3a6a6161c497c0afb907f8b3bb808d5db5827d3d9de7bd66f25"}));
  std::vector<TokenId> sixteen = counted_tokens(16);
  for (TokenId& token : sixteen) token += 100;
  EXPECT_EQ(keys_of<D>(16, sixteen).front(),
            "605fd9e311c0890137f4c7df65be59449fb378632eecf434d1ecdf87c874fd55");
}

TEST(VllmHashing, Fact_4_4_NoSeedInCbor) {
  const PythonHashSeed seed(nullptr);
  using D = VllmSha256CborDigest;
  EXPECT_EQ(hex(none_key<D>(kOwnSeed)),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
  EXPECT_EQ(keys_of<D>(4, counted_tokens(12)),
            (std::vector<std::string>{
                "c49ab11fb576db6f376aef58c24f728a0ba1807e8cac5f940f1a5c4c20741898",
                "9d0a7c928c548f9aeea31ae98471cf515045a206851732ac14cb3083c18d40f9",
                "f96dd657a1cf55a0a400707b90c437fb0b516dbc833996713e6829a3fe01fe19"}));
  std::vector<TokenId> sixteen = counted_tokens(16);
  for (TokenId& token : sixteen) token += 100;
  EXPECT_EQ(keys_of<D>(16, sixteen).front(),
            "c78a554a1b648c084577886fa29e20b89d606beb26cafd7f90ba7482f31901bc");
}

TEST(VllmHashing, Fact_2_4_ItemsOfAUnitThatIsCompletedLater) {
  const CacheConfig config = properties::small_config({{.block_size = 8}});
  const ExtraKeys extra{.mm = {{"i", 8, 1}, {"k", 9, 1}}};
  const std::vector<LayerGroup<Key256>> groups = make_groups<Key256>(config);
  RequestTable<VllmSha256Digest> requests(config, groups, 2, 0);
  const std::vector<TokenId> tokens = counted_tokens(16);
  const RequestId whole = requests.open({.tokens = tokens, .extra = &extra});
  const RequestId grown = requests.open({.tokens = std::span(tokens).first(10), .extra = &extra});
  requests.hash_units(whole);
  requests.hash_units(grown);
  requests.append(grown, std::span(tokens).subspan(10));
  requests.hash_units(grown);
  EXPECT_EQ(requests[grown].hashes[1], requests[whole].hashes[1]);
}

/// The number of bytes that are hashed for a unit of four tokens, and their hash.
template <class Digest>
std::pair<std::size_t, std::string> written(const std::vector<TokenId>& tokens,
                                            const ExtraKeys& extra, std::uint32_t start = 0) {
  std::string message;
  const auto size = static_cast<std::uint32_t>(tokens.size());
  Digest::write(Key256(), {tokens.data(), start, size, 0, &extra}, message);
  return {message.size(), hex(Sha256Digest{}(message.data(), message.size()))};
}
using Written = std::pair<std::size_t, std::string>;

// What pickle.dumps(unit, protocol=5) of CPython 3.11 writes, and canonical CBOR, where the width
// of an integer changes. Long texts, frames and many references are in check/published_keys.cpp.
TEST(VllmHashing, WritesEveryWidthOfIntegers) {
  using Pickle = VllmSha256Digest;
  using Cbor = VllmSha256CborDigest;
  const std::vector<TokenId> wide = {0,  23,  24,  255,  256,  65535,  65536,          2147483647,
                                     -1, -24, -25, -256, -257, -65537, -2147483647 - 1};
  EXPECT_EQ(written<Pickle>(wide, {}),
            Written(112, "ef8fe181b307ca09f956fbfed14390fa6456502d32d91976fc963e75c64ac9e7"));
  EXPECT_EQ(written<Cbor>(wide, {}),
            Written(78, "118e8fb5e4be58ab0fa21eed8e4afe57ad75fa168ff6d7d2fbf3d738401ae2f2"));
  const std::vector<TokenId> four = {1, 2, 3, 4};
  const std::uint32_t start = 2147483649;
  const std::string accented = "\u00e9";
  const ExtraKeys offsets{.mm = {{"i", 0, start + 1},
                                 {"i", 1, start},
                                 {"ab", start - 65'537, 65'538},
                                 {"behind", start - 2, 2},
                                 {"ab", start - 1, 2},
                                 {accented, start, 1},
                                 {accented, start + 3, 1}}};
  EXPECT_EQ(written<Pickle>(four, offsets, start),
            Written(139, "4592ad3ed05522215444ad26b83bfa90ea3a71c61cab8e7a19141eab24a801dc"));
  EXPECT_EQ(written<Cbor>(four, offsets, start),
            Written(99, "213fd0531b4991e0e9e98dbabc8a2f1a9be4a1365e2807a813439abc02f905b3"));
}

TEST(VllmHashing, AnotherSeedIsThatPythonHashSeed) {
  const PythonHashSeed seed("7");
  const std::vector<TokenId> tokens = counted_tokens(4);
  Key256 key;
  ChainHasher<VllmSha256Digest>(4, 7).hash(tokens.data(), nullptr, 0, 1, &key);
  EXPECT_EQ(hex(key), keys_of<VllmSha256Digest>(4, tokens).front());
  ChainHasher<VllmSha256Digest>(4, 8).hash(tokens.data(), nullptr, 0, 1, &key);
  EXPECT_NE(hex(key), keys_of<VllmSha256Digest>(4, tokens).front());
}

}  // namespace
}  // namespace kvproof::optimized
