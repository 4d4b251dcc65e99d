// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/explain_log.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "bench/hit_rate/bounds.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using namespace properties;  // NOLINT: the words of this file

class LogExplainer {
 public:
  /// @param own_blocks whether an id of the log is one block
  LogExplainer(std::uint32_t block_size, bool own_blocks)
      : own_blocks_(own_blocks),
        history_(1, 0),
        explainer_(
            {.hash_block_size = block_size, .groups = {{LayerKind::full, block_size, false}}},
            history_,
            {.moment = "request",
             .name = [](std::uint32_t n) { return "request " + std::to_string(n); },
             .tells_whom = false},
            0) {
    out_.block_size = block_size;
  }

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
          contents_.begin() + static_cast<std::ptrdiff_t>(explained.most / out_.block_size);
      out_.uses.push_back({{contents_.begin(), end}, std::min(explained.most, input)});
      admit(served, number);
    }
    out_.lookups.push_back(std::move(explained));
  }

  [[nodiscard]] Explanations finish() { return std::move(out_); }

 private:
  void learn(const ServedPrompt& served, std::uint32_t number) {
    contents_.clear();
    for (std::size_t i = 0; i < served.keys.size(); ++i) {
      ContentId content = history_.find(served.keys[i]);
      if (content == kNoContent) {
        content = history_.learn(served.keys[i], i == 0 ? kNoContent : contents_.back(),
                                 {.own = own_of(served, i)}, number);
      }
      contents_.push_back(content);
    }
  }

  // What the log says of the tokens of a block alone; else the tokens that spell its id.
  [[nodiscard]] std::uint64_t own_of(const ServedPrompt& served, std::size_t i) const {
    if (own_blocks_ && i < served.request.own_ids.size()) return served.request.own_ids[i];
    const auto tokens = served.tokens.subspan(i * out_.block_size, out_.block_size);
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
  }

  // Whatever stands behind the hit was taken from the pool.
  void admit(const ServedPrompt& served, std::uint32_t number) {
    const std::size_t hit = served.hit / out_.block_size;
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

  bool own_blocks_;
  IndexHistory history_;
  Explainer explainer_;
  Explanations out_;
  Moment now_;
  std::vector<ContentId> contents_;
  std::vector<ContentId> holds_;  // per block
};

/// What was used together, as the prompts of a log.
class UsedBlocks final : public RequestSource {
 public:
  explicit UsedBlocks(const Explanations& of) : of_(of) { info_.ids_block_size = of.block_size; }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] double fraction() const override { return 0; }
  bool next(Request& request) override {
    if (next_ == of_.uses.size()) return false;
    const BlockUse& use = of_.uses[next_++];
    request.input_tokens = static_cast<std::int64_t>(use.tokens);
    request.block_ids = use.blocks;
    return true;
  }

 private:
  const Explanations& of_;
  SourceInfo info_;
  std::size_t next_ = 0;
};

}  // namespace

Explanations explain_log(const ReopenableSource& source, const ReplayOptions& options) {
  LogExplainer explainer(options.block_size, options.tokens == TokenMode::whole_blocks);
  ReplayOptions watched = options;
  watched.on_served = [&](const ServedPrompt& served) { explainer.serve(served); };
  const ReplayCounts counts = replay_prompts(source, watched);
  Explanations out = explainer.finish();
  out.pool_blocks = counts.capacity_blocks;
  return out;
}

std::uint64_t optimum_of(const Explanations& explanations) {
  UsedBlocks source(explanations);
  return PromptFuture(source).optimum(explanations.pool_blocks).hit_tokens;
}

}  // namespace kvproof::bench
