// SPDX-License-Identifier: Apache-2.0
// Runs scripts of two logical threads against the concurrent pool and the model.
#include "properties/fuzz/pool_script.h"

#include <array>
#include <vector>

#include "optimized/hashing.h"
#include "properties/fuzz/pool_model.h"
#include "properties/say.h"

namespace kvproof::properties {
namespace {

template <class Holders>
class PoolScript final : PoolInterruption {
  using Pool = optimized::ConcurrentPool<optimized::Key128, InterruptedHolders<Holders>>;
  enum class Call : std::uint8_t { take, touch, release, publish, acquire, forget, reset, drain };
  static constexpr std::uint32_t kNumKeys = 8;

 public:
  PoolScript(std::span<const std::uint8_t> bytes, bool tells)
      : num_blocks_(4 + (bytes.empty() ? 0 : bytes[0] / 3 % 8)),
        pool_(num_blocks_, static_cast<FreeOrder>(bytes.empty() ? 0 : bytes[0] % 3)),
        model_(num_blocks_, static_cast<FreeOrder>(bytes.empty() ? 0 : bytes[0] % 3)),
        bytes_(bytes.subspan(bytes.empty() ? 0 : 1)),
        tells_(tells) {}

  [[nodiscard]] PoolScriptResult run() {
    pool_interruption = this;
    try {
      while (bytes_.size() >= 2 && result_.complaint.empty()) {
        call(0);
        compare();
      }
    } catch (const std::exception& error) {
      complain(error.what());
    }
    pool_interruption = nullptr;
    return result_;
  }

  /// The calls so far, if the script was to tell them.
  [[nodiscard]] const std::string& told() const { return told_; }

 private:
  /// The call in progress, as far as the model has followed it.
  struct Progress {
    Call call = Call::take;
    std::vector<BlockId> blocks;
    std::size_t reached = 0;  // the next attempt is for this one or one behind it
    std::size_t modelled = 0;
    PoolModel::FrontRun run;
    unsigned countdown = 0;  // of places, to the one to interrupt at; 0 = none
  };

  void complain(const std::string& what) {
    if (result_.complaint.empty()) result_.complaint = what;
  }
  void tell(const auto&... parts) {
    if (tells_) told_ += say(parts...);
  }
  void expect(bool holds, const char* what) {
    if (!holds) complain(what);
  }

  // Byte 0: 3 bits of call, 1 of thread, 4 of where to interrupt. Byte 1: whom and how many.
  void call(unsigned depth) {
    const std::uint8_t first = bytes_[0];
    const std::uint8_t second = bytes_[1];
    bytes_ = bytes_.subspan(2);
    ++result_.num_calls;
    auto kind = static_cast<Call>(first & 7);
    std::size_t thread = first >> 3 & 1;
    if (depth > 0) {
      thread = 1 - thread_;
      // The lock of the index is held by an acquire: what would wait for it cannot run now.
      constexpr std::array kNoIndex = {Call::touch, Call::release, Call::acquire};
      if (outer_->call == Call::acquire) kind = kNoIndex[(first & 7) % 3];
    } else {
      thread_ = thread;
    }
    const std::uint32_t block = 1 + second % (num_blocks_ - 1);
    const std::uint32_t n = 1 + second / 16 % 4;
    tell(depth > 0 ? "  thread " : "thread ", thread, ": ");
    switch (kind) {
      case Call::take: take(thread, second % 4); break;
      case Call::publish: publish(thread, block, second / 16 % kNumKeys); break;
      case Call::forget: forget(block); break;
      case Call::reset: reset(); break;
      case Call::touch: step(kind, depth, first >> 4, thread, neighbours(block, n)); break;
      case Call::acquire: acquire(depth, first >> 4, thread, second % kNumKeys, n); break;
      case Call::release:
      case Call::drain: {
        auto& held = held_[thread];
        const std::size_t most = kind == Call::drain ? held.size() : n;
        const std::size_t from = held.size() - std::min(held.size(), most);
        std::vector<BlockId> blocks(held.begin() + static_cast<std::ptrdiff_t>(from), held.end());
        if (second % 2 == 1) std::ranges::reverse(blocks);
        held.resize(from);
        step(Call::release, depth, first >> 4, thread, std::move(blocks));
      }
    }
  }

  [[nodiscard]] std::vector<BlockId> neighbours(BlockId block, std::uint32_t n) const {
    std::vector<BlockId> out;
    for (std::uint32_t i = 0; i < n; ++i) {  // the last one may be the first one again
      out.push_back(i == 3 ? block : 1 + (block - 1 + i) % (num_blocks_ - 1));
    }
    return out;
  }

  static optimized::Key128 key(std::uint32_t k) { return {{k + 1, 3 * k + 1}}; }

  void take(std::size_t thread, std::uint32_t n) {
    tell("take ", n, "\n");
    std::vector<BlockId> blocks(n);
    const bool taken = pool_.take(blocks);
    const auto wanted = model_.take(n);
    expect(taken == wanted.has_value(), "take: granted or not");
    if (!taken || !wanted) return;
    expect(blocks == *wanted, "take: which blocks");
    keep(thread, blocks);
  }

