// SPDX-License-Identifier: Apache-2.0
#include "properties/allocators/byte_world.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "reference/layer_rules.h"
#include "reference/mix64.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using Tables = std::vector<std::vector<BlockId>>;

std::uint64_t mix(std::uint64_t x) { return mix64(x + kMixStep); }

bool is_state(const GroupConfig& group) { return group.kind == LayerKind::mamba; }

const std::vector<Copy>* copies_of(const Result& result) {
  const auto* granted = std::get_if<Granted>(&result);
  return granted == nullptr ? nullptr : &granted->copies;
}

}  // namespace

ByteWorld::ByteWorld(std::unique_ptr<Subject> subject, const CacheConfig& config, CopyFault fault)
    : subject_(std::move(subject)), config_(config), fault_(fault) {
  for (const GroupConfig& group : config.groups) {
    block_bytes_ = std::max(block_bytes_, group.block_size * sizeof(Row));
  }
  device_.resize(config.num_blocks * block_bytes_);
  host_.resize(config.num_host_blocks * block_bytes_);
  subject_->observe(state_);
}

Result ByteWorld::apply(const Operation& operation) {
  std::visit([this](const auto& o) { before(o); }, operation);
  Result result = subject_->apply(operation).result;
  subject_->observe(state_);
  if (is_undone(result)) complain(error_text(result));
  std::visit([&](const auto& o) { after(o, result); }, operation);
  check_free_counts();
  check_leases();
  check_all();
  return result;
}

// ---- the operations that have bytes ----

void ByteWorld::add_tokens(Request& request, const std::vector<TokenId>& tokens) const {
  for (const TokenId token : tokens) {
    const std::uint64_t parent = request.digests.empty() ? 1 : request.digests.back();
    request.digests.push_back(mix(parent ^ mix(static_cast<std::uint64_t>(token) + 7)));
  }
}

void ByteWorld::after(const op::Arrive& o, const Result& /*result*/) {
  requests_[o.req] = {};
  add_tokens(requests_[o.req], o.tokens);
}
void ByteWorld::after(const op::Append& o, const Result& /*result*/) {
  add_tokens(requests_[o.req], o.tokens);
}
void ByteWorld::after(const op::Advance& o, const Result& /*result*/) {
  requests_[o.req].written = 0;
}
void ByteWorld::after(const op::Lookup& o, const Result& result) {
  requests_[o.req].hit_tokens = std::get<Hit>(result).hit_tokens;
}
void ByteWorld::after(const op::Fork& o, const Result& /*result*/) {
  requests_[o.child] = requests_[o.req];
}
void ByteWorld::after(const op::Take& /*o*/, const Result& result) {
  const auto* granted = std::get_if<Granted>(&result);
  if (granted == nullptr) return;
  for (const BlockId id : granted->blocks.at(0)) spoil(device_, id);
}

void ByteWorld::after(const op::Allocate& o, const Result& result) {
  const auto* granted = std::get_if<Granted>(&result);
  if (granted == nullptr) return;
  for (const auto& blocks : granted->blocks) {
    for (const BlockId id : blocks) spoil(device_, id);
  }
  const RequestState& request = *state_.find(o.req);
  const std::uint32_t hit = o.args.use_lookup ? requests_[o.req].hit_tokens : 0;
  const std::uint32_t from = request.computed + hit;
  std::vector<Copy> late;
  for (const Copy& copy : granted->copies) {
    ++counts_.shared_copies;
    const bool counts = matters(o.req, request.tables, copy.to);
    if (faulty(CopyFault::shared_skipped, counts)) continue;
    if (faulty(CopyFault::shared_late, counts)) {
      late.push_back(copy);
      continue;
    }
    const bool reversed = faulty(CopyFault::shared_reversed, counts);
    const auto source = block(device_, reversed ? copy.to : copy.from);
    std::ranges::copy(source, block(device_, reversed ? copy.from : copy.to).begin());
  }
  check(o.req, from, request.tables, device_);  // the step reads these
  write(o.req, from, from + o.args.new_tokens, o.args.lookahead);
  requests_[o.req].written = from + o.args.new_tokens;
  for (const Copy& copy : late) {
    std::ranges::copy(block(device_, copy.from), block(device_, copy.to).begin());
  }
}

