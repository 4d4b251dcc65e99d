// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/schedule.h"

#include <ucontext.h>

#include "optimized/concurrent/checks/race_point.h"
#include "optimized/concurrent/checks/sanitizer.h"

#if KVPROOF_UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#elif KVPROOF_UNDER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace kvproof::properties::concurrency {

struct Schedule::Fibers {
  static constexpr std::size_t kStackBytes = 256 * 1024;
  static constexpr std::uint32_t kMostWaits = 10'000;  // so many in a row: no fiber can go on

  /// A stack, or that of the thread itself. The sanitizers have to be told about every change.
  struct Fiber {
    std::unique_ptr<std::byte[]> memory;
    ucontext_t context;
    const void* bottom = nullptr;
    std::size_t bytes = kStackBytes;
    void* sanitizer = nullptr;
    bool done = false;

    void go_on_with(Fiber& other) {
#if KVPROOF_UNDER_ASAN
      __sanitizer_start_switch_fiber(&sanitizer, other.bottom, other.bytes);
#elif KVPROOF_UNDER_TSAN
      sanitizer = __tsan_get_current_fiber();
      __tsan_switch_to_fiber(other.sanitizer, 0);
#endif
      swapcontext(&context, &other.context);
      arrived(nullptr);
    }

    /// The first call on a resumed stack. @param from the stack that the switch came from
    void arrived([[maybe_unused]] Fiber* from) {
#if KVPROOF_UNDER_ASAN
      const void* bottom_before = nullptr;
      std::size_t bytes_before = 0;
      __sanitizer_finish_switch_fiber(sanitizer, &bottom_before, &bytes_before);
      if (from == nullptr) return;
      from->bottom = bottom_before;
      from->bytes = bytes_before;
#endif
    }

    /// Begins at the entry when it is next gone on with. A function of its own, since what lives
    /// across getcontext(), which may return twice, counts as lost.
    [[gnu::noinline]] void rewind() {
      getcontext(&context);
      bottom = context.uc_stack.ss_sp = memory.get();
      context.uc_stack.ss_size = kStackBytes;
      context.uc_link = nullptr;
      if (KVPROOF_UNDER_ASAN != 0) sanitizer = nullptr;  // the stack was not left yet
      done = false;
      makecontext(&context, enter, 0);
    }
  };

  /// The entry of a fiber; makecontext cannot pass pointers.
  static void enter() {
    Fibers& self = *static_cast<Fibers*>(RacePoint::context);
    const std::uint32_t me = self.now;
    self.all[me].arrived(self.main.bottom == nullptr ? &self.main : nullptr);
    (*self.body)(me);
    self.all[me].done = true;
    self.num_waits = 0;
    if (--self.num_running > 0) self.now = self.pick(true);
    self.all[me].go_on_with(self.num_running > 0 ? self.all[self.now] : self.main);
  }

  static void passed(void* context, bool waits) {
    Fibers& self = *static_cast<Fibers*>(context);
    const std::uint32_t before = self.now;
    self.num_waits = waits ? self.num_waits + 1 : 0;
    if (self.num_waits > kMostWaits) self.all[before].go_on_with(self.main);  // never returns
    self.now = self.pick(waits);
    if (self.now != before) self.all[before].go_on_with(self.all[self.now]);
  }

  /// The fiber that `choose` takes among those that are not done, counted from `now` on.
  std::uint32_t pick(bool forced) {
    const bool may_stay = !all[now].done && !forced;
    const std::uint32_t num_others = num_running - (all[now].done ? 0 : 1);
    if (num_others == 0) return now;
    const std::uint32_t options = num_others + (may_stay ? 1 : 0);
    std::uint32_t taken = options == 1 ? 0 : (*choose)(options, forced);
    if (may_stay && taken-- == 0) return now;
    std::uint32_t at = now;
    do {
      do at = (at + 1) % num;
      while (all[at].done || at == now);
    } while (taken-- > 0);
    return at;
  }

  std::vector<Fiber> all;
  Fiber main;
  std::uint32_t num = 0;
  std::uint32_t num_running = 0;
  std::uint32_t now = 0;
  std::uint32_t num_waits = 0;
  const std::function<void(std::uint32_t)>* body = nullptr;
  const Choose* choose = nullptr;
};

Schedule::Schedule(std::uint32_t most_fibers) : fibers_(std::make_unique<Fibers>()) {
  fibers_->all.resize(most_fibers);
  for (auto& fiber : fibers_->all) {
    fiber.memory = std::make_unique_for_overwrite<std::byte[]>(Fibers::kStackBytes);
#if KVPROOF_UNDER_TSAN
    fiber.sanitizer = __tsan_create_fiber(0);
#endif
  }
}

Schedule::~Schedule() {
#if KVPROOF_UNDER_TSAN
  for (auto& fiber : fibers_->all) __tsan_destroy_fiber(fiber.sanitizer);
#endif
}

bool Schedule::run(std::uint32_t num, const std::function<void(std::uint32_t)>& body,
                   const Choose& choose) {
  Fibers& self = *fibers_;
  for (std::uint32_t i = 0; i < num; ++i) self.all[i].rewind();
  self.num = self.num_running = num;
  self.num_waits = 0;
  self.body = &body;
  self.choose = &choose;
  self.now = num == 1 ? 0 : choose(num, true);
  RacePoint::context = &self;
  RacePoint::passed = Fibers::passed;
  RacePoint::on_fibers = true;
  self.main.go_on_with(self.all[self.now]);
  RacePoint::on_fibers = false;
  RacePoint::passed = nullptr;
  return self.num_running == 0;
}

}  // namespace kvproof::properties::concurrency
