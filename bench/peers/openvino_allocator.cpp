// SPDX-License-Identifier: Apache-2.0
// OpenVINO GenAI's block manager and Scheduler as a peer (allocator_worker.h). Compiled against a
// checkout and the headers of a wheel, as the adapter that is included is.
#include "bench/peers/allocator_worker.h"
#include "properties/engines/allocators/openvino_genai.cpp"

namespace {

/// The Scheduler forms a batch of whoever it is given: an admission is a batch of one.
class OpenVinoCache {
 public:
  using Request = SequenceGroup::Ptr;

  OpenVinoCache(std::uint32_t num_blocks, std::uint32_t live)
      : cache_(std::make_shared<ov::genai::CacheOrchestrator>()) {
    auto manager = std::make_unique<BlockManager>(num_blocks - 1, true, kvproof::bench::kBlockSize);
    manager_ = manager.get();
    cache_->register_cache_type(ov::genai::CacheType::KV_CACHE, std::make_unique<Memory>(copies_),
                                std::move(manager));
    config_.enable_prefix_caching = true;
    config_.max_num_batched_tokens = kvproof::bench::kPrompt + live;
    config_.max_num_seqs = live + 1;
    scheduler_ = std::make_unique<ov::genai::Scheduler>(cache_, config_);
  }

  std::pair<Request, std::uint32_t> admit(const kvproof::bench::Tokens& prompt) {
    ov::genai::GenerationConfig greedy;
    greedy.max_new_tokens = 1 << 20;
    auto group = std::make_shared<SequenceGroup>(
        0, ov::genai::TokenIds(prompt.begin(), prompt.end()), greedy);
    cache_->restore_cached_blocks(group);
    const auto found = static_cast<std::uint32_t>(group->get_num_processed_tokens());
    schedule({group});
    return {group, found / kvproof::bench::kBlockSize * kvproof::bench::kBlockSize};
  }

  void step(const std::vector<Request>& groups, const kvproof::bench::Tokens& tokens) {
    for (std::size_t i = 0; i < groups.size(); ++i) (*groups[i])[0]->append_token(tokens[i], 0);
    schedule(groups);
  }

  void finish(const Request& group) { cache_->free_sequence((*group)[0]->get_id()); }

  [[nodiscard]] std::uint64_t held(const Request& group) const {
    return manager_->get_block_tables((*group)[0]->get_id())[0].size();
  }

 private:
  void schedule(std::vector<Request> groups) {
    scheduler_->schedule(groups);
    for (const Request& group : groups) {
      if (!group->is_scheduled()) throw std::logic_error("a request was not scheduled");
      group->finish_iteration();
    }
  }

  std::vector<std::pair<Block, Block>> copies_;
  std::shared_ptr<ov::genai::CacheOrchestrator> cache_;
  BlockManager* manager_ = nullptr;
  ov::genai::SchedulerConfig config_;
  std::unique_ptr<ov::genai::Scheduler> scheduler_;
};

}  // namespace

int main() {
  return kvproof::bench::run_worker("openvino_allocator", [](const std::string&, auto& words) {
    kvproof::bench::serve<OpenVinoCache>(words);
  });
}
