// SPDX-License-Identifier: Apache-2.0
// Delta debugging over operations and their fields, and the trace file of the result.
#include "properties/audit/shrink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "reference/operations.h"
#include "reference/recordings/newer_policies.h"
#include "reference/support/command_words.h"
#include "reference/support/interrupt.h"
#include "reference/trace_json.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

using Trace = std::vector<Operation>;

class Shrinker {
 public:
  Shrinker(const MakeSubject& make, const Failure& failure, Oracles oracles)
      : make_(make), oracles_(oracles), best_(failure), law_(failure.breaches.front()) {}

  Failure run() {
    bool smaller = true;
    while (smaller && runs_ < kMostRuns) {
      smaller = drop_owners();
      smaller |= drop_chunks();
      if (!smaller) smaller = drop_pairs();
      smaller |= simplify_fields();
    }
    return best_;
  }

 private:
  static constexpr int kMostRuns = 20000;
  static constexpr std::size_t kFewOperations = 60;  // pairs are tried only among so few

  // A candidate is taken if the same law fails. Operations behind the failing one are cut off.
  bool try_trace(const Trace& candidate) {
    if (candidate.empty() || ++runs_ > kMostRuns) return false;
    auto failure = run_trace(make_, best_.config, candidate, oracles_);
    if (!failure || failure->breaches.front() != law_) return false;
    best_ = std::move(*failure);
    return true;
  }

  static bool is_raw(const Operation& o) {
    return std::holds_alternative<op::Take>(o) || std::holds_alternative<op::Touch>(o) ||
           std::holds_alternative<op::Release>(o);
  }

  // The lease or the transfer that an operation names, or the child of a fork.
  static std::string second_name(const Operation& operation) {
    return std::visit(
        [](const auto& o) -> std::string {
          if constexpr (requires { o.lease; }) return "lease " + o.lease;
          if constexpr (requires { o.transfer; }) return "transfer " + o.transfer;
          if constexpr (requires { o.child; }) return o.child;
          return {};
        },
        operation);
  }

