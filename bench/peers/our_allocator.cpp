// SPDX-License-Identifier: Apache-2.0
// Our allocator as a peer among the others (allocator_worker.h).
#include "bench/peers/allocator_worker.h"
#include "optimized/cache_manager.h"

namespace kvproof::bench {
namespace {

template <class Digest>
class Ours {
 public:
  using Request = RequestId;

  Ours(std::uint32_t num_blocks, std::uint32_t live)
      : manager_({.num_blocks = num_blocks,
                  .max_model_len = kPrompt + kOutput + kBlockSize,
                  .hash_block_size = kBlockSize,
                  .groups = {{.block_size = kBlockSize}}},
                 {live + 1}) {}

  std::pair<RequestId, std::uint32_t> admit(const Tokens& prompt) {
    const RequestId id = manager_.arrive({.tokens = prompt});
    const auto length = static_cast<std::uint32_t>(prompt.size());
    const std::uint32_t found = manager_.lookup(id);
    if (!manager_.allocate(id, {.new_tokens = length - found, .use_lookup = true}))
      throw std::logic_error("an admission was refused");
    manager_.advance(id, length);
    return {id, found};
  }

  void step(const std::vector<RequestId>& ids, const Tokens& tokens) {
    if (!manager_.decode(ids, tokens).refused.empty())
      throw std::logic_error("a decode step was refused");
  }

  void finish(RequestId id) { manager_.finish(id); }
  [[nodiscard]] std::uint64_t held(RequestId id) const { return manager_.table(id).size(); }

 private:
  optimized::CacheManager<Digest> manager_;
};

}  // namespace
}  // namespace kvproof::bench

int main() {
  using namespace kvproof;
  return bench::run_worker("kvproof-peer_allocator", [](const std::string& hash, auto& words) {
    hash == "sha256" ? bench::serve<bench::Ours<optimized::Sha256Digest>>(words)
                     : bench::serve<bench::Ours<optimized::Xxh3Digest>>(words);
  });
}
