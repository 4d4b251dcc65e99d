// SPDX-License-Identifier: Apache-2.0
#include "reference/support/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "reference/support/sanitizer.h"

#if defined(KVPROOF_BOOST_CONTEXT)
#include <boost/context/detail/fcontext.hpp>
#else
#include <ucontext.h>
#endif
#if KVPROOF_UNDER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if KVPROOF_UNDER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace kvproof {
namespace {

#if KVPROOF_UNDER_ASAN || KVPROOF_UNDER_TSAN
constexpr std::size_t kStackBytes = 256 << 10;  // instrumented frames are several times larger
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif

}  // namespace

struct Fiber::State {
  void* stack = nullptr;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  bool ended = true;
  unsigned unordered = 1;  // what the sanitizer is told of a switch
#if defined(KVPROOF_BOOST_CONTEXT)
  boost::context::detail::fcontext_t inside = nullptr, outside = nullptr;
#else
  ucontext_t inside{}, outside{};
#endif
#if KVPROOF_UNDER_ASAN
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_bytes = 0;
#endif
#if KVPROOF_UNDER_TSAN
  void* fiber = nullptr;
  void* resumer = nullptr;
#endif

  /// The body was left in the middle: what the sanitizers know of its stack is no longer true.
  void forget() {
#if KVPROOF_UNDER_ASAN
    __asan_unpoison_memory_region(static_cast<char*>(stack) + 4096, kStackBytes - 4096);
#endif
#if KVPROOF_UNDER_TSAN
    __tsan_destroy_fiber(fiber);
    fiber = __tsan_create_fiber(0);
#endif
  }

  void arrived_inside() {
#if KVPROOF_UNDER_ASAN
    __sanitizer_finish_switch_fiber(fake_inside, &outer_stack, &outer_bytes);
#endif
  }

  void leave(bool forever) {
    static_cast<void>(forever);
#if KVPROOF_UNDER_ASAN
    __sanitizer_start_switch_fiber(forever ? nullptr : &fake_inside, outer_stack, outer_bytes);
#endif
#if KVPROOF_UNDER_TSAN
    __tsan_switch_to_fiber(resumer, unordered);
#endif
#if defined(KVPROOF_BOOST_CONTEXT)
    outside = boost::context::detail::jump_fcontext(outside, this).fctx;
#else
    swapcontext(&inside, &outside);
#endif
    arrived_inside();
  }

  [[noreturn]] void live() {
    arrived_inside();
    body(argument);
    ended = true;
    leave(true);
    __builtin_unreachable();
  }

#if defined(KVPROOF_BOOST_CONTEXT)
  static void enter(boost::context::detail::transfer_t from) {
    State& self = *static_cast<State*>(from.data);
    self.outside = from.fctx;
    self.live();
  }
#else
  static void enter(unsigned high, unsigned low) {  // makecontext hands over ints only
    reinterpret_cast<State*>((std::uintptr_t{high} << 32) | low)->live();
  }
#endif
};

Fiber::Fiber(bool ordered) : state_(std::make_unique<State>()) {
  state_->unordered = ordered ? 0 : 1;
  state_->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (state_->stack == MAP_FAILED) throw std::bad_alloc();
  // The lowest page is protected: it catches an overflow of the stack.
  mprotect(state_->stack, 4096, PROT_NONE);
#if KVPROOF_UNDER_TSAN
  state_->fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if KVPROOF_UNDER_TSAN
  __tsan_destroy_fiber(state_->fiber);
#endif
  munmap(state_->stack, kStackBytes);
}

void Fiber::start(void (*body)(void*), void* argument) {
  State& s = *state_;
  if (!s.ended) s.forget();
  s.body = body;
  s.argument = argument;
  s.ended = false;
#if KVPROOF_UNDER_ASAN
  s.fake_inside = nullptr;
#endif
#if defined(KVPROOF_BOOST_CONTEXT)
  s.inside = boost::context::detail::make_fcontext(static_cast<char*>(s.stack) + kStackBytes,
                                                   kStackBytes - 4096, &State::enter);
#else
  getcontext(&s.inside);
  s.inside.uc_stack.ss_sp = s.stack;
  s.inside.uc_stack.ss_size = kStackBytes;
  s.inside.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(&s);
  makecontext(&s.inside, reinterpret_cast<void (*)()>(&State::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
}

void Fiber::resume() {
  State& s = *state_;
#if KVPROOF_UNDER_ASAN
  __sanitizer_start_switch_fiber(&s.fake_outside, static_cast<char*>(s.stack), kStackBytes);
#endif
#if KVPROOF_UNDER_TSAN
  s.resumer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(s.fiber, s.unordered);
#endif
#if defined(KVPROOF_BOOST_CONTEXT)
  s.inside = boost::context::detail::jump_fcontext(s.inside, &s).fctx;
#else
  swapcontext(&s.outside, &s.inside);
#endif
#if KVPROOF_UNDER_ASAN
  __sanitizer_finish_switch_fiber(s.fake_outside, nullptr, nullptr);
#endif
}

void Fiber::pause() { state_->leave(false); }

bool Fiber::ended() const { return state_->ended; }

const char* Fiber::kind() {
#if defined(KVPROOF_BOOST_CONTEXT)
  return "Boost.Context";
#else
  return "ucontext";
#endif
}

}  // namespace kvproof