  // All operations of one request, lease or transfer, or of the raw owner.
  bool drop_owners() {
    std::vector<std::string> names;
    for (const Operation& operation : best_.trace) {
      for (const std::string& name : {request_of(operation), second_name(operation)}) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
    bool dropped = false;
    for (const std::string& name : names) {
      Trace candidate = best_.trace;
      std::erase_if(candidate, [&](const Operation& o) {
        return name.empty() ? is_raw(o) : request_of(o) == name || second_name(o) == name;
      });
      if (candidate.size() < best_.trace.size()) dropped |= try_trace(candidate);
    }
    return dropped;
  }

  // Removes pairs that must go together, like a take and the release of its blocks.
  bool drop_pairs() {
    bool dropped = false;
    for (std::size_t i = 0; i + 1 < best_.trace.size() && best_.trace.size() <= kFewOperations;
         ++i) {
      for (std::size_t j = i + 1; j < best_.trace.size(); ++j) {
        Trace candidate = best_.trace;
        candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(j));
        candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(i));
        if (!try_trace(candidate)) continue;
        dropped = true;
        j = i;
      }
    }
    return dropped;
  }

  bool drop_chunks() {
    bool dropped = false;
    for (std::size_t chunk = std::max<std::size_t>(best_.trace.size() / 2, 1); chunk > 0;
         chunk /= 2) {
      for (std::size_t from = 0; from < best_.trace.size();) {
        const std::size_t to = std::min(from + chunk, best_.trace.size());
        Trace candidate = best_.trace;
        candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(from),
                        candidate.begin() + static_cast<std::ptrdiff_t>(to));
        const bool fails = try_trace(candidate);
        dropped |= fails;
        if (!fails) from += chunk;
      }
    }
    return dropped;
  }

  bool simplify_fields() {
    bool simpler = false;
    for (std::size_t i = 0; i < best_.trace.size(); ++i) {
      bool again = true;
      while (again && i < best_.trace.size()) {
        again = false;
        for (Operation& variant : variants(best_.trace[i])) {
          Trace candidate = best_.trace;
          candidate[i] = std::move(variant);
          again = try_trace(candidate);
          if (again) break;
        }
        simpler |= again;
      }
    }
    return simpler;
  }

  // Each variant is strictly simpler than the operation, so that simplifying ends.
  static std::vector<Operation> variants(const Operation& operation) {
    std::vector<Operation> out;
    std::visit([&out](const auto& o) { simplify(o, out); }, operation);
    return out;
  }

  template <class Op>
  static void simplify(const Op& o, std::vector<Operation>& out) {
    const auto with = [&](const auto& change) {
      Op copy = o;
      change(copy);
      if (copy != o) out.emplace_back(std::move(copy));
    };
    if constexpr (requires { o.blocks; }) shorten(o, &Op::blocks, out);
    if constexpr (requires {
                    o.req;
                    o.tokens.size();
                  }) {
      shorten(o, &Op::tokens, out);
    }
    if constexpr (std::is_same_v<Op, op::Arrive>) {
      with([](Op& x) { x.extra = {}; });
      with([](Op& x) { x.extra.mm.clear(); });
      for (const auto field : {&ExtraKeys::lora, &ExtraKeys::salt, &ExtraKeys::layout}) {
        with([&](Op& x) { (x.extra.*field).clear(); });
      }
      with([](Op& x) { x.extra.embeds.clear(); });
      with([](Op& x) { x.encoder_tokens /= 2; });
      with([](Op& x) { x.skip_lookup = false; });
    } else if constexpr (std::is_same_v<Op, op::Allocate>) {
      for (const auto field : {&AllocateArgs::lookahead, &AllocateArgs::external,
                               &AllocateArgs::reserved, &AllocateArgs::in_flight}) {
        with([&](Op& x) { x.args.*field = 0; });
      }
      for (const auto flag :
           {&AllocateArgs::use_lookup, &AllocateArgs::delay_cache,
            &AllocateArgs::full_sequence_must_fit, &AllocateArgs::has_scheduled}) {
        with([&](Op& x) { x.args.*flag = false; });
      }
      with([](Op& x) { x.args.new_tokens /= 2; });
      with([](Op& x) { x.args.new_tokens -= x.args.new_tokens > 0 ? 1 : 0; });
    } else if constexpr (std::is_same_v<Op, op::Take>) {
      with([](Op& x) { x.n /= 2; });
      with([](Op& x) { x.n -= x.n > 0 ? 1 : 0; });
    } else if constexpr (std::is_same_v<Op, op::Complete>) {
      with([](Op& x) { x.ok = true; });
    } else if constexpr (std::is_same_v<Op, op::Recycle>) {
      with([](Op& x) { x.processed /= 2; });
    } else if constexpr (std::is_same_v<Op, op::Decode>) {
      for (std::ptrdiff_t i = 0; i < std::ssize(o.reqs) && i < std::ssize(o.tokens); ++i) {
        with([i](Op& x) {
          x.reqs.erase(x.reqs.begin() + i);
          x.tokens.erase(x.tokens.begin() + i);
        });
      }
    }
    if constexpr (requires(Op & x) { std::ranges::fill(x.tokens, 0); }) {
      with([](Op& x) { std::ranges::fill(x.tokens, 0); });
    }
  }

  template <class Op, class Item>
  static void shorten(const Op& original, std::vector<Item> Op::*list,
                      std::vector<Operation>& out) {
    const std::size_t n = (original.*list).size();
    if (n == 0) return;
    for (std::size_t keep : {n / 2, n - 1}) {
      Op copy = original;
      (copy.*list).resize(keep);
      out.emplace_back(std::move(copy));
    }
    if (n > 8) return;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      Op copy = original;
      (copy.*list).erase((copy.*list).begin() + static_cast<std::ptrdiff_t>(i));
      out.emplace_back(std::move(copy));
    }
  }

  const MakeSubject& make_;
  Oracles oracles_;
  Failure best_;
  std::string law_;
  int runs_ = 0;
};

}  // namespace

Failure shrink(const MakeSubject& make, const Failure& failure, Oracles oracles) {
  return Shrinker(make, failure, oracles).run();
}

