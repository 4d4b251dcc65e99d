// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/explain_log.h"

#include <algorithm>
#include <utility>

#include "bench/hit_rate/bounds.h"
#include "bench/requests/listed_source.h"
#include "properties/story/index_history.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using namespace properties;  // NOLINT: the words of this file

std::uint64_t more_than(std::uint64_t hit, std::uint64_t would_hit) {
  return would_hit > hit ? would_hit - hit : 0;
}

class LogExplainer {
 public:
  explicit LogExplainer(const ReplayOptions& options)
      : block_size_(options.block_size),
        own_blocks_(options.tokens == TokenMode::whole_blocks),
        history_(1, 0),
        explainer_(
            {.hash_block_size = block_size_, .groups = {{LayerKind::full, block_size_, false}}},
            history_,
            {.moment = "request",
             .name = [](std::uint32_t n) { return "request " + std::to_string(n); },
             .tells_whom = false},
            0) {}

  void serve(const ServedPrompt& served) {
    const auto number = static_cast<std::uint32_t>(served.request.index);
    now_.operation = number;
    learn(served, number);
    const bool refused = served.blocks.empty();
    const auto input = static_cast<std::uint64_t>(served.request.input_tokens);
    Explained explained = explainer_.explain({.request = std::to_string(number),
                                              .now = now_,
                                              .tokens = served.tokens.size(),
                                              .limit = served.tokens.size() - 1,
                                              .hit = served.hit,
                                              .contents = contents_});
    explained.tokens = input;
    explained.hit = refused ? 0 : std::min<std::uint64_t>(served.hit, input);
    if (refused) explained.cause = Cause::refused;
    if (refused) explained.why = say("it has ", served.tokens.size(), " tokens");
    if (!refused) {
      const auto end =
          contents_.begin() + static_cast<std::ptrdiff_t>(explained.most / block_size_);
      needed_.push_back({.input_tokens = static_cast<std::int64_t>(std::min(explained.most, input)),
                         .block_ids = {contents_.begin(), end}});
      admit(served, number);
    }
    lookups.push_back(std::move(explained));
  }

  /// The tokens that the offline optimum of bounds.h hits, of those that may hit. Told once.
  [[nodiscard]] std::uint64_t optimum(std::uint64_t capacity_blocks) {
    ListedSource source(std::move(needed_), {"", "", block_size_});
    return PromptFuture(source).optimum(capacity_blocks).hit_tokens;
  }

  std::vector<Explained> lookups;

 private:
  void learn(const ServedPrompt& served, std::uint32_t number) {
    contents_.clear();
    for (std::size_t i = 0; i < served.keys.size(); ++i) {
      contents_.push_back(history_.learn(served.keys[i], i == 0 ? kNoContent : contents_.back(),
                                         {.own = own_of(served, i)}, number));
    }
  }

  // What the log says of the tokens of a block alone; else the tokens that spell its id.
  [[nodiscard]] std::uint64_t own_of(const ServedPrompt& served, std::size_t i) const {
    if (own_blocks_ && i < served.request.own_ids.size()) return served.request.own_ids[i];
    return number_of_tokens(served.tokens.subspan(i * block_size_, block_size_));
  }

  // Whatever stands behind the hit was taken from the pool.
  void admit(const ServedPrompt& served, std::uint32_t number) {
    const std::size_t hit = served.hit / block_size_;
    now_.taken += served.blocks.size() - hit;
    for (std::size_t i = hit; i < served.blocks.size(); ++i) {
      const BlockId block = served.blocks[i];
      if (block >= holds_.size()) holds_.resize(std::max<std::size_t>(block + 1, 2 * block));
      if (holds_[block] != kNoContent) history_.leave(holds_[block], 0, now_, number);
      holds_[block] = i < contents_.size() ? contents_[i] : kNoContent;
    }
    for (std::size_t i = hit; i < contents_.size(); ++i) history_.enter(contents_[i], 0, now_);
    for (std::size_t i = 0; i < hit; ++i) history_.use(contents_[i], 0, now_);
  }

  std::uint32_t block_size_;
  bool own_blocks_;  // an id of the log is one block
  IndexHistory history_;
  Explainer explainer_;
  Moment now_;
  std::vector<Request> needed_;  // the blocks that may hit, of each prompt
  std::vector<ContentId> contents_;
  std::vector<ContentId> holds_;  // per block
};

}  // namespace

ExplainReport explain_log(const LogArguments& arguments) {
  const ReopenableSource source = arguments.source();
  ReplayOptions options = arguments.replay_options(source);
  LogExplainer explainer(options);
  options.on_served = [&](const ServedPrompt& served) { explainer.serve(served); };
  const ReplayCounts counts = replay_prompts(source, options);
  options.on_served = {};
  const SourceInfo info = source.open()->info();
  ExplainReport out{
      .parameters = {{"source", info.name},
                     {"format", info.format},
                     {"block_size", std::int64_t{options.block_size}},
                     {"hash", std::string(options.manager->hash)},
                     {"capacity_blocks", static_cast<std::int64_t>(counts.capacity_blocks)}},
      .moment = "request",
      .lookups = std::move(explainer.lookups),
      .num_traces = 1};
  const std::uint64_t hit = out.hit_tokens();
  out.by_optimum = more_than(hit, explainer.optimum(counts.capacity_blocks));
  out.by_twice = 0;
  if (options.capacity_blocks) {
    *options.capacity_blocks *= 2;
    out.by_twice = more_than(hit, replay_prompts(source, options).hit_tokens);
  }
  return out;
}

}  // namespace kvproof::bench
