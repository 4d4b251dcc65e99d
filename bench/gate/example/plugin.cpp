// SPDX-License-Identifier: Apache-2.0
// The allocator as kvproof sees it: lines of JSON for `kvproof check`, direct calls for `kvproof
// gate`.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "allocator.h"
#include "properties/foreign/kvproof_subject.h"

using nlohmann::json;

namespace {

const char* const kNothingElse = R"({"unsupported":true,"reason":"one group of full attention"})";
const char* const kPromises =
    R"({"promises":"safety","block_ids":true,"operations":)"
    R"(["arrive","append","advance","lookup","allocate","free","finish"]})";

/// @return whether the header asks for something that this allocator is
bool read_header(const char* header, mine::Config& out) {
  const json config = json::parse(header)["config"];
  const json& groups = config["groups"];
  const bool full = groups[0]["kind"] == "full" || groups[0]["kind"] == "mla";
  if (groups.size() != 1 || !full || groups[0].value("eagle", false)) return false;
  out = {config["num_blocks"], groups[0]["block_size"], config["max_model_len"],
         config["enable_caching"]};
  return true;
}

json table_of(const mine::Request& r) { return json::array({r.table}); }

}  // namespace

struct kvproof_subject {
  explicit kvproof_subject(const mine::Config& config) : allocator(config) {}

  json arrive(const json& o) {
    const std::vector<std::int32_t> tokens = o["tokens"];
    const bool extra = o.contains("extra") && !o["extra"].empty();
    const bool sharing = !extra && !o.value("skip_lookup", false);
    requests[o["req"]] = allocator.arrive(tokens.data(), tokens.size(), sharing);
    return json::object();
  }

  json lookup(std::uint32_t request) {
    const std::uint32_t tokens = allocator.lookup(request);
    return {{"out",
             {{"hit_tokens", tokens}, {"blocks", json::array({allocator.request(request).hits})}}}};
  }

  json allocate(const json& o, std::uint32_t request) {
    if (o["external"] > 0) return {{"unsupported", true}};
    const std::uint32_t new_tokens = o["new_tokens"], lookahead = o["lookahead"];
    std::uint32_t taken = 0;
    const auto came = allocator.allocate(request, new_tokens + lookahead, o["use_lookup"],
                                         o["full_sequence_must_fit"], taken);
    if (came == mine::Allocator::Answer::refused) return {{"out", nullptr}};
    if (came == mine::Allocator::Answer::stale) return {{"out", {{"error", "a stale look-up"}}}};
    const auto& table = allocator.request(request).table;
    const std::vector<std::uint32_t> grown(table.end() - taken, table.end());
    return {{"out", {{"blocks", json::array({grown})}}}};
  }

  json apply(const json& o) {
    const std::string op = o["op"];
    if (op == "arrive") return arrive(o);
    const std::uint32_t request = requests.at(o["req"]);
    if (op == "lookup") return lookup(request);
    if (op == "allocate") return allocate(o, request);
    if (op == "append") {
      const std::vector<std::int32_t> tokens = o["tokens"];
      allocator.append(request, tokens.data(), tokens.size());
    }
    if (op == "advance") allocator.advance(request, o["computed"]);
    if (op == "free") allocator.free(request);
    if (op == "finish") allocator.finish(request);
    if (op == "finish") requests.erase(o["req"]);
    return json::object();
  }

  json observe() const {
    json out = {{"free", allocator.num_free()},
                {"ref", json::array()},
                {"queue", json::array()},
                {"tables", json::object()}};
    for (std::uint32_t b = 1; b < allocator.config().num_blocks; ++b) {
      if (allocator.block(b).refs > 0) out["ref"].push_back({b, allocator.block(b).refs});
    }
    for (std::uint32_t b = allocator.block(0).next; b != 0; b = allocator.block(b).next) {
      out["queue"].push_back(b);
    }
    for (const auto& [name, number] : requests) {
      out["tables"][name] = table_of(allocator.request(number));
    }
    return out;
  }

  mine::Allocator allocator;
  std::map<std::string, std::uint32_t> requests;
  std::string answer;  // lives until the next call
};

uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }
kvproof_subject* kvproof_subject_create(const char* header, const char** promises) {
  mine::Config config;
  const bool can = read_header(header, config);
  *promises = can ? kPromises : kNothingElse;
  return can ? new kvproof_subject(config) : nullptr;
}
const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) {
  return (subject->answer = subject->apply(json::parse(operation)).dump()).c_str();
}
const char* kvproof_subject_observe(kvproof_subject* subject) {
  return (subject->answer = subject->observe().dump()).c_str();
}
void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }

// ---- the direct section: the allocator and nothing else -----------------------------------------

struct kvproof_direct : mine::Allocator {
  using Allocator::Allocator;
};

uint32_t kvproof_direct_abi() { return KVPROOF_DIRECT_ABI; }
kvproof_direct* kvproof_direct_create(const char* header, uint32_t /*max_requests*/) {
  mine::Config config;
  return read_header(header, config) ? new kvproof_direct(config) : nullptr;
}
void kvproof_direct_destroy(kvproof_direct* subject) { delete subject; }
kvproof_direct_request kvproof_direct_arrive(kvproof_direct* subject, const int32_t* tokens,
                                             uint32_t num_tokens) {
  return subject->arrive(tokens, num_tokens);
}
void kvproof_direct_append(kvproof_direct* subject, kvproof_direct_request request,
                           const int32_t* tokens, uint32_t num_tokens) {
  subject->append(request, tokens, num_tokens);
}
void kvproof_direct_advance(kvproof_direct* subject, kvproof_direct_request request,
                            uint32_t computed) {
  subject->advance(request, computed);
}
uint32_t kvproof_direct_lookup(kvproof_direct* subject, kvproof_direct_request request) {
  return subject->lookup(request);
}
int64_t kvproof_direct_allocate(kvproof_direct* subject, kvproof_direct_request request,
                                const kvproof_direct_allocation* arguments) {
  uint32_t taken = 0;
  const auto answer =
      subject->allocate(request, arguments->new_tokens, arguments->use_lookup != 0, false, taken);
  return answer == mine::Allocator::Answer::granted ? int64_t{taken} : -1;
}
void kvproof_direct_free(kvproof_direct* subject, kvproof_direct_request request) {
  subject->free(request);
}
void kvproof_direct_finish(kvproof_direct* subject, kvproof_direct_request request) {
  subject->finish(request);
}
