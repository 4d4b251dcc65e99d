// SPDX-License-Identifier: Apache-2.0
#include "bench/allocator/in_python/lockstep.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kTokensPerBlock = 16;

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

}  // namespace

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
  if (number(answer, "taken") != tokens / kTokensPerBlock) {
    throw std::logic_error("decode step: " + engine_ + " took other blocks than its tokens need");
  }
  return static_cast<double>(number(answer, "ns")) / static_cast<double>(tokens);
}

}  // namespace kvproof::bench
