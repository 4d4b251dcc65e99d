// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/movement_problem.h"

#include <cstring>
#include <stdexcept>

#include "kernels/copy_blocks/copy_blocks.h"
#include "kernels/gather_cache/gather_cache.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/slot_mapping/slot_mapping.h"
#include "kernels/swap_blocks/swap_blocks.h"
#include "kernels/typed.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

constexpr std::int32_t kBlockSize = 16;  // [tokens]
constexpr std::int32_t kHeads = 8;
constexpr std::int32_t kSize = 128;            // [elements] of a head
constexpr std::int64_t kRow = kHeads * kSize;  // [elements] of a token
constexpr std::int32_t kSequence = 2048;       // [tokens]

std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33;
}

/// 0 .. count - 1 in any order.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
  std::uint64_t state = seed;
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[next(state) % i]);
  return out;
}

/// Values of a few units in any order.
void fill(const HugeBuffer& buffer, ElementType type, std::uint64_t seed) {
  std::uint64_t state = seed;
  const std::int64_t count = static_cast<std::int64_t>(buffer.size()) / bytes_of(type);
  for (std::int64_t i = 0; i < count; ++i) {
    const float unit = static_cast<float>(static_cast<std::int32_t>(next(state) << 1)) * 0x1p-31F;
    kernels::store_element(buffer.data(), i, type, 4 * unit);
  }
}

std::uint64_t checksum_of(const HugeBuffer& buffer) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, buffer.data() + i, 8);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15u + (sum >> 29);
  }
  return sum;
}

void wipe_bytes(const HugeBuffer& buffer) { std::memset(buffer.data(), 0xEE, buffer.size()); }

/// The reference and the CPU's implementations that do not refuse.
template <class Params>
std::vector<Contender> ways_of(std::span<const kernels::Implementation<Params>> rows,
                               const Params& params, int num_threads) {
  std::vector<Contender> out;
  for (const auto& row : rows) {
    if (row.on_device()) continue;
    const kernels::Context context{.num_threads = num_threads};
    if (row.launch(params, context)) continue;  // for lack of something that this case needs
    out.push_back({std::string(row.name), [&row, &params, context] {
                     const kernels::Refusal refusal = row.launch(params, context);
                     if (refusal) throw std::logic_error(std::string("refused: ") + refusal.reason);
                   }});
  }
  return out;
}

std::size_t size_of(std::int64_t elements, ElementType type) {
  return static_cast<std::size_t>(elements * bytes_of(type));
}

class Write : public MovementProblem {
 public:
  Write(const MovementCase& c, std::int32_t tokens, std::uint64_t seed)
      : key_(size_of(tokens * kRow, ElementType::bf16)),
        value_(key_.size()),
        key_cache_(size_of(2 * tokens * kRow, c.cache_type)),
        value_cache_(key_cache_.size()) {
    fill(key_, ElementType::bf16, seed);
    fill(value_, ElementType::bf16, seed + 1);
    const std::vector<std::int64_t> blocks = shuffled(2 * tokens / kBlockSize, seed + 2);
    for (std::int32_t t = 0; t < tokens; ++t) {
      slots_.push_back(blocks[static_cast<std::size_t>(t / kBlockSize)] * kBlockSize +
                       t % kBlockSize);
    }
    p_.key = key_.data();
    p_.value = value_.data();
    p_.num_rows = p_.num_tokens = tokens;
    p_.key_token_stride = p_.value_token_stride = kRow;
    p_.key_cache = key_cache_.data();
    p_.value_cache = value_cache_.data();
    p_.key_layout = p_.value_layout = CacheLayout::packed(c.order, kBlockSize, kHeads, kSize);
    p_.slot_mapping = slots_.data();
    p_.num_heads = kHeads;
    p_.head_size = p_.value_head_size = kSize;
    p_.cache_type = c.cache_type;
    if (is_fp8(c.cache_type)) {
      p_.key_scale = 0.37F;
      p_.value_scale = 0.029F;
    }
    ways_ = ways_of(kernels::reshape_and_cache(), p_, c.num_threads);
    bytes_ = 2 * tokens * kRow * (2 + bytes_of(c.cache_type));
    tokens_ = tokens;
  }
  [[nodiscard]] std::uint64_t checksum() const override {
    return checksum_of(key_cache_) + 3 * checksum_of(value_cache_);
  }
  void wipe() override {
    wipe_bytes(key_cache_);
    wipe_bytes(value_cache_);
  }

