// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/calls.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "bench/gate/collected.h"
#include "bench/gate/direct_manager.h"
#include "optimized/subjects.h"
#include "reference/operations.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

using properties::DirectPlugin;

template <class Digest>
DirectPlugin direct_calls() {
  using M = DirectManager<Digest>;
  return {M::create, M::destroy,  M::arrive, M::append, M::advance,
          M::lookup, M::allocate, M::free,   M::finish};
}

/// The direct section of a row of the list, or of a library.
std::optional<DirectPlugin> find_direct(const std::string& subject) {
  const optimized::SubjectRow* row = optimized::find_subject(subject);
  if (row == nullptr) return properties::open_direct(subject);
  std::optional<DirectPlugin> out;
  optimized::visit_manager(
      *row, [&](auto digest) { out = direct_calls<typename decltype(digest)::type>(); });
  return out;
}

/// Calls a subject through operations; only the part of a call that is the subject's is bracketed.
class Performer {
 public:
  virtual ~Performer() = default;
  virtual Result perform(const Operation& operation) = 0;
};

class OwnPerformer final : public Performer {
 public:
  OwnPerformer(const optimized::SubjectRow& row, const CacheConfig& config,
               const Brackets& bracketed)
      : bracketed_(bracketed), subject_(bracketed([&] { return row.make(config); })) {}
  Result perform(const Operation& operation) override {
    return bracketed_([&] { return subject_->apply(operation); }).result;
  }

 private:
  const Brackets& bracketed_;
  std::unique_ptr<Subject> subject_;
};

class LinesPerformer final : public Performer {
 public:
  LinesPerformer(const properties::Plugin& plugin, const char* header, const Brackets& bracketed)
      : bracketed_(bracketed), plugin_(plugin) {
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
    const char* answer = bracketed_([&] { return plugin_.apply(subject_, line.c_str()); });
    if (answer == nullptr) throw BadAnswer("no answer to " + line.substr(0, 80));
    TraceLine parsed = parse_answer(operation, answer);
    if (parsed.unsupported.empty()) return parsed.result.value_or(Result());
    throw BadAnswer("it does not perform " + line.substr(0, 80));
  }

 private:
  const Brackets& bracketed_;
  properties::Plugin plugin_;
  kvproof_subject* subject_ = nullptr;
  bool looks_up_ = false;  // it declares that operation
};

/// The direct section in terms of operations.
struct ByOperations {
  std::unique_ptr<Performer> performer;
  kvproof_direct_request next = 0;

  static ByOperations& of(kvproof_direct* self) { return *reinterpret_cast<ByOperations*>(self); }
  static std::string name(kvproof_direct_request request) { return "r" + std::to_string(request); }

  static Result perform(kvproof_direct* self, const Operation& operation) {
    Result result = of(self).performer->perform(operation);
    if (is_undone(result)) throw BadAnswer(error_text(result));
    return result;
  }
  static kvproof_direct* create(std::unique_ptr<Performer> performer) {
    return reinterpret_cast<kvproof_direct*>(new ByOperations{std::move(performer)});
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
    args.has_scheduled = arguments->has_scheduled != 0;
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

bool has_direct(const std::string& subject) { return find_direct(subject).has_value(); }

Calls find_calls(const std::string& subject, CallStyle way, Brackets& brackets) {
  if (way == CallStyle::direct) {
    const auto found = find_direct(subject);
    if (!found) throw properties::PluginError(say(subject, ": has no direct section"));
    return {*found, found->create, &brackets, false};
  }
  using B = ByOperations;
  Calls out{{nullptr, B::destroy, B::arrive, B::append, B::advance, B::lookup, B::allocate, B::free,
             B::finish},
            {},
            &brackets,
            true};
  if (const auto* row = optimized::find_subject(subject)) {
    out.create = [row, &brackets](const char* header, std::uint32_t) {
      const CacheConfig config = parse_trace_line(header).header.config;
      return B::create(std::make_unique<OwnPerformer>(*row, config, brackets));
    };
  } else {
    out.create = [plugin = properties::open_plugin(subject), &brackets](const char* header,
                                                                        std::uint32_t) {
      return B::create(std::make_unique<LinesPerformer>(plugin, header, brackets));
    };
  }
  return out;
}

}  // namespace kvproof::bench
