// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/calls.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "bench/gate/collected.h"
#include "bench/gate/direct_manager.h"
#include "bench/storage/calls_as_operations.h"
#include "optimized/subjects.h"
#include "properties/engines/kit/engine_book.h"
#include "reference/operations.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

using properties::DirectPlugin;

template <class Manager>
DirectPlugin calls_of(decltype(DirectPlugin::create) create) {
  using M = DirectManager<Manager>;
  return {create,    M::destroy,  M::arrive, M::append, M::advance,
          M::lookup, M::allocate, M::free,   M::finish};
}

/// The direct section of a row of the list, or of a library.
std::optional<DirectPlugin> find_direct(const std::string& subject) {
  const optimized::SubjectRow* row = optimized::find_subject(subject);
  if (row == nullptr) return properties::open_direct(subject);
  std::optional<DirectPlugin> out;
  optimized::visit_manager(*row, [&](auto digest) {
    using Manager = optimized::CacheManager<typename decltype(digest)::type>;
    out = calls_of<Manager>(DirectManager<Manager>::create);
  });
  return out;
}

/// Calls a subject through operations; only the part of a call that is the subject's is bracketed.
class BracketedCalls : public CallsAsOperations {
 protected:
  explicit BracketedCalls(const Brackets& bracketed)
      : CallsAsOperations("r", false), bracketed_(bracketed) {}

  const Brackets& bracketed_;

 private:
  Result perform(const Operation& operation) final {
    Result result = answer(operation);
    if (is_undone(result)) throw BadAnswer(error_text(result));
    const bool looks_up = std::holds_alternative<op::Lookup>(operation);
    if (looks_up && !std::holds_alternative<Hit>(result)) {
      throw BadAnswer("its answer to a lookup is none");
    }
    return result;
  }
  virtual Result answer(const Operation& operation) = 0;
};

class OwnCalls final : public BracketedCalls {
 public:
  OwnCalls(const optimized::SubjectRow& row, const CacheConfig& config, const Brackets& bracketed)
      : BracketedCalls(bracketed), subject_(bracketed([&] { return row.make(config); })) {}

 private:
  Result answer(const Operation& operation) override {
    return bracketed_([&] { return subject_->apply(operation); }).result;
  }

  std::unique_ptr<Subject> subject_;
};

class LinesOfCalls final : public BracketedCalls {
 public:
  LinesOfCalls(const properties::Plugin& plugin, const char* header, const Brackets& bracketed)
      : BracketedCalls(bracketed), plugin_(plugin) {
    const char* promises = nullptr;
    subject_ = bracketed([&] { return plugin_.create(header, &promises); });
    if (subject_ == nullptr) throw BadAnswer("it cannot be built for this workload");
    looks_up_ = promises != nullptr && std::strstr(promises, "\"lookup\"") != nullptr;
    if (promises != nullptr && properties::is_of_level_engine(promises)) {
      begin(properties::parse_promises(promises), parse_trace_line(header).header.config);
    }
  }
  ~LinesOfCalls() override { plugin_.destroy(subject_); }
  LinesOfCalls(const LinesOfCalls&) = delete;
  LinesOfCalls& operator=(const LinesOfCalls&) = delete;

 private:
  Result answer(const Operation& operation) override {
    if (!looks_up_ && std::holds_alternative<op::Lookup>(operation)) return Hit{};
    const TraceLine parsed =
        engine_ ? engine_->perform(operation) : parse_answer(operation, ask(to_json(operation)));
    if (!parsed.unsupported.empty()) {
      throw BadAnswer("it does not perform " + to_json(operation).substr(0, 80));
    }
    if (engine_) book_->fold(operation, parsed.result.value_or(Result()));
    return parsed.result.value_or(Result());
  }

  const char* ask(const std::string& line) {
    const char* answer = bracketed_([&] { return plugin_.apply(subject_, line.c_str()); });
    if (answer == nullptr) throw BadAnswer("no answer to " + line.substr(0, 80));
    return answer;
  }
  /// Keeps the book of an adapter that answers calls of hooks.
  void begin(const properties::Promises& says, const CacheConfig& config) {
    const std::string reason = properties::EngineBook::why_not(config, says);
    if (!reason.empty()) throw BadAnswer("it cannot be built for this workload: " + reason);
    book_.emplace(config, says.traits);
    engine_.emplace(config, says, *book_, [this](const std::string& line) { return ask(line); });
    engine_->build();
  }

  std::optional<properties::CallerBook> book_;
  std::optional<properties::EngineBook> engine_;
  properties::Plugin plugin_;
  kvproof_subject* subject_ = nullptr;
  bool looks_up_ = false;  // it declares that operation
};

template <class Made, class... Arguments>
kvproof_direct* make_calls(const Arguments&... arguments) {
  CallsAsOperations* const made = new Made(arguments...);
  return reinterpret_cast<kvproof_direct*>(made);
}

}  // namespace

bool has_direct(const std::string& subject) { return find_direct(subject).has_value(); }

Calls find_calls(const std::string& subject, CallStyle way, Brackets& brackets) {
  if (way == CallStyle::direct) {
    const auto found = find_direct(subject);
    if (!found) throw properties::PluginError(say(subject, ": has no direct section"));
    return {*found, found->create, &brackets, false};
  }
  Calls out{calls_of<CallsAsOperations>(nullptr), {}, &brackets, true};
  if (const auto* row = optimized::find_subject(subject)) {
    out.create = [row, &brackets](const char* header, std::uint32_t) {
      const CacheConfig config = parse_trace_line(header).header.config;
      return make_calls<OwnCalls>(*row, config, brackets);
    };
  } else {
    out.create = [plugin = properties::open_plugin(subject), &brackets](const char* header,
                                                                        std::uint32_t) {
      return make_calls<LinesOfCalls>(plugin, header, brackets);
    };
  }
  return out;
}

}  // namespace kvproof::bench