 private:
  HugeBuffer key_, value_, key_cache_, value_cache_;
  std::vector<SlotId> slots_;
  kernels::ReshapeAndCacheParams p_;
};

class Read : public MovementProblem {
 public:
  Read(const MovementCase& c, std::int32_t tokens, std::uint64_t seed)
      : cache_(size_of(2 * tokens * kRow, c.cache_type)),
        out_(size_of(tokens * kRow, c.cache_type)) {
    fill(cache_, c.cache_type, seed);
    for (const std::int64_t block : shuffled(2 * tokens / kBlockSize, seed + 2)) {
      tables_.push_back(static_cast<std::int32_t>(block));
    }
    p_.num_seqs = (tokens + kSequence - 1) / kSequence;
    for (std::int32_t s = 0; s <= p_.num_seqs; ++s) {
      starts_.push_back(std::min(tokens, s * kSequence));
    }
    p_.cache = cache_.data();
    p_.layout = CacheLayout::packed(c.order, kBlockSize, kHeads, kSize);
    p_.block_tables = tables_.data();
    p_.table_stride = kSequence / kBlockSize;
    p_.starts = starts_.data();
    p_.num_tokens = tokens;
    p_.out = out_.data();
    p_.num_heads = kHeads;
    p_.head_size = kSize;
    p_.type = p_.cache_type = c.cache_type;
    ways_ = ways_of(kernels::gather_cache(), p_, c.num_threads);
    bytes_ = 2 * tokens * kRow * bytes_of(c.cache_type);
    tokens_ = tokens;
  }
  [[nodiscard]] std::uint64_t checksum() const override { return checksum_of(out_); }
  void wipe() override { wipe_bytes(out_); }

 private:
  HugeBuffer cache_, out_;
  std::vector<std::int32_t> tables_;
  std::vector<std::int64_t> starts_;
  kernels::GatherCacheParams p_;
};

class Copy : public MovementProblem {
 public:
  Copy(const MovementCase& c, std::int32_t tokens, std::uint64_t seed)
      : key_(size_of(2 * tokens * kRow, c.cache_type)), value_(key_.size()) {
    fill(key_, c.cache_type, seed);
    fill(value_, c.cache_type, seed + 1);
    caches_ = {key_.data(), value_.data()};
    pairs_ = shuffled(2 * tokens / kBlockSize, seed + 2);  // half of them over the other half
    p_.caches = caches_.data();
    p_.num_caches = 2;
    p_.pairs = pairs_.data();
    p_.num_pairs = tokens / kBlockSize;
    p_.block_bytes = p_.block_stride = kBlockSize * kRow * bytes_of(c.cache_type);
    p_.alignment = 64;
    ways_ = ways_of(kernels::copy_blocks(), p_, c.num_threads);
    bytes_ = 2 * 2 * p_.num_pairs * p_.block_bytes;
    tokens_ = tokens;
  }
  [[nodiscard]] std::uint64_t checksum() const override {
    return checksum_of(key_) + 3 * checksum_of(value_);
  }
  void wipe() override {
    for (std::int64_t i = 0; i < p_.num_pairs; ++i) {
      for (const HugeBuffer* cache : {&key_, &value_}) {
        std::memset(cache->data() + pairs_[static_cast<std::size_t>(2 * i + 1)] * p_.block_bytes,
                    0xEE, static_cast<std::size_t>(p_.block_bytes));
      }
    }
  }

 private:
  HugeBuffer key_, value_;
  std::vector<void*> caches_;
  std::vector<std::int64_t> pairs_;
  kernels::CopyBlocksParams p_;
};

