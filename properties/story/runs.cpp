// SPDX-License-Identifier: Apache-2.0
#include "properties/story/runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "properties/shadow/events.h"
#include "properties/shadow/shadow.h"
#include "reference/support/line_reader.h"
#include "reference/support/say.h"

namespace kvproof::live {
namespace {

using namespace properties;  // NOLINT: the words of this file

CacheConfig config_of(const Header& header) {
  CacheConfig out;
  out.num_blocks = header.tiers.front().blocks;
  for (const Group& group : header.groups) {
    GroupConfig& to = out.groups.emplace_back();
    to.block_size = group.block_size;
    to.window = group.window;
    if (group.window > 0) to.kind = LayerKind::sliding_window;
    if (group.state) to.kind = LayerKind::mamba;
    if (group.state) to.mode = MambaMode::all;
    out.hash_block_size = std::gcd(out.hash_block_size, group.block_size);
  }
  return out;
}

class RunExplainer {
 public:
  explicit RunExplainer(const Header& header)
      : config_(config_of(header)),
        history_(config_.groups.size(), config_.hash_block_size),
        explainer_(config_, history_,
                   {.moment = "line",
                    .name = [this](std::uint32_t r) { return names_.of(r); },
                    .tells_whom = false},
                   0) {}

  void take(std::string_view line, const Header& header, std::uint64_t number) {
    if (!out_.ends.empty()) return;
    now_.operation = static_cast<std::uint32_t>(number);
    const ReadEvent read = parse_event(line, header, names_);
    if (read.event) std::visit([this](const auto& event) { take(event); }, *read.event);
  }

  [[nodiscard]] Explanations finish() { return std::move(out_); }

 private:
  struct Request {
    std::vector<TokenId> tokens = {};
    std::vector<ContentId> contents = {};
    Identity chain = kFewest;
    std::string keys;
    bool admitted = false;
    std::uint32_t scheduled = 0;  // [tokens]
  };
  using Key = std::pair<ContentId, GroupId>;

  void add_tokens(std::uint32_t req, const std::vector<TokenId>& tokens) {
    Request& r = requests_[req];
    const std::uint32_t unit = config_.hash_block_size;
    for (const TokenId token : tokens) {
      r.tokens.push_back(token);
      r.chain = link(r.chain, token);
      if (r.tokens.size() % unit != 0) continue;
      const auto last = std::span(r.tokens).last(unit);
      ContentUnit added{.own = number_of_tokens(last), .tokens = last};
      if (r.tokens.size() == unit && !r.keys.empty()) added.extra = {"keys:" + r.keys};
      const ContentId parent = r.contents.empty() ? kNoContent : r.contents.back();
      r.contents.push_back(history_.learn(r.chain, parent, added, req));
    }
  }

  void look_up(std::uint32_t req, std::uint32_t hit) {
    Request& r = requests_[req];
    if (r.tokens.empty() || std::exchange(r.admitted, true)) return;
    hit = std::min(hit, static_cast<std::uint32_t>(r.tokens.size()));  // the judge reports more
    const auto pending = [this](GroupId, std::uint64_t end, ContentId content) {
      const std::size_t i = end / config_.hash_block_size - 1;
      for (const auto& [number, other] : requests_) {
        const bool computes = other.admitted && other.scheduled >= end;
        if (computes && other.contents[i] == content) return names_.of(number);
      }
      return std::string();
    };
    out_.lookups.push_back(explainer_.explain({.request = names_.of(req),
                                               .now = now_,
                                               .tokens = r.tokens.size(),
                                               .limit = r.tokens.size() - 1,
                                               .hit = hit,
                                               .may_know_more = true,
                                               .contents = r.contents,
                                               .pending = pending}));
    use(r, hit);
  }

  void use(const Request& r, std::uint64_t tokens) {
    const auto used = std::min<std::size_t>(r.contents.size(), tokens / config_.hash_block_size);
    for (const ContentId content : std::span(r.contents).first(used)) {
      for (GroupId g = 0; g < config_.groups.size(); ++g) {
        if (history_.holds(content, g)) history_.use(content, g, now_);
      }
    }
  }

  void take(const event::Request& e) {
    requests_[e.req] = {.keys = e.keys};
    for (const char c : e.keys) requests_[e.req].chain = link(requests_[e.req].chain, c);
    add_tokens(e.req, e.tokens);
  }
  void take(const event::Tokens& e) {
    Request& r = requests_[e.req];
    if (e.length) {  // the next turn of a session: what is cut off is hashed anew
      const auto kept =
          std::span(r.tokens).first(std::min<std::size_t>(*e.length, r.tokens.size()));
      take(event::Request{
          .req = e.req, .tokens = {kept.begin(), kept.end()}, .keys = std::string(r.keys)});
    }
    add_tokens(e.req, e.append);
  }
  void take(const event::Hit& e) { look_up(e.req, e.tokens); }
  void take(const event::Dispatch& e) {
    for (const event::Row& row : e.rows) {
      if (row.start == 0) look_up(row.req, 0);
      Request& r = requests_[row.req];
      r.admitted = true;
      r.scheduled =
          std::min<std::uint32_t>(row.start + row.n, static_cast<std::uint32_t>(r.tokens.size()));
      for (std::size_t i = 0; (i + 1) * config_.hash_block_size <= r.scheduled; ++i) {
        history_.compute(r.contents[i]);
      }
    }
  }
  void take(const event::Leave& e) {
    Request& r = requests_[e.req];
    use(r, r.tokens.size());
    r.admitted = false;
    r.scheduled = 0;
  }
  void take(const event::Publish& e) {
    const Request& r = requests_[e.req];
    const std::size_t unit = config_.hash_block_size;
    if (e.place.tier != 0 || e.to == 0 || e.to % unit != 0 || e.to / unit > r.contents.size())
      return;
    const Key key{r.contents[e.to / unit - 1], e.group};
    std::vector<Key>& keys = published_[e.place.block];
    if (e.published) {
      keys.push_back(key);
      history_.enter(key.first, key.second, now_);
    } else if (std::erase(keys, key) > 0) {
      leave(key);
    }
  }
  void take(const event::Reset& e) {
    if (std::ranges::find(e.tiers, 0U) == e.tiers.end()) return;
    for (auto& [block, keys] : published_) {
      for (const Key& key : std::exchange(keys, {})) leave(key);
    }
  }
  void take(const event::Queue& e) {
    if (!e.freed && e.tier == 0) now_.taken += e.blocks.size();
  }
  void take(const event::Lost& e) { out_.ends = "from there on events are missing: " + e.what; }
  template <class Other>
  void take(const Other&) {}  // it moves no key and admits no request

  void leave(const Key& key) { history_.leave(key.first, key.second, now_, 0); }

  CacheConfig config_;
  IndexHistory history_;
  Names names_;
  Explainer explainer_;
  Moment now_;
  std::map<std::uint32_t, Request> requests_;
  std::map<std::uint32_t, std::vector<Key>> published_;  // per block of tier 0
  Explanations out_;
};

}  // namespace

bool is_run(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  LineReader reader(path);
  std::string_view line;
  return reader.next(line) && line.find("\"kvproof_run\"") != std::string_view::npos;
}

Explanations explain_run(const std::string& path) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) reader.fail("", "the header of a run, found an empty file");
  try {
    const Header header = parse_run_header(line);
    RunExplainer run(header);
    while (reader.next(line)) run.take(line, header, reader.line_number());
    return run.finish();
  } catch (const TextError& error) {
    reader.fail(error.field(), error.expected());
  }
}

}  // namespace kvproof::live
