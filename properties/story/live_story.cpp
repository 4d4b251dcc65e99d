// SPDX-License-Identifier: Apache-2.0
#include "properties/story/live_story.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "properties/audit/shrink.h"
#include "properties/shadow/verdict.h"
#include "properties/story/lens.h"
#include "reference/mix64.h"
#include "reference/support/command_words.h"
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
    state_.blocks.resize(config.num_blocks);
    state_.host.blocks.resize(config.num_host_blocks);
    story_ = std::make_shared<Story>(config, state_);
  }

  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] const std::shared_ptr<Story>& story() const { return story_; }
  [[nodiscard]] live::Names& names() { return names_; }
  [[nodiscard]] std::string transfers() const {
    std::string out;
    for (const auto& [name, pairs] : transfers_) {
      const std::string quoted = nlohmann::json(name).dump();
      out += say(out.empty() ? "[" : ",[", quoted, ",[", pairs, "]]");
    }
    return "[" + out + "]";
  }

  void take(const live::Event& event) {
    std::visit([&](const auto& e) { apply(e); }, event);
  }

 private:
  template <class Event>
  void apply(const Event& /*event*/) {}  // it changes nothing that is shown

  PoolState* pool_of(std::uint32_t tier) {
    return tier == 0 ? &state_ : tier == 1 ? &state_.host : nullptr;
  }
  RequestState& at(std::uint32_t request) {
    const std::string& name = names_.of(request);
    auto found = std::ranges::lower_bound(state_.requests, name, {}, &RequestState::name);
    if (found == state_.requests.end() || found->name != name) {
      found = state_.requests.insert(found, RequestState());
      found->name = name;
      found->tables.resize(groups_);
      const auto& chain = identities_[name];  // not empty in the next turn of a session
      found->num_tokens = static_cast<std::uint32_t>(chain.size());
      for (std::size_t t = unit_; t <= chain.size(); t += unit_) {
        found->hashes.push_back(chain[t - 1]);
      }
    }
    return *found;
  }
  void add_tokens(RequestState& r, const std::vector<TokenId>& tokens) {
    story_->add_tokens(r.name, tokens);
    r.num_tokens += static_cast<std::uint32_t>(tokens.size());
    auto& chain = identities_[r.name];
    for (const TokenId token : tokens) {
      const std::uint64_t before = chain.empty() ? bases_[r.name] : chain.back();
      chain.push_back(mix64(before ^ static_cast<std::uint64_t>(token)) + 1);
      if (chain.size() % unit_ == 0) r.hashes.push_back(chain.back());
    }
  }

  void apply(const live::event::Request& e) {
    RequestState& r = at(e.req);
    std::uint64_t& base = bases_[r.name];
    for (const char c : e.keys) base = mix64(base + static_cast<unsigned char>(c));
    add_tokens(r, e.tokens);
  }
  void apply(const live::event::Tokens& e) {
    RequestState& r = at(e.req);
    if (e.length && *e.length < r.num_tokens) {
      r.num_tokens = *e.length;
      r.hashes.resize(*e.length / unit_);
      identities_[r.name].resize(*e.length);
      story_->cut_tokens(r.name, *e.length);
    }
    add_tokens(r, e.append);
  }
  void apply(const live::event::Dispatch& e) {
    for (const live::event::Row& row : e.rows) {
      RequestState& r = at(row.req);
      for (std::size_t g = 0; g < row.tables.size(); ++g) {
        if (row.told == live::event::Row::Tables::replaced) r.tables[g].clear();
        for (const std::uint32_t block : row.tables[g]) {
          const bool exists = block < state_.blocks.size();
          r.tables[g].push_back(exists ? BlockId(block) : kNullBlock);
        }
      }
      r.computed = row.start + row.n;
    }
    for (const auto& copy : e.copies) state_.copying.emplace_back(copy.from);
  }
  void apply(const live::event::Run& /*event*/) { state_.copying.clear(); }
  void apply(const live::event::Leave& e) {
    RequestState& r = at(e.req);
    r.computed = 0;
    r.tables.assign(groups_, {});
    if (e.way == live::event::Way::preempt) return;
    state_.requests.erase(state_.requests.begin() + (&r - state_.requests.data()));
  }
  void apply(const live::event::Publish& e) {
    PoolState* pool = pool_of(e.place.tier);
    if (pool == nullptr || e.place.block >= pool->blocks.size()) return;
    BlockState& block = pool->blocks[e.place.block];
    const auto& identities = identities_[names_.of(e.req)];
    block = {};
    if (!e.published || e.to == 0 || e.to > identities.size()) return;
    block.hashed = true;
    block.group = GroupId(e.group);
    block.key = identities[e.to - 1];
    block.prefix_tokens = e.to;
  }
  void apply(const live::event::Reset& e) {
    for (const std::uint32_t tier : e.tiers) {
      PoolState* pool = pool_of(tier);
      if (pool != nullptr) pool->blocks.assign(pool->blocks.size(), {});
    }
  }
  void apply(const live::event::Start& e) {
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
  void apply(const live::event::Settle& e) { transfers_.erase(e.transfer); }

  std::size_t groups_;
  std::uint32_t unit_;
  live::Names names_;
  std::shared_ptr<Story> story_;
  Snapshot state_;
  std::map<std::string, std::uint64_t> bases_;                    // of what else keys cover
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
  const std::shared_ptr<Story>& story = fold.story();
  while (reader.next(line) && nlohmann::json::accept(line)) {
    const auto event = live::parse_event(line, header, fold.names()).event;
    if (event && std::holds_alternative<live::event::Lost>(*event)) break;
    if (event) fold.take(*event);
    Snapshot after = fold.state();
    story->add_line("\"op\":" + std::string(line), after);
    story->set("t", fold.transfers());
  }
  tell_head(*story, trace, std::filesystem::path(path).filename().string(),
            kAllParts & ~Parts{kQueue | kReferences | kProgress},
            kvproof_command("live " + shell_word(path)));
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
    const std::string page = lens_page(*story_of_run(path));
    for (const fs::path& file : {beside, beside.filename()}) {
      try {
        write_whole(page, file, "its lens");
        return say("look at it: ", file_address(file), "\n");
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
