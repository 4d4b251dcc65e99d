// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "properties/shadow/events.h"
#include "properties/story/frame.h"
#include "reference/identity.h"
#include "reference/support/line_reader.h"
#include "reference/trace_json.h"

namespace kvproof::properties {

namespace event = live::event;

namespace {

/// Moves a state as the events of a run say.
class EventFrames {
 public:
  explicit EventFrames(const live::Header& header) : header_(header) {
    const CacheConfig config = config_of(header);
    unit_ = config.hash_block_size;
    state_.blocks.resize(config.num_blocks);
    state_.host.blocks.resize(config.num_host_blocks);
  }

  void take(std::string_view line, std::uint64_t number, const FrameReader& read) {
    const live::ReadEvent parsed = live::parse_event(line, header_, names_);
    read_ = &read;
    Frame frame = frame_of(line, number);
    if (parsed.event) std::visit([&](const auto& e) { apply(e, frame); }, *parsed.event);
    frame.taken = taken_;
    read(frame);
  }

  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] const std::string& lost() const { return lost_; }

 private:
  struct Known {  // of a request
    std::vector<TokenId> tokens = {};
    std::string keys = {};
    std::uint32_t number = 0;
    Identity base = kEmptyPrefix;
    std::vector<Identity> identities = {};  // of the prefix that ends with each token
    bool admitted = false;
  };

  Frame frame_of(std::string_view line, std::uint64_t number) const {
    return {.request = request_,
            .state = state_,
            .transfers = transfers_,
            .number = number,
            .event = line,
            .taken = taken_};
  }

  [[nodiscard]] std::optional<FrameRequest> find(const std::string& name) const {
    const auto at = requests_.find(name);
    if (at == requests_.end()) return {};
    return FrameRequest{
        .tokens = at->second.tokens, .keys = at->second.keys, .number = at->second.number};
  }

  PoolState* pool_of(std::uint32_t tier) {
    return tier == 0 ? &state_ : tier == 1 ? &state_.host : nullptr;
  }

  RequestState& at(std::uint32_t request) {
    const std::string& name = names_.of(request);
    auto found = std::ranges::lower_bound(state_.requests, name, {}, &RequestState::name);
    if (found == state_.requests.end() || found->name != name) {
      found = state_.requests.insert(found, RequestState());
      found->name = name;
      found->tables.resize(header_.groups.size());
      const auto& chain = requests_[name].identities;  // not empty in the next turn of a session
      found->num_tokens = static_cast<std::uint32_t>(chain.size());
      for (std::size_t t = unit_; t <= chain.size(); t += unit_) {
        found->hashes.push_back(chain[t - 1]);
      }
    }
    return *found;
  }

  void add_tokens(RequestState& r, const std::vector<TokenId>& tokens) {
    Known& known = requests_[r.name];
    known.tokens.insert(known.tokens.end(), tokens.begin(), tokens.end());
    r.num_tokens += static_cast<std::uint32_t>(tokens.size());
    auto& chain = known.identities;
    for (const TokenId token : tokens) {
      chain.push_back(link(chain.empty() ? known.base : chain.back(), token));
      if (chain.size() % unit_ == 0) r.hashes.push_back(chain.back());
    }
  }

  /// A frame of its own: what stands behind the lookup in its event has not happened yet.
  void look_up(std::uint32_t request, std::uint32_t hit, const Frame& event) {
    const std::string& name = names_.of(request);
    const auto tokens = static_cast<std::uint32_t>(requests_[name].tokens.size());
    if (tokens == 0 || std::exchange(requests_[name].admitted, true)) return;
    hit = std::min(hit, tokens);  // the judge reports more
    Frame frame = frame_of(event.event, event.number);
    frame.lookup = {.request = name, .limit = tokens - 1U, .hit = hit, .may_know_more = true};
    frame.complete = false;
    use(name, hit, frame);
    (*read_)(frame);
  }

  void use(const std::string& request, std::size_t tokens, Frame& frame) const {
    const auto& chain = requests_.at(request).identities;
    for (std::size_t end = unit_; end <= std::min(tokens, chain.size()); end += unit_) {
      for (GroupId g = 0; g < header_.groups.size(); ++g) frame.used.push_back({chain[end - 1], g});
    }
  }

  void apply(const event::Request& e, Frame& /*frame*/) {
    const std::string& name = names_.of(e.req);
    Known& known = requests_[name] = {.keys = e.keys, .number = e.req};
    for (const char c : e.keys) known.base = link(known.base, static_cast<TokenId>(c));
    RequestState& r = at(e.req);
    r.num_tokens = 0;
    r.hashes.clear();
    add_tokens(r, e.tokens);
  }

  void apply(const event::Tokens& e, Frame& /*frame*/) {
    RequestState& r = at(e.req);
    if (e.length) requests_[r.name].admitted = false;  // the next turn of a session
    if (e.length && *e.length < r.num_tokens) {
      r.num_tokens = *e.length;
      r.computed = std::min(r.computed, r.num_tokens);
      r.hashes.resize(*e.length / unit_);
      requests_[r.name].identities.resize(*e.length);
      requests_[r.name].tokens.resize(*e.length);
    }
    add_tokens(r, e.append);
  }

  void apply(const event::Hit& e, Frame& frame) { look_up(e.req, e.tokens, frame); }

