// SPDX-License-Identifier: Apache-2.0
// The decode steps of a batch in lockstep: what one token costs through the whole cache manager.
//
// Workload: a warm and full pool of 65,536 blocks of 16 tokens, and a batch of requests that all
//           get one token in each step. Requests start at different places within a block, so that
//           a sixteenth of them completes a block in each step, and another sixteenth takes one,
//           which evicts content. Measured are whole steps, by one call or by three calls for each
//           request, with all of their block ends and hashes.
//
// The suite decode_step. One result per number of live requests and way of calling: "ns_per_token",
// "hash_alone_ns_per_token", "ratio_to_hash_alone", "cold_ns_per_token" (single steps, each after a
// walk over 64 MB), "instructions_per_token", "hash_alone_instructions_per_token" (both where
// valgrind is installed), counts and a checksum. By one call also, interleaved with it, the same
// steps in Python: "textbook_ns_per_token" and, where vLLM is installed, "vllm_ns_per_token", the
// slots and keys of a step of its scheduler; and how many times as long they take.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/allocator/in_python/worker.h"
#include "bench/instruments/callgrind.h"
#include "bench/instruments/latency.h"
#include "bench/results/suite.h"
#include "bench/suites.h"
#include "optimized/cache_manager.h"

namespace kvproof::bench {
namespace {

using StepClock = std::chrono::steady_clock;

constexpr std::uint32_t kStepBlock = 16;       // [tokens]
constexpr std::uint32_t kStepPrompt = 256;     // [tokens] of the shortest prompt
constexpr std::uint32_t kStepsPerEpoch = 256;  // decode steps of a request
constexpr std::uint32_t kStepsPerRound = 64;   // between two readings of the clock
constexpr std::uint32_t kCountedSteps = 128;   // under callgrind
constexpr std::uint32_t kStepPoolBlocks = 65'536;
constexpr std::uint32_t kSmokePoolBlocks = 1024;
constexpr std::uint32_t kPythonRounds = 8;
constexpr std::uint32_t kPythonSteps = kStepBlock;  // of a round: a block ends for each request

enum class Calls { one, three };

struct StepCase {
  const char* name;
  std::uint32_t live_requests;
  Calls calls;
  bool smoke = false;
};

constexpr StepCase kStepCases[] = {
    {"one_128", 128, Calls::one},       {"three_128", 128, Calls::three},
    {"one_1024", 1024, Calls::one},     {"three_1024", 1024, Calls::three},
    {"one_smoke", 8, Calls::one, true}, {"three_smoke", 8, Calls::three, true}};

std::string step_case_name(const StepCase& c) { return "decode_step/" + std::string(c.name); }

/// A batch that decodes in lockstep, and the manager below it. An epoch is a batch from arrival to
/// its last step.
class LockStep {
 public:
  using Manager = optimized::CacheManager<optimized::Xxh3Digest>;

  LockStep(const StepCase& c, std::uint64_t seed)
      : calls_(c.calls),
        random_(seed),
        prompts_(std::size_t{c.live_requests} * (kStepPrompt + kStepBlock)),
        outputs_(std::size_t{c.live_requests} * kStepsPerEpoch),
        ids_(c.live_requests),
        manager_(config(c), {.max_requests = c.live_requests}, seed),
        hasher_(kStepBlock, seed) {}

  /// Ends the batch and starts the next one: prompts end at every place within a block.
  void start_epoch() {
    for (const RequestId id : std::span(ids_).first(started_ ? ids_.size() : 0)) {
      manager_.finish(id);
    }
    started_ = true;
    step_ = 0;
    for (auto* tokens : {&prompts_, &outputs_}) {
      for (TokenId& token : *tokens) token = static_cast<TokenId>(random_() & 0x1ffff);
    }
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const auto length = static_cast<std::uint32_t>(kStepPrompt + i % kStepBlock);
      const auto prompt = std::span(prompts_).subspan(i * (kStepPrompt + kStepBlock), length);
      ids_[i] = manager_.arrive({.tokens = prompt});
      if (!manager_.allocate(ids_[i], {.new_tokens = length})) refuse();
      manager_.advance(ids_[i], length);
    }
  }
  [[nodiscard]] bool epoch_is_over() const { return step_ == kStepsPerEpoch; }

  /// The timed part.
  [[gnu::noinline]] void run_steps(std::uint32_t steps) {
    for (std::uint32_t step = 0; step < steps; ++step) {
      calls_ == Calls::one ? step_by_one_call() : step_by_three_calls();
    }
  }
  /// The same steps, which callgrind is not told to count.
  void warm_up_steps(std::uint32_t steps) {
    while (steps-- > 0) calls_ == Calls::one ? step_by_one_call() : step_by_three_calls();
  }

