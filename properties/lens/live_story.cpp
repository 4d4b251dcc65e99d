// SPDX-License-Identifier: Apache-2.0
#include "properties/lens/live_story.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "properties/lens/lens.h"
#include "properties/lens/page.h"
#include "properties/live/verdict.h"
#include "properties/random/shrink.h"
#include "reference/mix64.h"
#include "reference/support/line_reader.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

CacheConfig config_of(const live::Header& header) {
  CacheConfig out;
  out.num_blocks = header.tiers.front().blocks;
  out.num_host_blocks = header.tiers.size() > 1 ? header.tiers[1].blocks : 0;
  for (const live::Group& group : header.groups) {
    GroupConfig& row = out.groups.emplace_back();
    row.block_size = group.block_size;
    row.window = group.window;
    if (group.window > 0) row.kind = LayerKind::sliding_window;
    if (group.state) row.kind = LayerKind::mamba;
    out.hash_block_size = std::gcd(out.hash_block_size, group.block_size);
  }
  return out;
}

/// Moves a state as the events of a run say.
class Fold {
 public:
  Fold(const live::Header& header, const CacheConfig& config)
      : groups_(header.groups.size()), unit_(config.hash_block_size) {
    state_.num_free = config.num_blocks - (header.null_block ? 1 : 0);
    state_.blocks.resize(config.num_blocks);
    state_.host.blocks.resize(config.num_host_blocks);
  }

  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] live::Names& names() { return names_; }
  [[nodiscard]] std::string transfers() const {
    std::string out;
    for (const auto& [name, pairs] : transfers_) {
      const std::string quoted = nlohmann::json(name).dump();
      out += say(out.empty() ? "[" : ",[", quoted, ",[", pairs, "]]");
    }
    return "[" + out + "]";
  }

  /// @param story learns the tokens of requests
  void take(const live::Event& event, Story& story) {
    std::visit([&](const auto& e) { apply(e, story); }, event);
  }

 private:
  template <class Event>
  void apply(const Event& /*event*/, Story& /*story*/) {}  // it changes nothing that is shown

  RequestState& at(std::uint32_t request) {
    const std::string& name = names_.of(request);
    auto found = std::ranges::lower_bound(state_.requests, name, {}, &RequestState::name);
    if (found == state_.requests.end() || found->name != name) {
      found = state_.requests.insert(found, RequestState());
      found->name = name;
      found->tables.resize(groups_);
    }
    return *found;
  }
  void add_tokens(RequestState& r, const std::vector<TokenId>& tokens, Story& story) {
    story.add_tokens(r.name, tokens);
    r.num_tokens += static_cast<std::uint32_t>(tokens.size());
    std::uint64_t& chain = chains_[r.name];
    for (const TokenId token : tokens) {
      chain = mix64(chain ^ static_cast<std::uint64_t>(token)) + 1;
      identities_[r.name].push_back(chain);
      if (identities_[r.name].size() % unit_ == 0) r.hashes.push_back(chain);
    }
  }
  /// The references that a request has by its tables.
  void hold(const RequestState& r, int change) {
    for (const auto& table : r.tables) {
      for (const BlockId block : table) {
        if (block == kNullBlock || block >= state_.blocks.size()) continue;
        std::int64_t& count = state_.blocks[block].ref_cnt;
        if (change > 0 && count == 0) --state_.num_free;
        count += change;
        if (change < 0 && count == 0) ++state_.num_free;
      }
    }
  }

  static void forget(BlockState& block) {
    const std::int64_t holders = block.ref_cnt;
    block = {};
    block.ref_cnt = holders;
  }

  void apply(const live::event::Request& e, Story& story) {
    RequestState& r = at(e.req);
    for (const char c : e.keys)
      chains_[r.name] = mix64(chains_[r.name] ^ static_cast<unsigned char>(c));
    add_tokens(r, e.tokens, story);
  }
  void apply(const live::event::Tokens& e, Story& story) {
    RequestState& r = at(e.req);
    if (e.length && *e.length < r.num_tokens) {
      r.num_tokens = *e.length;
      r.hashes.resize(*e.length / unit_);
      identities_[r.name].resize(*e.length);
      chains_[r.name] = *e.length > 0 ? identities_[r.name].back() : 0;
      story.cut_tokens(r.name, *e.length);
    }
    add_tokens(r, e.append, story);
  }
  void apply(const live::event::Dispatch& e, Story& /*story*/) {
    for (const live::event::Row& row : e.rows) {
      RequestState& r = at(row.req);
      hold(r, -1);
      for (std::size_t g = 0; g < row.tables.size(); ++g) {
        if (row.told == live::event::Row::Tables::replaced) r.tables[g].clear();
        for (const std::uint32_t block : row.tables[g]) r.tables[g].emplace_back(block);
      }
      hold(r, +1);
      r.computed = row.start + row.n;
    }
    for (const auto& copy : e.copies) state_.copying.emplace_back(copy.from);
  }
  void apply(const live::event::Run& /*event*/, Story& /*story*/) { state_.copying.clear(); }
  void apply(const live::event::Leave& e, Story& /*story*/) {
    RequestState& r = at(e.req);
    hold(r, -1);
    r.computed = 0;
    r.tables.assign(groups_, {});
    if (e.way == live::event::Way::preempt) return;
    state_.requests.erase(state_.requests.begin() + (&r - state_.requests.data()));
  }
  void apply(const live::event::Publish& e, Story& /*story*/) {
    PoolState* pool = e.place.tier == 0 ? &state_ : e.place.tier == 1 ? &state_.host : nullptr;
    if (pool == nullptr || e.place.block >= pool->blocks.size()) return;
    BlockState& block = pool->blocks[e.place.block];
    const auto& identities = identities_[names_.of(e.req)];
    forget(block);
    if (!e.published || e.to == 0 || e.to > identities.size()) return;
    block.hashed = true;
    block.group = GroupId(e.group);
    block.key = identities[e.to - 1];
    block.prefix_tokens = e.to;
  }
  void apply(const live::event::Reset& e, Story& /*story*/) {
    for (const std::uint32_t tier : e.tiers) {
      PoolState* pool = tier == 0 ? &state_ : tier == 1 ? &state_.host : nullptr;
      if (pool == nullptr) continue;
      std::ranges::for_each(pool->blocks, forget);
    }
  }
  void apply(const live::event::Start& e, Story& /*story*/) {
    std::string pairs;
    for (std::size_t i = 0; i < std::max(e.from.size(), e.to.size()); ++i) {
      std::uint32_t device = 0;
      std::uint32_t other = 0;
      for (const auto* side : {&e.from, &e.to}) {
        if (i < side->size()) ((*side)[i].tier == 0 ? device : other) = (*side)[i].block;
      }
      pairs += say(pairs.empty() ? "[" : ",[", device, ",", other, "]");
    }
    transfers_[e.transfer] = pairs;
  }
  void apply(const live::event::Settle& e, Story& /*story*/) { transfers_.erase(e.transfer); }

  std::size_t groups_;
  std::uint32_t unit_;
  live::Names names_;
  Snapshot state_;
  std::map<std::string, std::uint64_t> chains_;                   // of all tokens of a request
  std::map<std::string, std::vector<std::uint64_t>> identities_;  // of each prefix
  std::map<std::string, std::string> transfers_;                  // in flight: pairs of blocks
};

}  // namespace

