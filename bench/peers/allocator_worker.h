// SPDX-License-Identifier: Apache-2.0
// An allocator in C++ behind the lines of allocator_rounds.py, which says what each asks for; the
// traffic is the same, token for token.
#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvproof::bench {

inline constexpr std::uint32_t kBlockSize = 16, kPrompt = 1024, kPrefix = 512, kOutput = 256;

using Tokens = std::vector<std::int32_t>;

/// Tokens by their number, as the class of the same name in Python makes them.
class Traffic {
 public:
  Traffic(std::uint64_t seed, std::uint32_t num_prefixes) : seed_(seed) {
    for (std::uint32_t i = 0; i < num_prefixes; ++i) prefixes_.push_back(fresh(kPrefix));
  }

  Tokens fresh(std::uint32_t count) {
    Tokens out(count);
    for (std::int32_t& token : out) token = static_cast<std::int32_t>(number() & 0x1ffffU);
    return out;
  }
  Tokens prompt() {
    Tokens out = prefixes_[number() % prefixes_.size()];
    const Tokens rest = fresh(kPrompt - kPrefix);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }

 private:
  std::uint64_t number() {
    std::uint64_t x = next_++ * 0x9E3779B97F4A7C15U + seed_;
    x = (x ^ (x >> 29U)) * 0xBF58476D1CE4E5B9U;
    return x ^ (x >> 32U);
  }

  std::uint64_t seed_, next_ = 0;
  std::vector<Tokens> prefixes_;
};

/// @tparam Engine has Request; admit(prompt), which gives it and the tokens of the whole blocks
/// that were found; step(requests, tokens); finish(request); held(request) [blocks]
template <class Engine>
class Worker {
 public:
  using Request = typename Engine::Request;

  Worker(std::uint32_t num_blocks, std::uint32_t live, std::uint32_t prefixes, std::uint64_t seed)
      : traffic_(seed, prefixes), live_(live), engine_(num_blocks, live) {
    for (std::uint32_t done = 0; done < 4 * num_blocks / (kPrompt / kBlockSize); done += live)
      life();
  }

  /// @return the words of the answer
  std::string perform(const std::string& command, std::uint32_t count) {
    hits_ = taken_ = 0;
    const std::int64_t ns = command == "life"    ? life()
                            : command == "steps" ? steps(count)
                                                 : hit(count);
    return "ns=" + std::to_string(ns) + " hits=" + std::to_string(hits_) +
           " taken=" + std::to_string(taken_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::int64_t since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }

  Request admit(const Tokens& prompt) {
    auto [request, found] = engine_.admit(prompt);
    hits_ += found;
    return std::move(request);
  }

  [[nodiscard]] std::uint64_t held() const {
    std::uint64_t blocks = 0;
    for (const Request& request : running_) blocks += engine_.held(request);
    return blocks;
  }

  void finish_all() {
    for (const Request& request : running_) engine_.finish(request);
    running_.clear();
  }

  std::int64_t life() {
    std::vector<Tokens> prompts, outputs;
    for (std::uint32_t i = 0; i < live_; ++i) prompts.push_back(traffic_.prompt());
    for (std::uint32_t i = 0; i < kOutput; ++i) outputs.push_back(traffic_.fresh(live_));
    std::vector<Request> next;
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < live_; ++i) {
      if (!running_.empty()) engine_.finish(running_[i]);
      next.push_back(admit(prompts[i]));
    }
    running_ = std::move(next);
    for (const Tokens& tokens : outputs) engine_.step(running_, tokens);
    const std::int64_t ns = since(start);
    taken_ = held() - hits_ / kBlockSize;
    return ns;
  }

  std::int64_t steps(std::uint32_t count) {
    finish_all();
    for (std::uint32_t i = 0; i < live_; ++i)
      running_.push_back(admit(traffic_.fresh(kOutput + i % kBlockSize)));
    std::vector<Tokens> tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(traffic_.fresh(live_));
    hits_ = 0;
    const std::uint64_t before = held();
    const auto start = Clock::now();
    for (const Tokens& each : tokens) engine_.step(running_, each);
    const std::int64_t ns = since(start);
    taken_ = held() - before;
    finish_all();
    return ns;
  }

  std::int64_t hit(std::uint32_t count) {
    const Tokens prompt = traffic_.fresh(kPrompt);
    engine_.finish(admit(prompt));
    hits_ = 0;
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < count; ++i) engine_.finish(admit(prompt));
    const std::int64_t ns = since(start);
    taken_ = std::uint64_t{count} * (kPrompt / kBlockSize) - hits_ / kBlockSize;
    return ns;
  }

  Traffic traffic_;
  std::uint32_t live_;  // requests at one time
  std::vector<Request> running_;
  std::uint64_t hits_ = 0, taken_ = 0;  // [tokens], [blocks] of the command
  Engine engine_;
};

/// Answers the lines that follow `start`, of which the words after the engine's name are left.
template <class Engine>
void serve(std::istream& words) {
  std::uint32_t num_blocks = 0, live = 0, prefixes = 0;
  std::uint64_t seed = 0;
  words >> num_blocks >> live >> prefixes >> seed;
  if (!words || live == 0 || prefixes == 0) throw std::invalid_argument("start: expected numbers");
  Worker<Engine> worker(num_blocks, live, prefixes, seed);
  std::cout << "ready=1" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string command;
    std::uint32_t count = 0;
    in >> command >> count;
    std::cout << worker.perform(command, count) << std::endl;
  }
}

/// The body of main(). @param serve_engine is told the engine's name, and the words behind it
template <class ServeEngine>
int run_worker(const char* program, const ServeEngine& serve_engine) {
  try {
    std::string line, start, engine;
    std::getline(std::cin, line);
    std::istringstream words(line);
    words >> start >> engine;
    if (start != "start") throw std::invalid_argument("expected start, ENGINE and four numbers");
    serve_engine(engine, words);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 2;
  }
}

}  // namespace kvproof::bench