  /// The floor: as many hashes as so many steps ask for, and nothing else.
  [[gnu::noinline]] void hash_steps(std::uint32_t steps) {
    const std::size_t units = ids_.size() * steps / kStepBlock;
    optimized::Key128 keys[] = {hasher_.root(), {}};
    for (std::size_t unit = 0; unit < units; ++unit) {
      hasher_.hash_next(outputs_.data() + unit * kStepBlock, 0, &keys[1]);
      hash_checksum_ += keys[1].words[0];
    }
  }

  [[nodiscard]] const Manager& manager() const { return manager_; }
  [[nodiscard]] Calls calls() const { return calls_; }
  [[nodiscard]] std::uint32_t blocks_per_epoch() const {
    return static_cast<std::uint32_t>(ids_.size()) * (kStepPrompt + kStepsPerEpoch) / kStepBlock;
  }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// Over the tokens, the hashes and the tables of the batch.
  [[nodiscard]] std::uint64_t checksum() const {
    std::uint64_t sum = 0;
    for (const RequestId id : ids_) {
      for (const BlockId block : manager_.table(id)) sum = sum * 31 + block;
      for (const auto& key : manager_.hashes(id)) sum = sum * 31 + key.words[0];
      sum = sum * 31 + static_cast<std::uint64_t>(manager_.tokens(id).back());
    }
    return sum;
  }
  [[nodiscard]] std::uint64_t hash_checksum() const { return hash_checksum_; }

 private:
  static CacheConfig config(const StepCase& c) {
    CacheConfig out;
    out.profile = *find_profile("vllm-0.24");
    out.num_blocks = c.smoke ? kSmokePoolBlocks : kStepPoolBlocks;
    out.max_model_len = kStepPrompt + kStepBlock + kStepsPerEpoch;
    out.hash_block_size = kStepBlock;
    out.groups = {{.block_size = kStepBlock}};
    return out;
  }
  [[noreturn]] static void refuse() { throw std::logic_error("decode step: a step was refused"); }

  [[nodiscard]] std::span<const TokenId> next_tokens() {
    return std::span(outputs_).subspan(step_++ * ids_.size(), ids_.size());
  }
  void step_by_one_call() {
    const optimized::DecodeGrant done = manager_.decode(ids_, next_tokens());
    if (!done.refused.empty()) refuse();
    taken_ += done.taken.size();
  }
  void step_by_three_calls() {
    static constexpr AllocateArgs kOneToken = {.new_tokens = 1, .status = RequestStatus::running};
    const auto tokens = next_tokens();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const RequestId id = ids_[i];
      manager_.append(id, tokens.subspan(i, 1));
      const auto admission = manager_.allocate(id, kOneToken);
      if (!admission) refuse();
      taken_ += *admission;
      manager_.advance(id, manager_.computed(id) + 1);
    }
  }

  Calls calls_;
  std::mt19937_64 random_;
  std::vector<TokenId> prompts_;  // shape [requests, kStepPrompt + kStepBlock]
  std::vector<TokenId> outputs_;  // shape [steps, requests]
  std::vector<RequestId> ids_;    // shape [requests]
  Manager manager_;
  optimized::ChainHasher<optimized::Xxh3Digest> hasher_;
  std::uint32_t step_ = 0;
  bool started_ = false;
  std::uint64_t taken_ = 0;  // [blocks] by decode steps
  std::uint64_t hash_checksum_ = 0;
};

void start_warm(LockStep& batch) {
  const std::uint32_t per_epoch = batch.blocks_per_epoch();
  for (std::uint32_t used = 0; used < 2 * kStepPoolBlocks + per_epoch; used += per_epoch) {
    batch.start_epoch();
    batch.warm_up_steps(kStepsPerEpoch);
  }
}

/// Decode steps of a batch in lockstep by an allocator in Python: the textbook allocator, or that
/// of an installed vLLM.
class PythonSteps {
 public:
  /// The engines that are here, each as `textbook` or `vllm`. vLLM is that of python3, or of the
  /// program that KVPROOF_VLLM_PYTHON names, and is driven only from a checkout.
  [[nodiscard]] static std::vector<std::string> engines(const BenchOptions& options);

  /// Starts the batch on a warm pool. @throws ChildTrouble where it cannot
  PythonSteps(std::string engine, std::uint32_t live_requests, std::uint32_t num_blocks,
              const BenchOptions& options);

  [[nodiscard]] const std::string& engine() const { return engine_; }
  /// @return the time of a token [ns]. @throws std::logic_error if they did not do their work
  double run_steps(std::uint32_t steps);

 private:
  std::string engine_;
  std::uint32_t live_requests_;
  TextbookProcess process_;
};