std::shared_ptr<Story> story_of_run(const std::string& path) {
  const live::Judge judge = live::judge_file(path);  // refuses what cannot be read
  LineReader reader(path);
  std::string_view line;
  (void)reader.next(line);
  const live::Header header = live::parse_run_header(line);
  TraceHeader trace;
  trace.subject = header.engine;
  trace.config = config_of(header);
  Fold fold(header, trace.config);
  auto story = std::make_shared<Story>(trace.config, fold.state());
  while (reader.next(line) && nlohmann::json::accept(line)) {
    const live::Event event = live::parse_event(line, header, fold.names());
    if (std::holds_alternative<live::event::Lost>(event)) break;
    fold.take(event, *story);
    Snapshot after = fold.state();
    story->add_line("\"op\":" + std::string(line), after);
    story->set("t", fold.transfers());
  }
  tell_head(*story, trace, std::filesystem::path(path).filename().string(),
            kAllParts & ~Parts{kQueue | kProgress}, "./kvproof live " + path);
  story->head["live"] = true;
  for (const live::Found& found : judge.findings()) {
    const live::RunLaw& law = live::kRunLaws[found.law];
    const std::string says = live::in_words(found, judge);
    story->add_verdict(
        {std::string(law.id), std::string(law.name), std::string(law.sentence), says},
        found.event - 2);
  }
  return story;
}

std::string write_lens_of_run(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path beside(path.substr(0, path.rfind(".jsonl")) + ".html");
  std::string why;
  try {
    const auto story = story_of_run(path);
    const std::string page = lens_page(std::string(story->head["title"]), story->payload());
    for (const fs::path& file : {beside, beside.filename()}) {
      try {
        write_whole(page, file, "its lens");
        return say("look at it: ", file.string(), "\n");
      } catch (const std::runtime_error& error) {
        why = error.what();
      }
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  return say("there is no lens of it: ", why, "\n");
}

}  // namespace kvproof::properties
