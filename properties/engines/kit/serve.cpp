// SPDX-License-Identifier: Apache-2.0
#include "properties/engines/kit/serve.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "optimized/subjects.h"
#include "properties/caller/promises.h"
#include "properties/engines/kit/plugin.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

/// Answers lines: a header line begins a new manager, other lines are operations.
class Server {
 public:
  virtual ~Server() = default;
  virtual std::string begin(const std::string& header) = 0;
  virtual std::string perform(const std::string& operation) = 0;
};

class PluginServer final : public Server {
 public:
  explicit PluginServer(const std::string& path) : plugin_(open_plugin(path)) {}

  std::string begin(const std::string& header) override {
    if (subject_ != nullptr) plugin_.destroy(subject_);
    const char* promises = nullptr;
    subject_ = plugin_.create(header.c_str(), &promises);
    return promises != nullptr ? promises : "";
  }

  // The texts are spliced and not parsed; the reader finds out whether they are JSON.
  std::string perform(const std::string& operation) override {
    if (subject_ == nullptr) return {};
    const std::string answer = text(plugin_.apply(subject_, operation.c_str()));
    const std::size_t end = answer.rfind('}');
    const std::size_t last = end == 0 || end == std::string::npos
                                 ? std::string::npos
                                 : answer.find_last_not_of(" \t", end - 1);
    if (last == std::string::npos) return answer;
    const char* comma = answer[last] == '{' ? "" : ",";
    return answer.substr(0, end) + comma + "\"state\":" + text(plugin_.observe(subject_)) + "}";
  }

 private:
  static std::string text(const char* line) { return line != nullptr ? line : ""; }

  Plugin plugin_;
  kvproof_subject* subject_ = nullptr;
};

class OwnServer final : public Server {
 public:
  explicit OwnServer(const optimized::SubjectRow& row) : row_(row) {}

  std::string begin(const std::string& line) override {
    const TraceHeader header = parse_trace_line(line).header;
    if (!header.unsupported.empty()) {
      return nlohmann::json{{"unsupported", true}, {"reason", header.unsupported}}.dump();
    }
    subject_ = row_.make(header.config);
    Promises promises;
    promises.profile = header.config.profile.name;
    promises.events = true;
    return promises_json(promises);
  }

  std::string perform(const std::string& line) override {
    const Outcome outcome = subject_->apply(parse_trace_line(line).operation);
    subject_->observe(state_);
    return to_json(outcome, state_);
  }

 private:
  const optimized::SubjectRow& row_;
  std::unique_ptr<Subject> subject_;
  Snapshot state_;
};

std::unique_ptr<Server> make_server(const std::string& what) {
  if (const auto* row = optimized::find_subject(what)) return std::make_unique<OwnServer>(*row);
  return std::make_unique<PluginServer>(what);
}

}  // namespace

int serve(const std::string& what) {
  // Output of the library must not come between the answers.
  std::FILE* answers = fdopen(dup(STDOUT_FILENO), "w");
  if (answers == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2;
  const auto say_line = [answers](const std::string& line) {
    std::fwrite(line.data(), 1, line.size(), answers);
    std::fputc('\n', answers);
    std::fflush(answers);
  };
  std::unique_ptr<Server> server;
  std::string error;
  try {
    server = make_server(what);
  } catch (const PluginError& refused) {
    error = nlohmann::json{{"error", refused.what()}}.dump();
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (server == nullptr) {
      say_line(error);
    } else if (line.find("\"kvproof_trace\"") != std::string::npos) {
      say_line(server->begin(line));
    } else {
      say_line(server->perform(line));
    }
  }
  return 0;
}

}  // namespace kvproof::properties