namespace {

/// One group as "sliding_window of 4 tokens, window 6".
std::string describe(const GroupConfig& group) {
  std::string out = say(kKindNames[static_cast<std::size_t>(group.kind)], " in blocks of ",
                        group.block_size, " tokens");
  if (group.window > 0) out += say(", window ", group.window);
  if (group.kind == LayerKind::chunked_local) out += say(", chunk ", group.chunk);
  if (group.kind == LayerKind::mamba) {
    out += say(", mode ", kModeNames[static_cast<std::size_t>(group.mode)], ", ",
               group.speculative_blocks, " speculative blocks");
  }
  if (group.checkpoint_alignment > 0) out += say(", checkpoints at ", group.checkpoint_alignment);
  return out + (group.eagle ? ", eagle" : "");
}

std::string text_of(const Failure& failure, std::uint64_t seed) {
  TraceHeader header;
  header.recorded_from = "kvproof";
  header.family = "failure";
  header.seed = seed;
  header.name = failure.breaches.front();
  header.subject = failure.subject;
  header.newer_policies = newer_policies_of(failure.config.profile);
  header.config = failure.config;
  std::string out = to_json(header) + '\n';
  for (const Operation& operation : failure.trace) out += to_json(operation) + '\n';
  return out + end_line(failure.trace.size()) + '\n';
}

constexpr const char* kWhat = "the failing trace";

/// The first name that no other trace has.
std::filesystem::path free_name(const std::string& text, std::uint64_t seed,
                                const std::filesystem::path& folder) {
  for (int n = 1;; ++n) {
    const std::string number = n > 1 ? say("-", n) : "";
    const auto file = folder / say("kvproof-failure-", seed, number, ".jsonl");
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) return file;
    std::ifstream in(file, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(in), {}) == text) return file;
  }
}

}  // namespace

void write_whole(const std::string& text, const std::filesystem::path& file, const char* what) {
  const Temporary unfinished(std::filesystem::absolute(file.string() + ".unfinished"));
  errno = 0;
  std::ofstream out(unfinished.path(), std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(unfinished.path(), file, error);
  if (out && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno != 0 ? errno : EIO);
  throw std::runtime_error(say(file.string(), ": ", what, " cannot be written: ", reason));
}

std::filesystem::path write_failure(const Failure& failure, std::uint64_t seed,
                                    const std::filesystem::path& folder) {
  const auto file = folder / say("kvproof-failure-", seed, ".jsonl");
  write_whole(text_of(failure, seed), file, kWhat);
  return file;
}

std::filesystem::path write_new_failure(const Failure& failure, std::uint64_t seed,
                                        const std::filesystem::path& folder) {
  const std::string text = text_of(failure, seed);
  const auto file = free_name(text, seed, folder);
  write_whole(text, file, kWhat);
  return file;
}

std::string replay_command(const std::filesystem::path& trace, const std::string& options) {
  return kvproof_command(
      say("replay ", options.empty() ? "" : options + " ", shell_word(trace.string())));
}

std::string describe_trace(const Failure& failure) {
  const CacheConfig& config = failure.config;
  std::string out = say(config.profile.name, ", ", config.num_blocks - 1,
                        " usable blocks, caching ", config.enable_caching ? "on" : "off");
  if (config.num_host_blocks > 0) out += say(", ", config.num_host_blocks - 1, " in the host tier");
  if (config.retention) out += say(", retention ", *config.retention);
  if (config.hash_lookahead > 0) out += say(", hash lookahead ", config.hash_lookahead);
  for (const GroupConfig& group : config.groups) out += "; " + describe(group);
  out += say("; ", failure.trace.size(), " operations:\n");
  for (const Operation& operation : failure.trace) out += "  " + to_json(operation) + "\n";
  return out;
}

std::string describe_failure(const Failure& failure, std::uint64_t seed,
                             const std::filesystem::path& file, const std::string& options) {
  const std::string out = say("seed ", seed, ", broken: ", joined(failure.breaches, ", "), "\n",
                              failure.text, "\n", describe_trace(failure));
  if (file.empty()) return out;
  return out + say("run it again: ", replay_command(file, options), "\n");
}

}  // namespace kvproof::properties
