// SPDX-License-Identifier: Apache-2.0
// OpenVINO GenAI's Scheduler over its BlockManager. Each allocation is one step of the Scheduler
// for one request, with a batch of as many tokens as are asked for; what it has its cache manager
// copy is what is said to be copied. The files of the engine that this needs are compiled in here.
#include <continuous_batching/cache/cache_eviction.cpp>
#include <continuous_batching/cache/kvcrush.cpp>
#include <continuous_batching/scheduler.hpp>
#include <continuous_batching/sparse_attention.cpp>
#include <logger.cpp>
#include <perf_metrics.cpp>
#include <sequence_group.cpp>
#include <set>
#include <visual_language/perf_metrics.cpp>

#include "properties/engines/kit/kvproof_engine.h"

namespace ov::genai {

// Of files that need a tokenizer or a GPU: what the Scheduler links of them, as for greedy search.
void GenerationConfig::update_generation_config(const ov::AnyMap&) {}
void GenerationConfig::validate() const {}
bool GenerationConfig::is_beam_search() const { return false; }
bool GenerationConfig::is_multinomial() const { return false; }
std::size_t GenerationConfig::get_max_new_tokens(std::size_t) const { return max_new_tokens; }
std::size_t utils::get_available_gpu_memory(const std::string&, std::size_t) { return 0; }

/// The name of a debug class that the block manager lets see its insides.
struct CacheStateDumper {
  static const auto& free(const BlockManager& of) { return of.m_allocator.m_free_blocks[0]; }
  static const auto& kept(const BlockManager& of) { return of.m_allocator.m_overwriteable_blocks; }
  static const auto& live(const BlockManager& of) { return of.m_prefix_hash_to_cached_blocks; }
};

}  // namespace ov::genai

namespace {

using kvproof_kit::Block, kvproof_kit::Blocks, kvproof_kit::EngineRequest, kvproof_kit::Key;
using ov::genai::BlockManager, ov::genai::CacheStateDumper, ov::genai::SequenceGroup;

/// Notes which blocks are to be copied.
class Memory final : public ov::genai::ICacheManager {
 public:
  explicit Memory(std::vector<std::pair<Block, Block>>& copies) : copies_(copies) {}
  void copy_blocks(const std::map<std::size_t, std::list<std::size_t>>& all) override {
    for (const auto& [from, several] : all) {
      for (const std::size_t to : several) copies_.emplace_back(from, to);
    }
  }
  void allocate_cache_if_needed(std::size_t) override {}
  void clear() override {}
  [[nodiscard]] std::size_t get_num_layers() const override { return 1; }
  [[nodiscard]] std::size_t get_num_cache_tensors() const override { return 2; }
  [[nodiscard]] std::size_t get_block_size() const override { return 1; }
  [[nodiscard]] std::string get_device() const override { return "CPU"; }
  [[nodiscard]] std::size_t get_block_size_in_bytes() const override { return 1; }
  [[nodiscard]] std::size_t get_num_allocated_blocks() const override { return 0; }

 private:
  std::vector<std::pair<Block, Block>>& copies_;
};

class OpenVino final : public kvproof_kit::Engine {
 public:
  OpenVino()
      : Engine({.traits = {{"duplicates", "free_first"},
                           {"free_list", "set"},
                           {"granularity", "partial"},
                           {"lookup", "within_allocate"}},
                .abilities = {{"chunks", true}, {"forks", "computed"}},
                .forks = true,
                .progress = true,
                .one_by_one = true,
                .whole_steps = true}) {}

 protected:
  void build() override {
    auto manager = std::make_unique<BlockManager>(usable(), caching(), size());
    manager_ = manager.get();
    cache_ = std::make_shared<ov::genai::CacheOrchestrator>();
    cache_->register_cache_type(ov::genai::CacheType::KV_CACHE, std::make_unique<Memory>(copies_),
                                std::move(manager));
    blocks_.assign(unused().begin(), unused().end());
  }

  std::optional<std::size_t> admit(EngineRequest& r, std::size_t end, const Blocks*) override {
    const bool is_new = !r.own.has_value();  // what was preempted is not looked up again
    if (is_new) {
      r.own = group_of(r, r.tokens.size());
      cache_->restore_cached_blocks(group(r));
    }
    const std::size_t found = group(r)->get_num_processed_tokens();
    if (grow(r, std::max(end, found + 1))) return found;
    release(r);
    if (is_new) r.own.reset();
    return std::nullopt;
  }

  bool grow(EngineRequest& r, std::size_t end) override {
    const Group mine = group(r);
    std::size_t at = mine->get_prompt_len() + (*mine)[0]->get_generated_len();
    while (at < r.tokens.size()) (*mine)[0]->append_token(r.tokens[at++], 0);
    ov::genai::SchedulerConfig config;
    config.enable_prefix_caching = caching();
    config.max_num_batched_tokens = end - mine->get_num_processed_tokens();
    if (mine->get_num_available_tokens_for_batching() < config.max_num_batched_tokens) {
      decline("what was computed before is computed first, then the token behind it");
    }
    cache_->free_empty_physical_blocks(mine);
    if (cache_->available_token_slots(mine) < config.max_num_batched_tokens) return false;
    std::vector<Group> all = {mine};
    ov::genai::Scheduler(cache_, config).schedule(all);
    r.copies = std::exchange(copies_, {});
    return mine->is_scheduled();
  }