/// Between two buffers of the host: the cost of a transfer without a bus.
class Swap : public MovementProblem {
 public:
  Swap(const MovementCase& c, std::int32_t tokens, std::uint64_t seed)
      : from_(size_of(2 * tokens * kRow, c.cache_type)), to_(size_of(tokens * kRow, c.cache_type)) {
    fill(from_, c.cache_type, seed);
    const std::int64_t count = tokens / kBlockSize;
    for (const std::int64_t run : shuffled(2 * count / 4, seed + 2)) {  // runs of four blocks
      for (std::int64_t i = 4 * run; i < 4 * run + 4; ++i) {
        const auto to = static_cast<std::int64_t>(pairs_.size()) / 2;
        if (to < count) pairs_.insert(pairs_.end(), {i, to});
      }
    }
    p_.from = from_.data();
    p_.to = to_.data();
    p_.pairs = pairs_.data();
    p_.num_pairs = count;
    p_.block_bytes = kBlockSize * kRow * bytes_of(c.cache_type);
    p_.from_blocks = 2 * count;
    p_.to_blocks = count;
    ways_ = ways_of(kernels::swap_blocks(), p_, c.num_threads);
    bytes_ = 2 * count * p_.block_bytes;
    tokens_ = tokens;
  }
  [[nodiscard]] std::uint64_t checksum() const override { return checksum_of(to_); }
  void wipe() override { wipe_bytes(to_); }

 private:
  HugeBuffer from_, to_;
  std::vector<std::int64_t> pairs_;
  kernels::SwapBlocksParams p_;
};

class Slots : public MovementProblem {
 public:
  Slots(const MovementCase& c, std::int32_t tokens, std::uint64_t seed)
      : slots_(static_cast<std::size_t>(tokens) * 8 + 4096) {
    for (const std::int64_t block : shuffled(2 * tokens / kBlockSize, seed)) {
      tables_.push_back(static_cast<std::int32_t>(block));
    }
    p_.num_seqs = (tokens + kSequence - 1) / kSequence;
    for (std::int32_t s = 0; s <= p_.num_seqs; ++s) {
      starts_.push_back(std::min(tokens, s * kSequence));
    }
    for (std::int64_t t = 0; t < tokens; ++t) positions_.push_back(t % kSequence);
    p_.block_tables = tables_.data();
    p_.table_stride = p_.table_width = kSequence / kBlockSize;
    p_.block_size = kBlockSize;
    p_.query_starts = starts_.data();
    p_.positions = positions_.data();
    p_.num_tokens = tokens;
    p_.slots = reinterpret_cast<SlotId*>(slots_.data());
    p_.num_slots = tokens + 512;
    ways_ = ways_of(kernels::slot_mapping(), p_, c.num_threads);
    tokens_ = tokens;
  }
  [[nodiscard]] std::uint64_t checksum() const override { return checksum_of(slots_); }
  void wipe() override { wipe_bytes(slots_); }

 private:
  HugeBuffer slots_;
  std::vector<std::int32_t> tables_, starts_;
  std::vector<std::int64_t> positions_;
  kernels::SlotMappingParams p_;
};

}  // namespace

std::string MovementCase::name() const {
  std::string out = "movement/" + std::string(operation);
  if (operation == "reshape_and_cache") out += "/bf16_to_" + std::string(name_of(cache_type));
  if (operation == "reshape_and_cache" || operation == "gather_cache") {
    out += order == LayoutOrder::nhd ? "/nhd" : "/hnd";
  }
  return out + "/threads:" + std::to_string(num_threads);
}

std::unique_ptr<MovementProblem> make_problem(const MovementCase& c, bool smoke,
                                              std::uint64_t seed) {
  const std::int32_t tokens = smoke ? 256 : 32'768;
  if (c.operation == "reshape_and_cache") return std::make_unique<Write>(c, tokens, seed);
  if (c.operation == "gather_cache") return std::make_unique<Read>(c, tokens, seed);
  if (c.operation == "copy_blocks") return std::make_unique<Copy>(c, tokens, seed);
  if (c.operation == "swap_blocks") return std::make_unique<Swap>(c, tokens, seed);
  return std::make_unique<Slots>(c, 32 * tokens, seed);
}

}  // namespace kvproof::bench
