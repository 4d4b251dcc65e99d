// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/same_state.h"

#include <cmath>
#include <string>
#include <utility>

namespace kvproof::properties {
namespace {

std::string whose(const ComparedParts& compared) { return say(compared.whose, " "); }

Finding compare_blocks(const PoolState& expected, const PoolState& shown,
                       const ComparedParts& compared) {
  if (expected.blocks.size() != shown.blocks.size()) {
    return say("there are ", shown.blocks.size(), " blocks, ", whose(compared),
               expected.blocks.size());
  }
  for (std::size_t b = 0; b < expected.blocks.size(); ++b) {
    const BlockState& m = expected.blocks[b];
    const BlockState& s = shown.blocks[b];
    if (b != kNullBlock && m.ref_cnt != s.ref_cnt) {
      return say("block ", BlockId(b), " has ", s.ref_cnt, " references, ", whose(compared),
                 m.ref_cnt);
    }
    if (m.hashed != s.hashed) {
      return say("block ", BlockId(b), s.hashed ? " carries a key" : " carries no key", ", unlike ",
                 compared.whose);
    }
    if (compared.index && m.tail_key.has_value() != s.tail_key.has_value()) {
      return say("block ", BlockId(b),
                 s.tail_key ? " carries a second key" : " carries no second key", ", unlike ",
                 compared.whose);
    }
  }
  if (compared.index && expected.further_keys.size() != shown.further_keys.size()) {
    return say(shown.further_keys.size(), " blocks carry a third key, ", whose(compared),
               expected.further_keys.size());
  }
  return std::nullopt;
}

Finding compare_index(const PoolState& expected, const PoolState& shown,
                      const ComparedParts& compared) {
  if (expected.index.size() != shown.index.size()) {
    return say("the index has ", shown.index.size(), " keys, ", whose(compared),
               expected.index.size());
  }
  for (std::size_t i = 0; i < expected.index.size(); ++i) {
    if (expected.index[i].blocks != shown.index[i].blocks ||
        expected.index[i].group != shown.index[i].group) {
      Sentence out = say("one key has blocks ", list_of(shown.index[i].blocks), ", ",
                         whose(compared), list_of(expected.index[i].blocks));
      out.about.blocks = shown.index[i].blocks;
      return out;
    }
  }
  return std::nullopt;
}

Finding compare_requests(const Snapshot& expected, const Snapshot& shown,
                         const ComparedParts& compared) {
  if (expected.requests.size() != shown.requests.size()) {
    return say(shown.requests.size(), " requests are known, ", whose(compared),
               expected.requests.size());
  }
  for (std::size_t i = 0; i < expected.requests.size(); ++i) {
    const RequestState& m = expected.requests[i];
    const RequestState& s = shown.requests[i];
    if (m.name != s.name)
      return say("request ", Named{s.name}, " is known, ", whose(compared), m.name);
    if (m.num_tokens != s.num_tokens || m.computed != s.computed) {
      return say("request ", Named{s.name}, " has ", s.computed, " of ", s.num_tokens,
                 " tokens computed, ", whose(compared), m.computed, " of ", m.num_tokens);
    }
    if (m.tables != s.tables) {
      return say("the tables of ", Named{s.name}, " are ", lists_of(s.tables), ", ",
                 whose(compared), lists_of(m.tables));
    }
    if (m.host_tables != s.host_tables) {
      return say("the host tables of ", Named{s.name}, " are ", lists_of(s.host_tables), ", ",
                 whose(compared), lists_of(m.host_tables));
    }
    if (compared.progress && m.progress != s.progress)
      return say("the cache progress of ", Named{s.name}, " is not what it is ", compared.whose);
  }
  return std::nullopt;
}

Finding compare_pools(const PoolState& expected, const PoolState& shown,
                      const ComparedParts& compared) {
  if (expected.num_free != shown.num_free || expected.queue != shown.queue) {
    return say("the free queue is ", list_of(shown.queue), ", ", whose(compared),
               list_of(expected.queue));
  }
  if (std::abs(expected.usage - shown.usage) > 1e-12) {
    return say("usage is ", shown.usage, ", ", whose(compared), expected.usage);
  }
  if (Finding finding = compare_blocks(expected, shown, compared)) return finding;
  return compared.index ? compare_index(expected, shown, compared) : std::nullopt;
}

Finding compare_counters(const Snapshot& expected, const Snapshot& shown,
                         const ComparedParts& compared) {
  if (!compared.counters) return std::nullopt;
  if (!shown.counters || !shown.work) return "no counters are shown";
  for (std::size_t b = 0; b < expected.blocks.size(); ++b) {
    if (expected.blocks[b].prefix_tokens == shown.blocks[b].prefix_tokens) continue;
    return say("the key of block ", BlockId(b), " covers ", shown.blocks[b].prefix_tokens,
               " tokens, ", whose(compared), expected.blocks[b].prefix_tokens);
  }
  const HitCounters& hits = *shown.counters;
  if (hits != *expected.counters) {
    return say(hits.hit_tokens, " of ", hits.lookup_tokens, " tokens are counted as hit, ",
               whose(compared), expected.counters->hit_tokens, " of ",
               expected.counters->lookup_tokens);
  }
  const auto differ = [&](const char* what, std::uint64_t WorkCounters::*count) -> Finding {
    if ((*shown.work).*count == (*expected.work).*count) return std::nullopt;
    return say((*shown.work).*count, " ", what, " are counted, ", whose(compared),
               (*expected.work).*count);
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
  if (shown.work->lifetime != expected.work->lifetime || shown.work->idle != expected.work->idle) {
    return say("the histograms of how long blocks lived and lay idle are not what they are ",
               compared.whose);
  }
  return std::nullopt;
}

}  // namespace

Finding difference(const Snapshot& expected, const Snapshot& shown, Occasions parts,
                   const ComparedParts& compared) {
  if ((parts & on::pool) != 0) {
    if (Finding finding = compare_pools(expected, shown, compared)) return finding;
  }
  if ((parts & on::host) != 0) {
    if (Finding finding = compare_pools(expected.host, shown.host, compared)) {
      return "in the host tier " + *finding;
    }
  }
  if (expected.raw != shown.raw) {
    return say("the raw owner holds ", list_of(shown.raw), ", ", whose(compared),
               list_of(expected.raw));
  }
  if (expected.copying != shown.copying) {
    return say("copies hold ", list_of(shown.copying), ", ", whose(compared),
               list_of(expected.copying));
  }
  if (expected.leases != shown.leases) {
    return say("there are ", shown.leases.size(), " leases, ", whose(compared),
               expected.leases.size(), ", or they list other blocks");
  }
  if ((parts & on::of_requests) != 0) {
    if (Finding finding = compare_requests(expected, shown, compared)) return finding;
  }
  const bool counted = (parts & (on::pool | on::counters)) != 0;
  return counted ? compare_counters(expected, shown, compared) : std::nullopt;
}

}  // namespace kvproof::properties
