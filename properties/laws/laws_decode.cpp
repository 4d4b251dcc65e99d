// SPDX-License-Identifier: Apache-2.0
// The law of decode steps: a batch is its calls, one after the other. Another subject of the same
// kind makes those, and every other law judges it.
#include "properties/laws/law_scenes.h"
#include "properties/laws/same_state.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties::law {

Finding decode_is_three_calls(const Step& step) {
  const auto& calls = step.history.three_calls;
  if (!calls) return std::nullopt;
  if (step.outcome != calls->outcome) {
    return say(when::is<op::Decode>(step) ? "the batch" : "who decoded in batches", " answered ",
               to_json(step.outcome), ", ", calls->compared.whose, " it is ",
               to_json(calls->outcome));
  }
  if (step.after.counters != calls->state->counters) {
    return say("the hit counters are not what they are ", calls->compared.whose);
  }
  return difference(*calls->state, step.after, on::any, calls->compared);
}

namespace {
Decoded& decoded(Scene& s) { return std::get<Decoded>(s.outcome.result); }
}  // namespace

extern const Scenes decode_is_three_calls_scenes = {
    {"a refusal concealed", play::decode_batch, [](Scene& s) { decoded(s).refused.clear(); }},
    {"a refused one without its token", play::decode_batch,
     [](Scene& s) { --s.after.requests[1].num_tokens; }},
    {"a refused one that went on", play::decode_batch,
     [](Scene& s) { ++s.after.requests[1].computed; }},
    {"none behind a refused one", play::decode_batch,
     [](Scene& s) { s.after.requests[2] = s.before.requests[2]; }},
    {"a block for another request", play::decode_batch,
     [](Scene& s) { std::swap(decoded(s).blocks[0], decoded(s).blocks[2]); }},
    {"a block that is not in the table", play::decode_batch,
     [](Scene& s) { s.table(0).pop_back(); }},
    {"a free block too many", play::decode_batch, [](Scene& s) { ++s.after.num_free; }},
    {"a hit counted by a batch", play::decode_batch,
     [](Scene& s) { s.after.counters->hit_tokens += 1; }},
    {"nothing announced", play::decode_batch, [](Scene& s) { s.outcome.events.clear(); }},
};

}  // namespace kvproof::properties::law
