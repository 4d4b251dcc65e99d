// SPDX-License-Identifier: Apache-2.0
// Compares a subject's answers and states with those of the naive manager.
#include "properties/oracles/model_oracle.h"

#include <cmath>
#include <utility>

#include "reference/contract.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

// Of a rejection, what was broken is compared, not the words.
bool same_answer(const Result& model, const Result& subject) {
  const auto* expected = std::get_if<Rejected>(&model);
  if (expected == nullptr) return model == subject;
  const auto* rejected = std::get_if<Rejected>(&subject);
  return rejected != nullptr && breach_of(rejected->error) == breach_of(expected->error);
}

Finding compare_blocks(const PoolState& model, const PoolState& subject, ComparedParts compared) {
  if (model.blocks.size() != subject.blocks.size()) {
    return say("the model has ", model.blocks.size(), " blocks, the subject ",
               subject.blocks.size());
  }
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    const BlockState& m = model.blocks[b];
    const BlockState& s = subject.blocks[b];
    if (b != kNullBlock && m.ref_cnt != s.ref_cnt) {
      return say("block ", b, " has ", s.ref_cnt, " references, in the model ", m.ref_cnt);
    }
    if (m.hashed != s.hashed) {
      return say("block ", b, s.hashed ? " carries a key" : " carries no key",
                 ", unlike in the model");
    }
    if (compared.index && m.tail_key.has_value() != s.tail_key.has_value()) {
      return say("block ", b, s.tail_key ? " carries a second key" : " carries no second key",
                 ", unlike in the model");
    }
  }
  if (compared.index && model.further_keys.size() != subject.further_keys.size()) {
    return say(subject.further_keys.size(), " blocks carry a third key, in the model ",
               model.further_keys.size());
  }
  return std::nullopt;
}

Finding compare_index(const PoolState& model, const PoolState& subject) {
  if (model.index.size() != subject.index.size()) {
    return say("the index has ", subject.index.size(), " keys, in the model ", model.index.size());
  }
  for (std::size_t i = 0; i < model.index.size(); ++i) {
    if (model.index[i].blocks != subject.index[i].blocks ||
        model.index[i].group != subject.index[i].group) {
      return say("one key has blocks ", list_of(subject.index[i].blocks), ", in the model ",
                 list_of(model.index[i].blocks));
    }
  }
  return std::nullopt;
}

Finding compare_requests(const Snapshot& model, const Snapshot& subject, ComparedParts compared) {
  if (model.requests.size() != subject.requests.size()) {
    return say(subject.requests.size(), " requests are known, in the model ",
               model.requests.size());
  }
  for (std::size_t i = 0; i < model.requests.size(); ++i) {
    const RequestState& m = model.requests[i];
    const RequestState& s = subject.requests[i];
    if (m.name != s.name)
      return say("request ", s.name, " is known where the model knows ", m.name);
    if (m.num_tokens != s.num_tokens || m.computed != s.computed) {
      return say("request ", s.name, " has ", s.computed, " of ", s.num_tokens,
                 " tokens computed, in the model ", m.computed, " of ", m.num_tokens);
    }
    if (m.tables != s.tables) {
      return say("the tables of ", s.name, " are ", lists_of(s.tables), ", in the model ",
                 lists_of(m.tables));
    }
    if (m.host_tables != s.host_tables) {
      return say("the host tables of ", s.name, " are ", lists_of(s.host_tables), ", in the model ",
                 lists_of(m.host_tables));
    }
    if (compared.progress && m.progress != s.progress)
      return say("the cache progress of ", s.name, " differs from the model's");
  }
  return std::nullopt;
}

Finding compare_pools(const PoolState& model, const PoolState& subject, ComparedParts compared) {
  if (model.num_free != subject.num_free || model.queue != subject.queue) {
    return say("the free queue is ", list_of(subject.queue), ", in the model ",
               list_of(model.queue));
  }
  if (std::abs(model.usage - subject.usage) > 1e-12) {
    return say("usage is ", subject.usage, ", in the model ", model.usage);
  }
  if (Finding finding = compare_blocks(model, subject, compared)) return finding;
  return compared.index ? compare_index(model, subject) : std::nullopt;
}