void ByteWorld::after(const op::Pin& o, const Result& /*result*/) {
  for (const BlockId id : o.blocks) {
    const auto bytes = block(device_, id);
    leases_[o.lease][id] = Store(bytes.begin(), bytes.end());
  }
}
void ByteWorld::after(const op::Unpin& o, const Result& /*result*/) { leases_.erase(o.lease); }

void ByteWorld::after(const op::SwapOut& o, const Result& result) {
  start(o.req, o.transfer, true, result);
}
void ByteWorld::after(const op::SwapIn& o, const Result& result) {
  start(o.req, o.transfer, false, result);
}

void ByteWorld::start(const std::string& name, const std::string& transfer, bool out,
                      const Result& result) {
  const std::vector<Copy>* copies = copies_of(result);
  if (copies == nullptr) return void(++counts_.refused_swaps);
  transfers_[transfer] = {name, out, *copies};
  requests_[name].transfer = transfer;
  requests_[name].leaving = out;
  for (const Copy& copy : *copies) spoil(out ? host_ : device_, copy.to);
  for (const auto& table : state_.find(name)->tables) {
    const auto held = std::ranges::count_if(table, [](BlockId id) { return id != kNullBlock; });
    counts_.twins += static_cast<std::uint64_t>(held);
  }
  counts_.twins -= copies->size();
}

// The manager is told after the bytes have moved, or have moved halfway.
void ByteWorld::before(const op::Complete& o) {
  const Transfer& transfer = transfers_[o.transfer];
  Store& source = transfer.out ? device_ : host_;
  Store& target = transfer.out ? host_ : device_;
  const RequestState& request = *state_.find(transfer.req);
  const Tables& tables = transfer.out ? request.host_tables : request.tables;
  for (const Copy& copy : transfer.copies) {
    const auto from = block(source, copy.from);
    const auto to = block(target, copy.to);
    if (!o.ok) {
      std::ranges::copy(from.first(from.size() / 2), to.begin());
      continue;
    }
    const bool counts = matters(transfer.req, tables, copy.to);
    if (faulty(transfer.out ? CopyFault::out_skipped : CopyFault::in_skipped, counts)) continue;
    const bool reversed =
        faulty(transfer.out ? CopyFault::out_reversed : CopyFault::in_reversed, counts);
    std::ranges::copy(reversed ? to : from, (reversed ? from : to).begin());
  }
}

void ByteWorld::after(const op::Complete& o, const Result& /*result*/) {
  const Transfer& transfer = transfers_[o.transfer];
  requests_[transfer.req].transfer.clear();
  if (o.ok) ++(transfer.out ? counts_.swaps_out : counts_.swaps_in);
  if (!o.ok) ++(transfer.out ? counts_.failed_out : counts_.failed_in);
  transfers_.erase(o.transfer);
}

// ---- faults ----

/// Whether a copied block holds a token that the request will read.
bool ByteWorld::matters(const std::string& name, const Tables& tables, BlockId to) const {
  const std::uint32_t computed = state_.find(name)->computed;
  for (GroupId g = 0; g < tables.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    const auto at = std::ranges::find(tables[g], to);
    if (at == tables[g].end()) continue;
    const auto first = static_cast<std::uint64_t>(at - tables[g].begin()) * group.block_size;
    return first < computed && first + group.block_size > skipped_tokens(group, computed);
  }
  return false;
}

bool ByteWorld::faulty(CopyFault kind, bool counts) {
  return kind == fault_ && counts && ++mattered_ == 3;
}

// ---- bytes ----

ByteWorld::Row ByteWorld::row(std::uint64_t digest, std::uint64_t position, GroupId group) {
  Row out;
  std::uint64_t word = mix(digest ^ mix(position ^ mix(group)));
  for (std::size_t i = 0; i < out.size(); i += sizeof word) {
    word = mix(word);
    std::memcpy(out.data() + i, &word, sizeof word);
  }
  return out;
}

std::span<std::byte> ByteWorld::block(Store& store, BlockId id) const {
  return std::span(store).subspan(id * block_bytes_, block_bytes_);
}

void ByteWorld::spoil(Store& store, BlockId id) {
  if (id == kNullBlock) return;
  std::ranges::fill(block(store, id), static_cast<std::byte>(++dirt_));
}

void ByteWorld::write_state(std::span<std::byte> block, const Row& state) const {
  for (std::size_t i = 0; i < block.size(); i += state.size()) {
    std::ranges::copy(state, block.subspan(i).begin());
  }
}

