// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/calls.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "bench/gate/collected.h"
#include "bench/gate/direct_manager.h"
#include "optimized/subjects.h"
#include "properties/say.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

using properties::DirectPlugin;
using properties::say;

template <class Digest>
DirectPlugin direct_calls() {
  using M = DirectManager<Digest>;
  return {M::create, M::destroy,  M::arrive, M::append, M::advance,
          M::lookup, M::allocate, M::free,   M::finish};
}

std::optional<DirectPlugin> own_direct(const std::string& subject) {
  if (subject == "optimized-xxh3") return direct_calls<optimized::Xxh3Digest>();
  if (subject == "optimized-sha256") return direct_calls<optimized::Sha256Digest>();
  return std::nullopt;
}

/// Whoever performs operations; only that part of a call is bracketed.
class Performer {
 public:
  virtual ~Performer() = default;
  virtual Result perform(const Operation& operation) = 0;
};

class OwnPerformer final : public Performer {
 public:
  explicit OwnPerformer(const optimized::SubjectRow& row, const CacheConfig& config)
      : subject_(bracketed([&] { return row.make(config); })) {}
  Result perform(const Operation& operation) override {
    return bracketed([&] { return subject_->apply(operation); }).result;
  }

 private:
  std::unique_ptr<Subject> subject_;
};

class LinesPerformer final : public Performer {
 public:
  LinesPerformer(const properties::Plugin& plugin, const char* header) : plugin_(plugin) {
    const char* promises = nullptr;
    subject_ = bracketed([&] { return plugin_.create(header, &promises); });
    if (subject_ == nullptr) throw BadAnswer("it cannot be built for this workload");
    looks_up_ = promises != nullptr && std::strstr(promises, "\"lookup\"") != nullptr;
  }
  ~LinesPerformer() override { plugin_.destroy(subject_); }
  LinesPerformer(const LinesPerformer&) = delete;
  LinesPerformer& operator=(const LinesPerformer&) = delete;

  Result perform(const Operation& operation) override {
    if (!looks_up_ && std::holds_alternative<op::Lookup>(operation)) return Hit{};
    const std::string line = to_json(operation);
    const char* answer = bracketed([&] { return plugin_.apply(subject_, line.c_str()); });
    if (answer == nullptr) throw BadAnswer("no answer to " + line.substr(0, 80));
    TraceLine parsed = parse_answer(operation, answer);
    if (parsed.unsupported.empty()) return parsed.result.value_or(Result());
    throw BadAnswer("it does not perform " + line.substr(0, 80));
  }

 private:
  properties::Plugin plugin_;
  kvproof_subject* subject_ = nullptr;
  bool looks_up_ = false;  // it declares that operation
};

// One subject in a process: the functions of the header carry no state of their own.
const optimized::SubjectRow* own_row = nullptr;
properties::Plugin plugin;

/// The direct section in terms of operations.
struct ByOperations {
  std::unique_ptr<Performer> performer;
  kvproof_direct_request next = 0;

  static ByOperations& of(kvproof_direct* self) { return *reinterpret_cast<ByOperations*>(self); }
  static std::string name(kvproof_direct_request request) { return "r" + std::to_string(request); }

  static Result perform(kvproof_direct* self, const Operation& operation) {
    Result result = of(self).performer->perform(operation);
    if (const auto* rejected = std::get_if<Rejected>(&result)) throw BadAnswer(rejected->error);
    return result;
  }
  static kvproof_direct* create(const char* header, std::uint32_t /*max_requests*/) {
    auto out = std::make_unique<ByOperations>();
    if (own_row != nullptr) {
      out->performer =
          std::make_unique<OwnPerformer>(*own_row, parse_trace_line(header).header.config);
    } else {
      out->performer = std::make_unique<LinesPerformer>(plugin, header);
    }
    return reinterpret_cast<kvproof_direct*>(out.release());
  }
  static void destroy(kvproof_direct* self) { delete &of(self); }
  static kvproof_direct_request arrive(kvproof_direct* self, const std::int32_t* tokens,
                                       std::uint32_t num_tokens) {
    op::Arrive arrive;
    arrive.req = name(of(self).next);
    arrive.tokens.assign(tokens, tokens + num_tokens);
    perform(self, arrive);
    return of(self).next++;
  }
  static void append(kvproof_direct* self, kvproof_direct_request request,
                     const std::int32_t* tokens, std::uint32_t num_tokens) {
    perform(self, op::Append{name(request), {tokens, tokens + num_tokens}});
  }
  static void advance(kvproof_direct* self, kvproof_direct_request request,
                      std::uint32_t computed) {
    perform(self, op::Advance{name(request), computed});
  }
  static std::uint32_t lookup(kvproof_direct* self, kvproof_direct_request request) {
    const Result result = perform(self, op::Lookup{name(request)});
    const auto* hit = std::get_if<Hit>(&result);
    if (hit == nullptr) throw BadAnswer("its answer to a lookup is none");
    return hit->hit_tokens;
  }
  static std::int64_t allocate(kvproof_direct* self, kvproof_direct_request request,
                               const kvproof_direct_allocation* arguments) {
    AllocateArgs args;
    args.new_tokens = arguments->new_tokens;
    args.use_lookup = arguments->use_lookup != 0;
    args.has_scheduled = arguments->has_running != 0;
    args.status = static_cast<RequestStatus>(arguments->status);
    const Result result = perform(self, op::Allocate{name(request), args});
    const auto* granted = std::get_if<Granted>(&result);
    if (granted == nullptr) return -1;
    std::int64_t taken = 0;
    for (const auto& blocks : granted->blocks) taken += static_cast<std::int64_t>(blocks.size());
    return taken;
  }
  static void free(kvproof_direct* self, kvproof_direct_request request) {
    perform(self, op::Free{name(request)});
  }
  static void finish(kvproof_direct* self, kvproof_direct_request request) {
    perform(self, op::Finish{name(request)});
  }
};

}  // namespace

bool has_direct(const std::string& subject) {
  if (optimized::find_subject(subject) != nullptr) return own_direct(subject).has_value();
  return properties::open_direct(subject).has_value();
}

Calls find_calls(const std::string& subject, Way way) {
  own_row = optimized::find_subject(subject);
  if (way == Way::direct) {
    const auto found = own_row != nullptr ? own_direct(subject) : properties::open_direct(subject);
    if (!found) throw properties::PluginError(say(subject, ": has no direct section"));
    return {*found, false};
  }
  if (own_row == nullptr) plugin = properties::open_plugin(subject);
  using B = ByOperations;
  return {{B::create, B::destroy, B::arrive, B::append, B::advance, B::lookup, B::allocate, B::free,
           B::finish},
          true};
}

}  // namespace kvproof::bench