  void publish(std::size_t thread, BlockId block, std::uint32_t k) {
    tell("publish ", block, " as ", k, "\n");
    if (std::ranges::find(held_[thread], block) == held_[thread].end()) return;
    expect(pool_.publish(block, key(k)) == model_.publish(block, k), "publish: new or not");
  }

  void forget(BlockId block) {
    tell("forget ", block, "\n");
    pool_.forget(block);
    model_.forget(block);
  }

  void reset() {
    tell("reset\n");
    expect(pool_.reset() == model_.reset(), "reset: done or not");
  }

  void acquire(unsigned depth, unsigned where, std::size_t thread, std::uint32_t from,
               std::uint32_t n) {
    std::vector<std::uint32_t> names;
    for (std::uint32_t i = 0; i < n; ++i) names.push_back((from + i) % kNumKeys);
    step(Call::acquire, depth, where, thread, model_.find(names), names);
  }

  /// A call that is made of one step for each block.
  void step(Call kind, unsigned depth, unsigned where, std::size_t thread,
            std::vector<BlockId> blocks, const std::vector<std::uint32_t>& names = {}) {
    constexpr const char* kNames[] = {"take", "touch", "release", "publish", "acquire"};
    Progress progress{kind, std::move(blocks), 0, 0, {}, where};
    if (tells_) tell(kNames[static_cast<std::size_t>(kind)], " ", list_of(progress.blocks), "\n");
    Progress* const outer = outer_;
    if (depth == 0) outer_ = &progress;  // only the outer call is interrupted
    if (kind == Call::touch) pool_.touch(progress.blocks);
    if (kind == Call::release) pool_.release(progress.blocks);
    if (kind == Call::acquire) {
      std::vector<optimized::Key128> keys;
      for (const std::uint32_t k : names) keys.push_back(key(k));
      std::vector<BlockId> found(keys.size());
      found.resize(pool_.acquire(keys, found));
      expect(found == progress.blocks, "acquire: which blocks");
    }
    outer_ = outer;
    follow(progress, progress.blocks.size());
    if (kind != Call::release) keep(thread, progress.blocks);
  }

  void keep(std::size_t thread, const std::vector<BlockId>& blocks) {
    held_[thread].insert(held_[thread].end(), blocks.begin(), blocks.end());
  }

  /// Lets the model do the steps before `end` that it has not done.
  void follow(Progress& progress, std::size_t end) {
    for (; progress.modelled < end; ++progress.modelled) {
      const BlockId block = progress.blocks[progress.modelled];
      if (progress.call == Call::release) {
        model_.release(block, progress.run);
      } else {
        model_.touch(block);
      }
    }
  }

  void at(const std::uint32_t& word, Place place) override {
    Progress* const progress = outer_;
    if (progress == nullptr || interrupted_) return;
    const auto block = static_cast<BlockId>(reinterpret_cast<const typename Pool::Record*>(&word) -
                                            &pool_.record(0));
    std::size_t i = progress->reached;
    while (i < progress->blocks.size() && progress->blocks[i] != block) ++i;
    // An attempt that failed is followed by a section that does the step, except in acquire.
    const bool passed =
        place == Place::counted || (place == Place::not_counted && progress->call != Call::acquire);
    progress->reached = passed ? i + 1 : i;
    if (progress->countdown == 0 || --progress->countdown > 0 || bytes_.size() < 2) return;
    follow(*progress, place == Place::counted ? i + 1 : i);
    interrupted_ = true;
    ++result_.num_interruptions;
    call(1);
    interrupted_ = false;
  }

  void compare() {
    pool_.audit();
    auto at = pool_.queue().head();
    for (const BlockId block : model_.queue()) {
      expect(at == block, "the order of the free queue");
      at = pool_.record(at).next;
    }
    expect(pool_.num_free() == model_.queue().size(), "how many blocks are free");
    for (BlockId block = 1; block < num_blocks_; ++block) {
      expect(pool_.ref_cnt(block) == model_.holders(block), "how many hold a block");
      expect(pool_.hashed(block) == model_.hashed(block), "whether a block has content");
    }
    for (std::uint32_t k = 0; k < kNumKeys; ++k) {
      const auto found = model_.find(std::span(&k, 1));
      expect(pool_.index().find(key(k)) == (found.empty() ? optimized::kNoBlock : found.front()),
             "which block the index names");
    }
  }

  std::uint32_t num_blocks_;
  Pool pool_;
  PoolModel model_;
  std::span<const std::uint8_t> bytes_;       // that are left
  std::array<std::vector<BlockId>, 2> held_;  // by thread, one entry per reference
  std::size_t thread_ = 0;                    // of the outer call
  Progress* outer_ = nullptr;
  bool interrupted_ = false;
  PoolScriptResult result_;
  bool tells_;
  std::string told_;
};

}  // namespace

template <class Holders>
PoolScriptResult run_pool_script(std::span<const std::uint8_t> bytes) {
  PoolScriptResult result = PoolScript<Holders>(bytes, false).run();
  if (result.complaint.empty()) return result;
  PoolScript<Holders> again(bytes, true);
  static_cast<void>(again.run());
  result.complaint += say(" after:\n", again.told());
  return result;
}

template PoolScriptResult run_pool_script<optimized::AtomicHolders>(std::span<const std::uint8_t>);
template PoolScriptResult run_pool_script<LostCountHolders>(std::span<const std::uint8_t>);

}  // namespace kvproof::properties