/// Computes tokens [from, to), and drafts behind them.
void ByteWorld::write(const std::string& name, std::uint32_t from, std::uint32_t to,
                      std::uint32_t drafts) {
  const std::vector<std::uint64_t>& digests = requests_[name].digests;
  const Tables& tables = state_.find(name)->tables;
  for (GroupId g = 0; g < tables.size(); ++g) {
    const std::uint32_t block_size = config_.groups[g].block_size;
    if (is_state(config_.groups[g])) {
      write_state(block(device_, tables[g].at((to - 1) / block_size)), row(digests[to - 1], to, g));
      continue;
    }
    for (std::uint32_t p = from; p < to + drafts; ++p) {
      if (p / block_size >= tables[g].size()) break;  // the token limit
      const BlockId id = tables[g][p / block_size];
      if (id == kNullBlock) continue;
      const Row bytes = row(p < to ? digests[p] : ++dirt_, p, g);
      std::ranges::copy(bytes, block(device_, id).subspan(p % block_size * bytes.size()).begin());
    }
  }
}

// ---- checks ----

void ByteWorld::complain(std::string text) {
  if (!wrong_) wrong_ = std::move(text);
}

void ByteWorld::check_all() {
  for (const RequestState& request : state_.requests) {
    const Request& own = requests_[request.name];
    const bool in_flight = !own.transfer.empty();
    const std::uint32_t computed = std::max(request.computed, own.written);
    const bool here = request.host_tables.empty() || (in_flight && own.leaving);
    if (here) {
      check(request.name, computed, request.tables, device_);
    } else {
      check(request.name, computed, request.host_tables, host_);
    }
  }
}

void ByteWorld::check(const std::string& name, std::uint32_t computed, const Tables& tables,
                      Store& store) {
  const std::vector<std::uint64_t>& digests = requests_[name].digests;
  for (GroupId g = 0; g < tables.size(); ++g) {
    const GroupConfig& group = config_.groups[g];
    for (std::uint64_t p = skipped_tokens(group, computed); p < computed; ++p) {
      const std::uint64_t at = p / group.block_size;
      const BlockId id = at < tables[g].size() ? tables[g][at] : kNullBlock;
      if (id == kNullBlock) {
        return complain(say(name, " has no block for token ", p, " in group ", g));
      }
      const std::size_t offset = is_state(group) ? 0 : p % group.block_size;
      const Row wanted = is_state(group) ? row(digests[p], p + 1, g) : row(digests[p], p, g);
      ++counts_.checked_rows;
      const auto found = block(store, id).subspan(offset * wanted.size(), wanted.size());
      if (!std::ranges::equal(found, wanted)) {
        return complain(say(name, " reads other bytes than its own for token ", p, " in group ", g,
                            ", in ", &store == &host_ ? "host" : "device", " block ", id));
      }
    }
  }
}

/// A reader under a lease must read the bytes that were there when the lease was given.
void ByteWorld::check_leases() {
  for (const auto& [lease, blocks] : leases_) {
    for (const auto& [id, bytes] : blocks) {
      if (!std::ranges::equal(block(device_, id), bytes)) {
        complain(say("block ", id, " was written while lease ", lease, " holds it"));
      }
    }
  }
}

/// Every block is free, or held by a table, a lease or the raw owner, so that none is lost.
void ByteWorld::check_free_counts() {
  std::set<BlockId> held(state_.raw.begin(), state_.raw.end());
  std::set<BlockId> on_host;
  for (const LeaseState& lease : state_.leases)
    held.insert(lease.blocks.begin(), lease.blocks.end());
  for (const RequestState& request : state_.requests) {
    for (const auto& table : request.tables) held.insert(table.begin(), table.end());
    for (const auto& table : request.host_tables) on_host.insert(table.begin(), table.end());
  }
  held.insert(kNullBlock);
  on_host.insert(kNullBlock);
  if (held.size() + state_.num_free != config_.num_blocks) {
    complain(say(held.size(), " device blocks are held and ", state_.num_free, " are free"));
  }
  if (config_.num_host_blocks > 0 &&
      on_host.size() + state_.host.num_free != config_.num_host_blocks) {
    complain(say(on_host.size(), " host blocks are held and ", state_.host.num_free, " are free"));
  }
}

}  // namespace kvproof::properties