  void advance(EngineRequest& r) override { group(r)->finish_iteration(); }

  void release(EngineRequest& r) override {
    cache_->free_sequence(id_of(r));
    group(r)->preempt_tokens(group(r)->get_num_processed_tokens());
  }

  /// The child is a group of its own: the sequences of one group advance together.
  void fork(EngineRequest& r, EngineRequest& child) override {
    if (!r.holds) return;
    const std::size_t prompt = group(r)->get_prompt_len();
    if (r.computed < prompt) decline("a prompt is computed before it is forked");
    child.own = group_of(r, prompt);
    group(child)->update_processed_tokens_num(r.computed);
    cache_->fork_sequence(id_of(r), id_of(child));
  }

  Blocks table(const EngineRequest& r) const override {
    return cache_->has_block_table(id_of(r)) ? ids(manager_->get_block_tables(id_of(r))[0])
                                             : Blocks();
  }

  std::size_t num_free() const override { return manager_->num_free_blocks(); }

  std::optional<Blocks> free_blocks() const override {
    Blocks out = ids(unused());
    for (const auto& block : blocks_) {
      if (is_kept(*block)) out.push_back(block->get_index());
    }
    return out;
  }

  std::optional<std::map<Block, std::size_t>> counts() const override {
    std::map<Block, std::size_t> out;
    for (const auto& block : blocks_) out[block->get_index()] = block->get_references_count();
    return out;
  }

  std::optional<std::map<Block, Key>> keys() const override {
    std::map<Block, Key> out;
    for (const auto& block : blocks_) {
      const bool shown = is_kept(*block) || !block->is_free();
      if (shown && made_.count(block->get_hash()) != 0) out[block->get_index()] = block->get_hash();
    }
    return out;
  }

  std::optional<std::map<Key, Blocks>> index() const override {
    std::map<Key, Blocks> out;
    for (const auto& block : blocks_) {
      if (is_kept(*block)) out[block->get_hash()].push_back(block->get_index());
    }
    for (const auto& [key, blocks] : CacheStateDumper::live(*manager_)) {
      if (out[key] != ids(blocks)) out[key].push_back(blocks[0]->get_index());
    }
    return out;
  }

  std::vector<Key> hashes(const EngineRequest& r) const override {
    std::vector<Key> out;
    const Group fresh = r.tokens.empty() ? nullptr : group_of(r, r.tokens.size());
    for (std::size_t end = 1; end <= r.tokens.size(); ++end) {
      made_.insert(out.emplace_back((*fresh)[0]->get_hash(end, size())));
    }
    return out;
  }

  std::size_t progress(const EngineRequest& r) const override {
    const auto& mine = manager_->get_block_tables(id_of(r))[0];
    const auto wanted = hashes(r);
    std::size_t at = 0;
    while (at < r.granted / size() && mine[at]->get_hash() == wanted[(at + 1) * size() - 1]) ++at;
    return at;
  }

 private:
  using Group = SequenceGroup::Ptr;

  static Group group_of(const EngineRequest& r, std::size_t prompt) {
    ov::genai::GenerationConfig greedy;
    greedy.max_new_tokens = 1 << 20;
    const auto begin = r.tokens.begin(), end = begin + static_cast<std::ptrdiff_t>(prompt);
    return std::make_shared<SequenceGroup>(0, ov::genai::TokenIds(begin, end), greedy);
  }
  static const Group& group(const EngineRequest& r) { return std::any_cast<const Group&>(r.own); }
  static std::uint64_t id_of(const EngineRequest& r) { return (*group(r))[0]->get_id(); }
  template <typename Cached>
  static Blocks ids(const Cached& blocks) {
    Blocks out;
    for (const auto& block : blocks) out.push_back(block->get_index());
    return out;
  }

  /// Free blocks without a key.
  const std::list<ov::genai::CacheBlock::Ptr>& unused() const {
    return CacheStateDumper::free(*manager_);
  }
  /// Whether a block is free and stands in the store under its key.
  bool is_kept(const ov::genai::CacheBlock& block) const {
    const auto same = [&](const auto& other) { return other.get() == &block; };
    return block.is_free() && std::none_of(unused().begin(), unused().end(), same) &&
           CacheStateDumper::kept(*manager_).has_block(block.get_hash());
  }

  std::vector<std::pair<Block, Block>> copies_;
  std::shared_ptr<ov::genai::CacheOrchestrator> cache_;
  BlockManager* manager_ = nullptr;
  std::vector<ov::genai::CacheBlock::Ptr> blocks_;  // all of them
  mutable std::set<Key> made_;                      // what hashes() has returned
};

}  // namespace

KVPROOF_ENGINE_PLUGIN(OpenVino);