std::filesystem::path steps_script(const BenchOptions& options) {
  return options.self.parent_path() / "in_python" / "decode_steps.py";
}

/// The adapter of vLLM, in the checkout to which the build belongs.
std::filesystem::path adapter_folder(const BenchOptions& options) {
  return options.self.parent_path() / "../../../properties/engines/allocators";
}

std::string python_of(const std::string& engine) {
  const char* const named = engine == "vllm" ? std::getenv("KVPROOF_VLLM_PYTHON") : nullptr;
  return named != nullptr ? named : "python3";
}

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

std::vector<std::string> PythonSteps::engines(const BenchOptions& options) {
  std::vector<std::string> out;
  if (!std::filesystem::exists(steps_script(options))) return out;
  if (runs("command -v python3")) out.emplace_back("textbook");
  const bool adapter = std::filesystem::exists(adapter_folder(options) / "vllm_manager.py");
  const std::string asks =
      " -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(\"vllm\"))'";
  if (adapter && runs("'" + python_of("vllm") + "'" + asks)) out.emplace_back("vllm");
  return out;
}

PythonSteps::PythonSteps(std::string engine, std::uint32_t live_requests, std::uint32_t num_blocks,
                         const BenchOptions& options)
    : engine_(std::move(engine)),
      live_requests_(live_requests),
      process_({"sh", "-c", R"(PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$1" -B "$2")",
                adapter_folder(options).string(), python_of(engine_),
                steps_script(options).string()}) {
  process_.ask(engine_ + " " + std::to_string(live_requests) + " " + std::to_string(num_blocks) +
               " " + std::to_string(options.seed));
}

double PythonSteps::run_steps(std::uint32_t steps) {
  const TextbookAnswer answer = process_.ask("steps " + std::to_string(steps));
  const std::uint64_t tokens = std::uint64_t{live_requests_} * steps;
  if (number(answer, "taken") != tokens / kStepBlock) {
    throw std::logic_error("decode step: " + engine_ + " took other blocks than its tokens need");
  }
  return static_cast<double>(number(answer, "ns")) / static_cast<double>(tokens);
}

/// An engine in Python, and how many times as long as ours it took in each round.
struct PythonTimes {
  std::unique_ptr<PythonSteps> steps;
  std::vector<double> ns, ratio;
};

/// Rounds of both ways of calling a batch and of the hash alone, interleaved.
struct StepTimes {
  std::vector<double> one, three, hash;  // [ns per token]
  std::vector<double> one_cold, three_cold;
  std::vector<PythonTimes> python;
  std::uint64_t checksum = 0;
};

StepTimes time_steps(const StepCase& c, const BenchOptions& options) {
  const std::uint32_t rounds = options.smoke ? 8 : 200;
  LockStep batches[] = {{{c.name, c.live_requests, Calls::one, c.smoke}, options.seed},
                        {{c.name, c.live_requests, Calls::three, c.smoke}, options.seed}};
  for (LockStep& batch : batches) start_warm(batch);
  const auto evicted = [&](const LockStep& batch) { return batch.manager().counters().evictions; };
  const auto nanoseconds_of = [&](const auto& run) {
    const auto start = StepClock::now();
    run();
    return std::chrono::duration<double, std::nano>(StepClock::now() - start).count() /
           kStepsPerRound / c.live_requests;
  };
  StepTimes out;
  for (const std::string& engine : PythonSteps::engines(options)) {
    const std::uint32_t blocks = c.smoke ? kSmokePoolBlocks : kStepPoolBlocks;
    out.python.push_back(
        {std::make_unique<PythonSteps>(engine, c.live_requests, blocks, options), {}, {}});
  }
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (LockStep& batch : batches) {
      if (batch.epoch_is_over()) batch.start_epoch();
      const std::uint64_t taken = batch.taken();
      const std::uint64_t before = evicted(batch);
      auto& times = batch.calls() == Calls::one ? out.one : out.three;
      times.push_back(nanoseconds_of([&] { batch.run_steps(kStepsPerRound); }));
      const std::uint64_t blocks = c.live_requests * kStepsPerRound / kStepBlock;
      if (batch.taken() - taken != blocks || evicted(batch) - before != blocks) {
        throw std::logic_error("decode step: a warm pool evicts one block for each that ends");
      }
    }
    out.hash.push_back(nanoseconds_of([&] { batches[0].hash_steps(kStepsPerRound); }));
    for (PythonTimes& other : out.python) {
      if (round % (rounds / kPythonRounds) != 0) continue;
      other.ns.push_back(other.steps->run_steps(kPythonSteps));
      other.ratio.push_back(other.ns.back() / out.one.back());
    }
  }
  std::vector<char> other_work(c.smoke ? 1U << 10 : 64U << 20);
  for (std::uint32_t step = 0; step < kStepsPerRound; ++step) {
    for (LockStep& batch : batches) {
      if (batch.epoch_is_over()) batch.start_epoch();
      for (std::size_t i = 0; i < other_work.size(); i += 64) ++other_work[i];
      auto& times = batch.calls() == Calls::one ? out.one_cold : out.three_cold;
      times.push_back(nanoseconds_of([&] { batch.run_steps(1); }) * kStepsPerRound);
    }
  }
  out.checksum = batches[0].checksum();
  if (out.checksum != batches[1].checksum()) {
    throw std::logic_error("decode step: one call and three calls come to different tables");
  }
  out.checksum += batches[0].hash_checksum();
  return out;
}

