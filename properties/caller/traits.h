// SPDX-License-Identifier: Apache-2.0
// The list of traits: what a sound engine may do otherwise than the laws demand by default.
//
// Model:   a trait does not switch a law off; it replaces its wording by another, which is as
//          narrow and is judged as strictly.
// Default: the first value of each row is the strictest wording. Whoever declares nothing has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvproof::properties {

struct TraitValue {
  std::string_view name;  // empty = the row has no further value
  std::string_view sentence;
};

struct TraitRow {
  std::string_view name;
  std::array<TraitValue, 5> values;
  std::string_view read_by;  // laws, and what else reads it
  std::string_view engines;  // that declare another value than the first
};

// clang-format off
inline constexpr TraitRow kTraits[] = {
    {"duplicates",
     {{{"each_keeps",
        "Each block of equal content carries the key; lookups answer the one published first."},
       {"oldest_keeps", "Only the block that was published first carries the key."},
       {"newest_keeps",
        "The index names the block that was published last. An older one may go on saying that it "
        "carries the key, or say that it carries none."},
       {"table_repointed",
        "On publication the entry of the table becomes the block that the index has, and the "
        "duplicate is given back."},
       {"free_first",
        "The index names at least one copy. Lookups answer a free one that it names, if there is "
        "one, before those that are held. A copy that it does not name may go on saying that it "
        "carries the key, or say that it carries none."}}},
     "I13 (oldest_keeps, newest_keeps); I8, I9, I18, I25, C7 (newest_keeps, free_first); I16, "
     "content",
     "LightLLM (oldest_keeps); nano-vllm, ATOM (newest_keeps); SGLang, LMDeploy, vLLM V0; "
     "OpenVINO GenAI (free_first)"},
    {"reserves",
     {{{"chunk", "A grant takes the blocks of the tokens that it was asked for."},
       {"prompt",
        "A grant takes at least those, and at most the blocks of all tokens known at that time."}}},
     "I16, C14, C12", "nano-vllm, MinivLLM, ATOM, vLLM V0"},
    {"lookup",
     {{{"separate", "A lookup is a call of its own, and an admission uses what it found."},
       {"within_allocate",
        "An admission looks up by itself, and its answer says which hit it has used."}}},
     "the audit, which judges such an admission as a lookup and an allocation", "nano-vllm"},
    {"refusal",
     {{{"pure", "A refused allocation changes nothing."},
       {"may_evict",
        "A refused allocation may have evicted keys of blocks that nobody holds, nothing else."}}},
     "I20, C7, I21", "LMDeploy"},
    {"free_list",
     {{{"ordered", "The queue lists the free blocks in the order in which they will be taken."},
       {"set", "The order in which the queue lists the free blocks means nothing."}}},
     "I1, I20, I22, I24, I26, which then see the blocks in the order of their ids",
     "SGLang, LightLLM"},
    {"granularity",
     {{{"block", "A block has as many tokens as the header says."},
       {"token", "A page is one token: only managers with blocks of one token are asked for."},
       {"partial",
        "A block may carry the key of tokens that do not fill it, and a hit may end in it: only "
        "managers with a key for each token are asked for."}}},
     "the generator; I13, I18, C3, C10, content (partial)",
     "LightLLM (token); OpenVINO GenAI (partial)"},
};
// clang-format on
inline constexpr std::size_t kNumTraits = std::size(kTraits);

/// The value of each row that an engine has declared.
struct Traits {
  std::array<std::uint8_t, kNumTraits> value{};

  [[nodiscard]] bool oldest_keeps() const { return value[0] == 1; }
  [[nodiscard]] bool newest_keeps() const { return value[0] == 2; }
  [[nodiscard]] bool free_first() const { return value[0] == 4; }
  /// Whether the index may forget a copy for another one.
  [[nodiscard]] bool forgets_copies() const { return newest_keeps() || free_first(); }
  [[nodiscard]] bool table_repointed() const { return value[0] == 3; }
  [[nodiscard]] bool reserves_prompt() const { return value[1] == 1; }
  [[nodiscard]] bool looks_up_within() const { return value[2] == 1; }
  [[nodiscard]] bool refusal_may_evict() const { return value[3] == 1; }
  [[nodiscard]] bool free_list_is_a_set() const { return value[4] == 1; }
  [[nodiscard]] bool pages_are_tokens() const { return value[5] == 1; }
  [[nodiscard]] bool keys_are_partial() const { return value[5] == 2; }
  bool operator==(const Traits&) const = default;
};

/// Sets a trait by name. @return what was expected; empty if it was found
[[nodiscard]] std::string set_trait(Traits& traits, std::string_view name, std::string_view value);

/// "duplicates":"newest_keeps","reserves":"prompt"; empty if all are the first.
[[nodiscard]] std::string traits_text(const Traits& traits);

}  // namespace kvproof::properties
