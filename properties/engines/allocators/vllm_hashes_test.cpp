// SPDX-License-Identifier: Apache-2.0
// The block hashes of optimized/pool/vllm_hashing.h are those of an installed vLLM, byte for byte.
// The requests are random; KVPROOF_VLLM_PYTHON names the interpreter that has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "optimized/manager/requests.h"
#include "reference/support/child_process.h"

namespace kvproof::properties {
namespace {

using nlohmann::json;
using optimized::Key256;

constexpr int kRequests = 2'000;
constexpr double kSeconds = 60;                  // for one answer
constexpr std::size_t kAnswerBytes = 1U << 24U;  // the most of one answer

struct HashedRequest {
  bool cbor = false;
  std::uint32_t unit = 1;
  std::uint32_t lookahead = 0;
  std::vector<TokenId> tokens;
  std::vector<std::uint32_t> ends;  // numbers of tokens at which it is hashed
  ExtraKeys extra;

  [[nodiscard]] json line(const json& seed) const;
};

std::string hex_of(const void* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    out += {kDigits[byte >> 4U], kDigits[byte & 0xfU]};
  }
  return out;
}

json HashedRequest::line(const json& seed) const {
  json out = {{"hash", cbor ? "sha256_cbor" : "sha256"},
              {"seed", seed},
              {"unit", unit},
              {"lookahead", lookahead},
              {"tokens", tokens},
              {"ends", ends},
              {"lora", extra.lora},
              {"path", extra.lora_path},
              {"salt", extra.salt},
              {"mm", json::array()},
              {"embeds", json::array()}};
  for (const MultimodalItem& item : extra.mm) {
    out["mm"].push_back({{"id", item.id}, {"offset", item.offset}, {"length", item.length}});
  }
  for (const MultimodalItem& rows : extra.embeds) {
    out["embeds"].push_back(hex_of(rows.id.data(), rows.id.size()));
  }
  return out;
}

class RequestDraw {
 public:
  explicit RequestDraw(std::uint64_t seed) : random_(seed) {}

  HashedRequest next() {
    HashedRequest out;
    out.cbor = below(2) == 0;
    const bool is_long = below(100) == 0;  // more than pickle puts into one frame
    const bool has_many = below(30) == 0;  // objects, more than one byte counts
    out.unit = is_long    ? 9'000 + below(20'000)
               : has_many ? 800
                          : std::array{1U, 2U, 4U, 16U, 33U}[below(5)];
    out.lookahead = below(2) == 0 ? 0 : 1 + below(5);
    out.tokens.resize(is_long || has_many ? out.unit + out.lookahead : below(120));
    const std::uint32_t vocabulary = 1U << below(32);  // every width of an integer
    for (TokenId& token : out.tokens) token = static_cast<TokenId>(below(vocabulary));
    const auto size = static_cast<std::uint32_t>(out.tokens.size());
    for (std::uint32_t end = below(size + 1); end < size; end += 1 + below(40)) {
      out.ends.push_back(end);
    }
    out.ends.push_back(size);
    draw_extra(out);
    return out;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  // Python keeps one object of each text of one character.
  std::string text() {
    static const std::string kCharacters[] = {"a",      "b",      "\x7f",  "\u00e9",
                                              "\u00ff", "\u0100", "\u20ac"};
    const std::uint32_t kind = below(60);
    const std::uint32_t length = kind == 0  ? 65'530 + below(12)
                                 : kind < 5 ? 250 + below(12)
                                            : below(4);
    std::string out;
    for (std::uint32_t i = 0; i < length; ++i) out += kCharacters[length > 100 ? 0 : below(7)];
    return out;
  }
  std::string name() { return below(2) == 0 ? text() : "image" + text(); }
  void draw_extra(HashedRequest& request) {
    ExtraKeys& extra = request.extra;
    if (below(3) == 0) return;
    if (below(3) == 0) {
      extra.lora = "adapter" + text();
      extra.lora_path = text() + "/";
    }
    if (below(6) == 0) extra.lora = extra.lora_path = "x";  // one object for both
    if (below(2) == 0) extra.salt = text();
    const auto size = static_cast<std::uint32_t>(request.tokens.size());
    const bool dense = below(4) == 0;
    if (below(2) == 0 && size < 1000) {
      for (std::uint32_t at = below(8); at < size; at += dense ? 0 : below(12)) {
        const bool single = dense && (at < 10 || at > 400);
        extra.mm.push_back({single ? at < 10 ? "i" : "k" : name(), at, 1 + below(dense ? 1 : 20)});
        at += extra.mm.back().length;
      }
    }
    if (request.lookahead > 0 || below(4) != 0) return;
    for (std::uint32_t at = 0; at + request.unit <= size; at += request.unit) {
      std::string digest(32, '\0');
      for (char& byte : digest) byte = static_cast<char>(below(256));
      extra.embeds.push_back({digest, at, request.unit});
    }
  }

  std::mt19937_64 random_;
};

template <class Digest>
std::vector<std::string> own_hashes(const HashedRequest& request) {
  CacheConfig config;
  config.num_blocks = 2;
  config.max_model_len = static_cast<std::uint32_t>(request.tokens.size());
  config.hash_block_size = request.unit;
  config.hash_lookahead = request.lookahead;
  config.groups = {{.block_size = request.unit}};
  const auto groups = optimized::make_groups<Key256>(config);
  optimized::RequestTable<Digest> requests(config, groups, 1, 0);
  const std::span<const TokenId> tokens(request.tokens);
  const RequestId id =
      requests.open({.tokens = tokens.first(request.ends.front()), .extra = &request.extra});
  for (const std::uint32_t end : request.ends) {
    requests.append(id, tokens.subspan(requests.num_tokens(id), end - requests.num_tokens(id)));
    if (requests.num_tokens(id) >= requests[id].next_unit_end) requests.hash_units(id);
  }
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < requests[id].num_hashes; ++i) {
    out.push_back(hex_of(&requests[id].hashes[i], sizeof(Key256)));
  }
  return out;
}

TEST(VllmHashes, AreThoseOfTheRelease) {
  const char* const named = std::getenv("KVPROOF_VLLM_PYTHON");
  ChildProcess python(
      {.argv = {named == nullptr ? "python3" : named, "-B",
                KVPROOF_SOURCE_DIR "/properties/engines/allocators/vllm_hashes.py"}});
  const json release = json::parse(python.ask("{}", kSeconds, kAnswerBytes));
  if (release.is_string()) GTEST_SKIP() << release.get<std::string>();
  const char* const seed = std::getenv("PYTHONHASHSEED");
  RequestDraw draw(33);
  std::size_t compared = 0;
  for (int i = 0; i < kRequests; ++i) {
    const HashedRequest request = draw.next();
    const std::string line = request.line(seed == nullptr ? json() : json(seed)).dump();
    const auto own = request.cbor ? own_hashes<optimized::VllmSha256CborDigest>(request)
                                  : own_hashes<optimized::VllmSha256Digest>(request);
    ASSERT_EQ(own, json::parse(python.ask(line, kSeconds, kAnswerBytes)))
        << "request " << i << ": " << line.substr(0, 2'000);
    compared += own.size();
  }
  EXPECT_GT(compared, 10'000U);
  RecordProperty("hashes", static_cast<int>(compared));
}

}  // namespace
}  // namespace kvproof::properties