  void apply(const event::Dispatch& e, Frame& frame) {
    for (const event::Row& row : e.rows) {
      if (row.start == 0) look_up(row.req, 0, frame);
      RequestState& r = at(row.req);
      requests_[r.name].admitted = true;
      for (std::size_t g = 0; g < row.tables.size(); ++g) {
        if (row.told == event::Row::Tables::replaced) r.tables[g].clear();
        for (const std::uint32_t block : row.tables[g]) {
          r.tables[g].push_back(block < state_.blocks.size() ? BlockId(block) : kNullBlock);
        }
      }
      r.computed = std::min(row.start + row.n, r.num_tokens);
    }
    for (const auto& copy : e.copies) state_.copying.emplace_back(copy.from);
  }

  void apply(const event::Run& /*event*/, Frame& /*frame*/) { state_.copying.clear(); }

  void apply(const event::Leave& e, Frame& frame) {
    RequestState& r = at(e.req);
    use(r.name, r.num_tokens, frame);
    requests_[r.name].admitted = false;
    r.computed = 0;
    r.tables.assign(header_.groups.size(), {});
    if (e.way == event::Way::preempt) return;
    state_.requests.erase(state_.requests.begin() + (&r - state_.requests.data()));
  }

  void apply(const event::Publish& e, Frame& frame) {
    PoolState* pool = pool_of(e.place.tier);
    if (pool == nullptr || e.place.block >= pool->blocks.size()) return;
    BlockState& block = pool->blocks[e.place.block];
    const auto& chain = requests_[names_.of(e.req)].identities;
    block = {};
    if (e.to == 0 || e.to > chain.size()) return;
    const IndexKey key{chain[e.to - 1], GroupId(e.group)};
    if (e.published) {
      block.hashed = true;
      block.group = key.group;
      block.key = key.key;
      block.prefix_tokens = e.to;
    }
    if (e.place.tier != 0 || e.to % unit_ != 0) return;
    std::vector<IndexKey>& keys = published_[e.place.block];
    if (e.published) {
      keys.push_back(key);
      frame.entered.push_back(key);
    } else if (std::erase(keys, key) > 0) {
      frame.left.push_back(key);
    }
  }

  void apply(const event::Reset& e, Frame& frame) {
    for (const std::uint32_t tier : e.tiers) {
      PoolState* pool = pool_of(tier);
      if (pool != nullptr) pool->blocks.assign(pool->blocks.size(), {});
      if (tier != 0) continue;
      for (const auto& [block, keys] : std::exchange(published_, {})) {
        frame.left.insert(frame.left.end(), keys.begin(), keys.end());
      }
    }
  }

  void apply(const event::Queue& e, Frame& /*frame*/) {
    if (!e.freed && e.tier == 0) taken_ += e.blocks.size();
  }

  void apply(const event::Start& e, Frame& /*frame*/) {
    auto& pairs = transfers_[e.transfer];
    pairs.assign(std::max(e.from.size(), e.to.size()), {});
    for (const auto* side : {&e.from, &e.to}) {
      for (std::size_t i = 0; i < side->size(); ++i) {
        const live::Place& at = (*side)[i];
        (at.tier == 0 ? pairs[i].first : pairs[i].second) = at.block;
      }
    }
  }

  void apply(const event::Settle& e, Frame& /*frame*/) { transfers_.erase(e.transfer); }

  void apply(const event::Lost& e, Frame& /*frame*/) {
    lost_ = "from there on events are missing: " + e.what;
  }

  template <class Other>
  void apply(const Other& /*event*/, Frame& /*frame*/) {}  // it changes nothing that is shown

  live::Header header_;
  std::uint32_t unit_ = 0;
  live::Names names_;
  Snapshot state_;
  Transfers transfers_;
  std::map<std::string, Known> requests_;
  FindRequest request_ = [this](const std::string& name) { return find(name); };
  std::map<std::uint32_t, std::vector<IndexKey>> published_;  // of each block of tier 0
  std::uint64_t taken_ = 0;
  std::string lost_;
  const FrameReader* read_ = nullptr;
};

}  // namespace

CacheConfig config_of(const live::Header& header) {
  CacheConfig out;
  out.num_blocks = header.tiers.front().blocks;
  out.num_host_blocks = header.tiers.size() > 1 ? header.tiers[1].blocks : 0;
  for (const live::Group& group : header.groups) {
    out.groups.push_back(group.rules());
    if (group.state) out.groups.back().mode = MambaMode::all;
    out.hash_block_size = std::gcd(out.hash_block_size, group.block_size);
  }
  return out;
}

bool is_run(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  LineReader reader(path);
  std::string_view line;
  return reader.next(line) && line.find("\"kvproof_run\"") != std::string_view::npos;
}

std::string read_run(const std::string& path,
                     const std::function<FrameReader(const live::Header&, const Snapshot&)>& open) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) reader.fail("", "the header of a run, found an empty file");
  try {
    const live::Header header = live::parse_run_header(line);
    EventFrames frames(header);
    const FrameReader read = open(header, frames.state());
    while (reader.next(line) && frames.lost().empty()) {
      frames.take(line, reader.line_number(), read);
    }
    return frames.lost();
  } catch (const TextError& error) {
    reader.fail(error.field(), error.expected());
  }
}

}  // namespace kvproof::properties