/// Instructions per token inside the functions that the pattern names.
std::optional<double> counted(const StepCase& c, const BenchOptions& options, const char* inside) {
  std::optional<CallgrindCounts> counts;
  run_callgrind({.argv = {options.self.string(), "--count-decode-step=" + std::string(c.name),
                          "--seed=" + std::to_string(options.seed)}},
                inside, false, temporary_folder(), counts);
  if (!counts) return std::nullopt;
  return static_cast<double>(counts->instructions) / kCountedSteps / c.live_requests;
}

Result result_of(const StepCase& c, const StepTimes& times) {
  Result out;
  out.experiment = "decode_step";
  out.parameters = {{"case", std::string(c.name)},
                    {"calls", std::string(c.calls == Calls::one ? "one" : "three")},
                    {"live_requests", std::int64_t{c.live_requests}},
                    {"block_size", std::int64_t{kStepBlock}}};
  const std::vector<double>& own = c.calls == Calls::one ? times.one : times.three;
  out.metrics.emplace_back("ns_per_token", metric_of(own, "ns"));
  out.metrics.emplace_back("hash_alone_ns_per_token", metric_of(times.hash, "ns"));
  out.metrics.emplace_back("ratio_to_hash_alone", metric_of(ratios(own, times.hash), "ratio"));
  out.metrics.emplace_back("ratio_to_three_calls", metric_of(ratios(own, times.three), "ratio"));
  out.metrics.emplace_back(
      "cold_ns_per_token",
      metric_of(c.calls == Calls::one ? times.one_cold : times.three_cold, "ns"));
  for (const PythonTimes& other : times.python) {
    if (c.calls != Calls::one) break;
    const std::string& engine = other.steps->engine();
    out.metrics.emplace_back(engine + "_ns_per_token", metric_of(other.ns, "ns"));
    out.metrics.emplace_back(engine + "_times_as_long", metric_of(other.ratio, "ratio"));
  }
  out.metrics.emplace_back("tokens", count(own.size() * kStepsPerRound * c.live_requests));
  out.metrics.emplace_back("checksum", count(times.checksum & 0xffffffffU));
  return out;
}

bool belongs(const StepCase& c, const BenchOptions& options) { return c.smoke == options.smoke; }

}  // namespace

std::vector<std::string> decode_step_cases(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const StepCase& c : kStepCases) {
    if (belongs(c, options)) names.push_back(step_case_name(c));
  }
  return names;
}

std::vector<Result> run_decode_step_suite(std::span<const std::string> selected,
                                          const BenchOptions& options) {
  std::vector<Result> out;
  std::uint32_t timed_requests = 0;
  StepTimes times;             // of a batch of so many requests
  std::optional<double> hash;  // [instructions per token], the same for every batch
  for (const StepCase& c : kStepCases) {
    const std::string name = step_case_name(c);
    if (!belongs(c, options) || std::ranges::find(selected, name) == selected.end()) continue;
    options.progress->update(static_cast<double>(out.size()) / static_cast<double>(selected.size()),
                             name);
    if (c.live_requests != timed_requests) {
      times = time_steps(c, options);
      timed_requests = c.live_requests;
    }
    out.push_back(result_of(c, times));
    if (options.smoke) continue;
    const auto put = [&](const char* column, const std::optional<double>& counts) {
      if (counts) out.back().metrics.emplace_back(column, metric(*counts, "instructions"));
    };
    put("instructions_per_token", counted(c, options, "*LockStep::run_steps*"));
    if (!hash) hash = counted(c, options, "*LockStep::hash_steps*");
    put("hash_alone_instructions_per_token", hash);
  }
  return out;
}

int count_decode_step(const std::string& name, std::uint64_t seed) {
  for (const StepCase& c : kStepCases) {
    if (name != c.name) continue;
    LockStep batch(c, seed);
    start_warm(batch);
    batch.start_epoch();
    batch.run_steps(kCountedSteps);
    batch.hash_steps(kCountedSteps);
    return 0;
  }
  return 2;
}

}  // namespace kvproof::bench