Finding compare_counters(const Snapshot& model, const Snapshot& subject, ComparedParts compared) {
  if (!compared.counters) return std::nullopt;
  if (!subject.counters || !subject.work) return "the subject shows no counters";
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    if (model.blocks[b].prefix_tokens == subject.blocks[b].prefix_tokens) continue;
    return say("the key of block ", b, " covers ", subject.blocks[b].prefix_tokens,
               " tokens, in the model ", model.blocks[b].prefix_tokens);
  }
  const HitCounters& hits = *subject.counters;
  if (hits != *model.counters) {
    return say(hits.hit_tokens, " of ", hits.lookup_tokens, " tokens are counted as hit, in the ",
               "model ", model.counters->hit_tokens, " of ", model.counters->lookup_tokens);
  }
  const auto differ = [&](const char* what, std::uint64_t WorkCounters::*count) -> Finding {
    if ((*subject.work).*count == (*model.work).*count) return std::nullopt;
    return say((*subject.work).*count, " ", what, " are counted, in the model ",
               (*model.work).*count);
  };
  for (const auto& [what, count] : {std::pair{"blocks taken", &WorkCounters::taken},
                                    {"evictions", &WorkCounters::evictions},
                                    {"revivals", &WorkCounters::revivals},
                                    {"refusals", &WorkCounters::refusals},
                                    {"preemptions", &WorkCounters::preemptions},
                                    {"copies", &WorkCounters::copies},
                                    {"blocks granted", &WorkCounters::granted},
                                    {"lost events", &WorkCounters::lost_events}}) {
    if (Finding finding = differ(what, count)) return finding;
  }
  if (Finding finding = compared.index ? differ("keys", &WorkCounters::keys) : std::nullopt) {
    return finding;
  }
  if (subject.work->lifetime != model.work->lifetime || subject.work->idle != model.work->idle) {
    return "the histograms of how long blocks lived and lay idle differ from the model's";
  }
  return std::nullopt;
}

}  // namespace

Occasions moved_by(const Snapshot& before, const Operation& operation, const Result& answer) {
  if (std::holds_alternative<Rejected>(answer)) return 0;
  if (std::holds_alternative<op::Lookup>(operation) ||
      std::holds_alternative<op::CommonPrefix>(operation)) {
    return 0;
  }
  if (std::holds_alternative<op::Step>(operation)) return before.copying.empty() ? 0 : on::any;
  if (std::holds_alternative<op::Arrive>(operation) ||
      std::holds_alternative<op::Append>(operation) ||
      std::holds_alternative<op::Advance>(operation)) {
    return on::of_requests;
  }
  return on::any;
}

Finding ModelOracle::follow(const Operation& operation, const Outcome& outcome,
                            const Snapshot& after, Occasions occasions) {
  const Outcome expected = model_.apply(operation);
  if (!same_answer(expected.result, outcome.result) || expected.events != outcome.events) {
    return say("the subject answered ", to_json(outcome), ", the model ", to_json(expected));
  }
  const Occasions moved = observed_ ? moved_by(state_, operation, expected.result) : on::any;
  observed_ = true;
  if (moved == on::any) {
    model_.observe(state_);
  } else if (moved != 0) {
    model_.observe_requests(state_.requests);
  }
  return compare(after, moved | occasions);
}

Finding ModelOracle::compare(const Snapshot& after, Occasions moved) const {
  if ((moved & on::pool) != 0) {
    if (Finding finding = compare_pools(state_, after, compared_)) return finding;
  }
  if ((moved & on::host) != 0) {
    if (Finding finding = compare_pools(state_.host, after.host, compared_)) {
      return "in the host tier " + *finding;
    }
  }
  if (state_.raw != after.raw) {
    return say("the raw owner holds ", list_of(after.raw), ", in the model ", list_of(state_.raw));
  }
  if (state_.copying != after.copying) {
    return say("copies hold ", list_of(after.copying), ", in the model ", list_of(state_.copying));
  }
  if (state_.leases != after.leases) {
    return say("there are ", after.leases.size(), " leases, in the model ", state_.leases.size(),
               ", or they list other blocks");
  }
  if ((moved & on::of_requests) != 0) {
    if (Finding finding = compare_requests(state_, after, compared_)) return finding;
  }
  const bool counted = (moved & (on::pool | on::counters)) != 0;
  return counted ? compare_counters(state_, after, compared_) : std::nullopt;
}

bool ModelOracle::performs(const Operation& operation) const {
  reference::CacheManager copy = model_;
  return !std::holds_alternative<Rejected>(copy.apply(operation).result);
}

}  // namespace kvproof::properties
