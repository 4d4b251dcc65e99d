// SPDX-License-Identifier: Apache-2.0
// The example library with a mistake, for the tests; $KVPROOF_BREAK says which.
#define kvproof_subject_abi sound_abi
#define kvproof_subject_create sound_create
#define kvproof_subject_apply sound_apply
#define kvproof_subject_observe sound_observe
#include "properties/engines/kit/examples/paged_pool.cpp"
#undef kvproof_subject_abi
#undef kvproof_subject_create
#undef kvproof_subject_apply
#undef kvproof_subject_observe

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

bool breaks(const std::string& how) {
  const char* wanted = std::getenv("KVPROOF_BREAK");
  return wanted != nullptr && how == wanted;
}

/// Counts the tables that hold blocks. The mistake is made once there are two.
std::vector<std::vector<std::size_t>*> held(kvproof_subject& subject) {
  std::vector<std::vector<std::size_t>*> out;
  for (auto& [name, r] : subject.requests) {
    if (!r.table.empty()) out.push_back(&r.table);
  }
  return out;
}

[[noreturn]] void fill_memory() {
  std::vector<std::vector<char>> out;
  while (true) out.emplace_back(1U << 20U, 'x');
}

}  // namespace

extern "C" {

uint32_t kvproof_subject_abi() {
  if (breaks("start")) sleep(1000);
  return breaks("version") ? 99 : sound_abi();
}

// It may say how many requests it holds, and that it takes no appends.
kvproof_subject* kvproof_subject_create(const char* header, const char** promises) {
  static std::string said;
  kvproof_subject* out = sound_create(header, promises);
  said = *promises;
  if (breaks("declared_full")) said.insert(1, R"("capacity":{"requests":2},)");
  if (breaks("declared_moods")) {
    said.insert(1, R"("declines":[{"operation":"append","reason":"not now"}],)");
  }
  *promises = said.c_str();
  return out;
}

const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) {
  std::puts("what a library prints is no answer");
  static int asked = 0;
  const json read = json::parse(operation);
  const bool arrives = read["op"] == "arrive" && subject->requests.size() >= 2;
  if (arrives && (breaks("full") || breaks("declared_full"))) return R"({"out":{"error":"full"}})";
  const bool moody = read["op"] == "append" && ++asked % 8 == 0;
  if (moody && (breaks("moods") || breaks("declared_moods"))) return R"({"out":{"error":"no"}})";
  if (moody && breaks("says_unsupported")) return R"({"unsupported":true,"reason":"no"})";
  if (read["op"] == "append" && breaks("never_appends")) return R"({"unsupported":true})";
  const char* answer = sound_apply(subject, operation);
  if (read["op"] != "allocate" || held(*subject).size() < 2) return answer;
  if (breaks("crash")) std::abort();
  if (breaks("hang")) sleep(1000);
  if (breaks("memory")) fill_memory();
  if (breaks("nonsense")) return "{\"out\": [\"no\", }";
  if (breaks("null")) return nullptr;
  if (breaks("flood")) return (subject->answer = std::string(8U << 20U, '[') + "}").c_str();
  return answer;
}

const char* kvproof_subject_observe(kvproof_subject* subject) {
  const auto tables = held(*subject);
  const bool two = tables.size() == 2;
  if (two && breaks("double_hand_out")) tables[1]->front() = tables[0]->front();
  if (two && breaks("leak") && !subject->pool.free_blocks.empty()) {
    subject->pool.free_blocks.pop_back();
  }
  return sound_observe(subject);
}

}  // extern "C"
