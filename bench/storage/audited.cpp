// SPDX-License-Identifier: Apache-2.0
// Serves requests from any allocator that can be checked, with every operation audited.
#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/storage/paged_config.h"
#include "bench/storage/storage.h"
#include "properties/audit/audit.h"
#include "properties/check/candidate.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

class AuditedMemory final : public KvMemory, private KvSwapper, private KvHolder {
 public:
  AuditedMemory(const MemoryOptions& options, const CacheConfig& config,
                properties::Candidate candidate, properties::Opened opened)
      : options_(options),
        capacity_blocks_(config.num_blocks - 1),
        shares_(config.enable_caching),
        candidate_(std::move(candidate)),
        subject_(std::move(opened.subject)),
        audit_(config, *subject_, oracles_for(config, opened.demands)) {
    if (options_.recording == nullptr) return;
    TraceHeader header;
    header.recorded_from = "kvproof serving simulation";
    header.family = "serving";
    header.config = config;
    *options_.recording << to_json(header) << '\n';
  }
  ~AuditedMemory() override {
    if (options_.recording != nullptr) *options_.recording << end_line(num_recorded_) << '\n';
  }

  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t) override {
    if (unused_.empty()) {
      unused_.push_back(static_cast<KvHandle>(known_.size()));
      known_.emplace_back();
    }
    const KvHandle request = unused_.back();
    unused_.pop_back();
    known_[request] = {};
    apply(op::Arrive{name(request), {prompt.begin(), prompt.end()}});
    return request;
  }

  void begin_step() override { apply(op::Step{}); }

  std::uint32_t cached_prefix(KvHandle request) override {
    const kvproof::Result& result = apply(op::Lookup{name(request)}).result;
    const auto* found = std::get_if<Hit>(&result);
    known_[request].searched = found != nullptr;  // not every allocator has a prefix cache
    return found != nullptr ? found->hit_tokens : 0;
  }

  bool start(KvHandle request, const Start& ask) override {
    return allocate(request,
                    {.new_tokens = ask.new_tokens,
                     .use_lookup = known_[request].searched,
                     .lookahead = ask.lookahead,
                     .full_sequence_must_fit = options_.whole_sequence_must_fit,
                     .has_scheduled = ask.has_scheduled,
                     .status = ask.resumed ? RequestStatus::preempted : RequestStatus::waiting});
  }

  bool grow(KvHandle request, std::uint32_t new_tokens, std::uint32_t lookahead,
            std::uint32_t in_flight) override {
    return allocate(request, {.new_tokens = new_tokens,
                              .lookahead = lookahead,
                              .in_flight = in_flight,
                              .status = RequestStatus::running});
  }

  void advance(KvHandle request, std::span<const TokenId> generated,
               std::uint32_t computed) override {
    if (!generated.empty()) {
      apply(op::Append{name(request), {generated.begin(), generated.end()}});
    }
    apply(op::Advance{name(request), computed});
  }

  void publish(KvHandle request, std::uint32_t computed) override {
    apply(op::Cache{name(request), computed});
  }

  void preempt(KvHandle request) override { apply(op::Free{name(request)}); }
  void finish(KvHandle request) override {
    apply(op::Finish{name(request)});
    unused_.push_back(request);
  }

  std::span<const BlockId> table(KvHandle request) const override {
    return state_of(request).tables.front();
  }
  bool could_hold(std::uint32_t most_tokens) const override {
    return ceil_div(most_tokens, options_.block_size) <= capacity_blocks_;
  }
  std::uint64_t capacity_tokens() const override {
    return std::uint64_t{capacity_blocks_} * options_.block_size;
  }

  // Counted block by block from the state itself, unlike the other memories do it.
  MemoryUse use() const override {
    const Snapshot& state = audit_.state();
    MemoryUse out{.reserved = options_.block_size * num_held()};
    std::vector<std::uint32_t> filled(state.blocks.size());
    for (const RequestState& request : state.requests) {
      const std::vector<BlockId>& table = request.tables.front();
      const std::uint64_t lookahead = known_[std::stoul(request.name)].lookahead;
      std::uint64_t beyond = 0;
      for (std::size_t i = 0; i < table.size(); ++i) {
        const std::uint64_t from = i * options_.block_size;
        const std::uint64_t in_use =
            std::clamp<std::uint64_t>(request.computed, from, from + options_.block_size) - from;
        filled[table[i]] = std::max(filled[table[i]], static_cast<std::uint32_t>(in_use));
        beyond += options_.block_size - in_use;
      }
      out.reserved += std::min(beyond, lookahead);
      out.tail += beyond - std::min(beyond, lookahead);
      if (!table.empty()) out.known += request.num_tokens;
      out.table_entries += table.size();
    }
    for (const std::uint32_t tokens : filled) out.tokens += tokens;
    out.free = free_tokens();
    return out;
  }
  std::uint64_t free_tokens() const override {
    return std::uint64_t{audit_.state().num_free} * options_.block_size;
  }
  bool shares() const override { return shares_; }
  std::uint64_t moved_tokens() const override { return 0; }
  std::uint64_t top_tokens() const override { return top_; }
  KvSwapper* swapper() override { return options_.host_blocks > 0 ? this : nullptr; }
  KvHolder* holder() override { return this; }

 private:
  struct Known {
    std::uint32_t lookahead = 0;
    std::uint64_t transfers = 0;
    bool searched = false;
  };

  [[nodiscard]] const RequestState& state_of(KvHandle request) const {
    return *std::ranges::find(audit_.state().requests, name(request), &RequestState::name);
  }
  [[nodiscard]] static std::string name(KvHandle request) { return std::to_string(request); }
  [[nodiscard]] std::string transfer(KvHandle request) const {
    return name(request) + "." + std::to_string(known_[request].transfers);
  }

  const Outcome& apply(const Operation& operation) {
    const Outcome& out = audit_.apply(operation);
    if (options_.recording != nullptr) {
      *options_.recording << to_json(operation, out, audit_.state()) << '\n';
      ++num_recorded_;
    }
    return out;
  }

  // An operation that the subject never performs would be asked for again and again.
  bool granted(const Operation& operation) {
    const kvproof::Result& result = apply(operation).result;
    if (is_undone(result)) {
      throw std::invalid_argument("the allocator rejects what serving needs: " +
                                  error_text(result));
    }
    top_ = std::max(top_, capacity_tokens() - free_tokens());
    return std::holds_alternative<Granted>(result);
  }
  bool allocate(KvHandle request, const AllocateArgs& args) {
    known_[request].lookahead = args.lookahead;
    return granted(op::Allocate{name(request), args});
  }

  bool swap_out(KvHandle request) override {
    ++known_[request].transfers;
    return granted(op::SwapOut{name(request), transfer(request)});
  }
  bool swap_in(KvHandle request) override {
    ++known_[request].transfers;
    return granted(op::SwapIn{name(request), transfer(request)});
  }
  void settle(KvHandle request) override { apply(op::Complete{transfer(request), true}); }

  void hold(KvHandle request) override {
    held_.push_back("held." + std::to_string(num_holds_++));
    apply(op::Pin{state_of(request).tables.front(), held_.back()});
  }
  void let_go() override {
    for (const std::string& lease : held_) apply(op::Unpin{lease});
    held_.clear();
  }
  [[nodiscard]] std::uint64_t num_held() const {
    std::vector<BlockId> blocks;
    for (const LeaseState& lease : audit_.state().leases) {
      blocks.insert(blocks.end(), lease.blocks.begin(), lease.blocks.end());
    }
    return held_alone(std::move(blocks),
                      [this](BlockId block) { return audit_.state().blocks[block].ref_cnt; });
  }

  MemoryOptions options_;
  std::uint32_t capacity_blocks_;
  bool shares_;
  std::uint64_t top_ = 0;            // [tokens]
  properties::Candidate candidate_;  // keeps the program alive in which the subject lives
  std::unique_ptr<Subject> subject_;
  properties::Audit audit_;
  std::vector<Known> known_;  // shape [handles given so far]
  std::vector<KvHandle> unused_;
  std::vector<std::string> held_;  // leases on blocks of requests that are finished
  std::uint64_t num_holds_ = 0;    // so far
  std::uint64_t num_recorded_ = 0;
};

}  // namespace

std::unique_ptr<KvMemory> make_audited_memory(const MemoryOptions& options,
                                              const CacheConfig& config) {
  const properties::Candidate& candidate = *options.audited;
  properties::Opened opened = candidate.open(config);
  if (opened.subject == nullptr) {
    throw std::invalid_argument(candidate.name + " cannot be built with this pool");
  }
  return std::make_unique<AuditedMemory>(options, config, candidate, std::move(opened));
}

}  // namespace kvproof::bench
